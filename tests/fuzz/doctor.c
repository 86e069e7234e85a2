// Data that a listening doctor receives: from a stranger that waits for admission, while a caller with the token is
// served nevertheless; and from a caller that has the token. No bytes harm the doctor, and a stranger learns nothing.
//
// An input: a byte of choices, then the bytes of the stranger, or of the caller that has the token.
#include "doctor/peer/admission.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "doctor/peer/listener.h"
#include "doctor/peer/message.h"
#include "fuzz/support/fuzz.h"

enum {
  CHOICE_PROVEN = 1, // the bytes are of the caller that has the token
  CHOICE_MAGIC = 2,  // they begin as a message does
  CHOICE_BULK = 4,   // and what is to be sent back comes behind them
  LONG_MS = 10000,
  STEP_MS = 1000,
  MOST_RECEIVED = 1024, // bytes that a stranger receives: the first messages of TLS
};

static const uint8_t key[SECRET_KEY_SIZE] = "a key";

// The caller that has the token, in a thread of its own.
struct caller {
  int fd;
  uint8_t choices;
  struct fuzz_input input;
  size_t num_received;
};

static void send_all(struct caller *caller, const struct doctor_connection *connection, uint64_t deadline) {
  static const char magic[] = "weftdoc2";
  if (!(caller->choices & CHOICE_PROVEN))
    return;
  if (caller->choices & CHOICE_MAGIC)
    doctor_connection_send(connection, magic, 8, deadline);
  if (caller->input.size > 0)
    doctor_connection_send(connection, caller->input.data, caller->input.size, deadline);
  if (caller->choices & CHOICE_BULK) {
    char *bulk = calloc(1, DOCTOR_BULK);
    FUZZ_CHECK(bulk);
    doctor_connection_send(connection, bulk, DOCTOR_BULK, deadline);
    free(bulk);
  }
}

static void *call(void *arg) {
  struct caller *caller = arg;
  uint64_t deadline = clock_deadline_ms(LONG_MS);
  struct doctor_connection connection;
  char byte;
  FUZZ_CHECK(doctor_connection_open(&connection, caller->fd, true, key, deadline) == 0);
  send_all(caller, &connection, deadline);
  shutdown(caller->fd, SHUT_WR);
  while (doctor_connection_receive(&connection, &byte, 1, deadline))
    caller->num_received++;
  doctor_connection_close(&connection);
  return NULL;
}

static void pair_of(int fds[2]) {
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
}

static void add_waiting(struct doctor_admission *admission, int fd) {
  admission->waiting[admission->count++] =
      (struct doctor_waiting){.connection.fd = fd, .begun_ns = clock_ns(), .events = POLLIN};
}

static void check_stranger(int fd) {
  char bytes[2 * MOST_RECEIVED];
  size_t at = 0;
  for (ssize_t got; at < sizeof bytes && (got = recv(fd, bytes + at, sizeof bytes - at, MSG_DONTWAIT)) > 0;)
    at += (size_t)got;
  FUZZ_CHECK(at <= MOST_RECEIVED && !memmem(bytes, at, "weftdoc", 7));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct caller caller = {.input = {(const char *)data, size}};
  struct doctor_admission admission = {.key = key};
  struct doctor_connection connection;
  pthread_t thread;
  int stranger[2], lawful[2], stop = eventfd(0, EFD_CLOEXEC);
  fuzz_bytes(&caller.input, &caller.choices, sizeof caller.choices);
  pair_of(stranger);
  pair_of(lawful);
  add_waiting(&admission, stranger[0]);
  add_waiting(&admission, lawful[0]);
  caller.fd = lawful[1];
  if (!(caller.choices & CHOICE_PROVEN))
    send(stranger[1], caller.input.data, caller.input.size, MSG_NOSIGNAL | MSG_DONTWAIT);
  FUZZ_CHECK(pthread_create(&thread, NULL, call, &caller) == 0);
  FUZZ_CHECK(doctor_admission_wait(&admission, stop, &connection) && connection.fd == lawful[0]);
  doctor_answer(&connection, STEP_MS);
  doctor_connection_close(&connection);
  doctor_admission_close(&admission);
  pthread_join(thread, NULL);
  check_stranger(stranger[1]);
  FUZZ_CHECK(caller.num_received <= 2 * DOCTOR_MESSAGE + DOCTOR_BULK);
  FUZZ_CHECK(caller.num_received == 0 || caller.choices & CHOICE_PROVEN);
  close(stranger[1]);
  close(stop);
  return 0;
}
