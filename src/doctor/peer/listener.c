// Answers the probes of callers that have proved that they have the token.
#include "doctor/peer/listener.h"

#include "base/fail.h"
#include "base/time/clock.h"
#include "doctor/peer/address.h"
#include "doctor/peer/admission.h"
#include "doctor/peer/message.h"
#include "secure/lobby.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  FIRST_USER_PORT = 1024,
  AT_ONCE = 16,        // callers that are served, each with a thread and 256 KiB
  STEPS = 4,           // a caller may take as long as this many steps in all
  CALLS_A_SECOND = 16, // connections that this side makes to its callers, in all
  PAUSE_MS = 10        // between two checks whether it is a caller's turn
};

int doctor_listener_open(struct doctor_listener *listener, uint16_t port, const char *token) {
  uint8_t key[SECRET_KEY_SIZE];
  int err = secret_derive(token, DOCTOR_PROTOCOL, key);
  if (err)
    return err;
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT, .sin6_port = htons(port)};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = htons(port)};
  int fd = doctor_listen_at((struct sockaddr *)&six, sizeof six);
  if (fd < 0 && errno != EADDRINUSE) // a host without IPv6
    fd = doctor_listen_at((struct sockaddr *)&four, sizeof four);
  if (fd < 0 && errno == EADDRINUSE)
    return fail(WEFT_ERR_BUSY, "port %u is in use; --listen 0 takes any free one", port);
  if (fd < 0)
    return fail_errno(errno, "listening at port %u", port);
  *listener = (struct doctor_listener){.fd = fd, .port = doctor_port_of(fd)};
  err = lobby_open(&listener->lobby, fd, LOBBY_TLS, LOBBY_PLACES);
  if (err) {
    close(fd);
    return err;
  }
  memcpy(listener->key, key, sizeof key);
  explicit_bzero(key, sizeof key);
  return 0;
}

void doctor_listener_close(struct doctor_listener *listener) {
  lobby_close(listener->lobby);
  close(listener->fd);
  listener->fd = -1;
  explicit_bzero(listener->key, sizeof listener->key);
}

// Connects to a port of the caller and sends the nonce there. It connects only to the caller's own address, so that no
// caller can direct it to another host.
static enum doctor_reach call_back(int fd, const struct doctor_message *message, uint64_t deadline) {
  struct sockaddr_storage caller;
  socklen_t size = sizeof caller;
  struct doctor_connection back = {.fd = -1};
  int error = 0;
  if (message->back_port < FIRST_USER_PORT || getpeername(fd, (struct sockaddr *)&caller, &size) != 0)
    return DOCTOR_NOT_TRIED;
  if (caller.ss_family == AF_INET6)
    ((struct sockaddr_in6 *)&caller)->sin6_port = htons(message->back_port);
  else
    ((struct sockaddr_in *)&caller)->sin_port = htons(message->back_port);
  enum doctor_reach reach = doctor_connect((struct sockaddr *)&caller, size, deadline, &back.fd, &error);
  if (reach != DOCTOR_REACHED)
    return reach;
  struct doctor_message nonce = {0}; // and nothing else, as this connection is in clear
  memcpy(nonce.nonce, message->nonce, sizeof nonce.nonce);
  bool shown = doctor_message_send(&back, &nonce, deadline);
  doctor_connection_close(&back);
  return shown ? DOCTOR_REACHED : DOCTOR_SILENT;
}

static void echo_bulk(const struct doctor_connection *connection, uint64_t deadline) {
  char *bulk = malloc(DOCTOR_BULK);
  if (bulk && doctor_connection_receive(connection, bulk, DOCTOR_BULK, deadline))
    doctor_connection_send(connection, bulk, DOCTOR_BULK, deadline);
  free(bulk);
}

// --- callers that are served, each by a thread ---

struct callers {
  pthread_mutex_t lock;
  uint32_t timeout_ms;
  bool ending;
  uint64_t second_ns; // in which `calls` were made
  int calls;
  struct caller {
    struct callers *all;
    struct doctor_connection connection; // fd -1: the entry is free
    bool started;                        // `thread` is to be joined; of the thread that serves
    pthread_t thread;
  } entry[AT_ONCE];
};

// Waits until this side may make one more connection. False: `timeout_ms` have passed before, or the listener has to
// end.
static bool await_turn(struct callers *callers, uint32_t timeout_ms) {
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  for (;;) {
    pthread_mutex_lock(&callers->lock);
    uint64_t now = clock_ns();
    if (now - callers->second_ns >= 1000000000) {
      callers->second_ns = now;
      callers->calls = 0;
    }
    bool turn = callers->calls < CALLS_A_SECOND && !callers->ending, over = callers->ending || now >= deadline;
    callers->calls += turn;
    pthread_mutex_unlock(&callers->lock);
    if (turn || over)
      return turn;
    poll(NULL, 0, PAUSE_MS);
  }
}

// `callers` NULL: makes no connection to it.
static void answer(const struct doctor_connection *connection, struct callers *callers, uint32_t timeout_ms) {
  struct doctor_message message;
  char interface[TOPOLOGY_NAME];
  uint64_t deadline = clock_deadline_ms(STEPS * timeout_ms); // of the whole exchange
  if (!doctor_message_receive(connection, &message, deadline))
    return;
  struct doctor_message reply = message;
  reply.mtu = (uint32_t)doctor_interface_of(connection->fd, interface);
  reply.back = DOCTOR_NOT_TRIED;
  if (!doctor_message_send(connection, &reply, deadline))
    return;
  // Together they take as long as the caller waits.
  if (callers && await_turn(callers, timeout_ms))
    reply.back = call_back(connection->fd, &message, clock_deadline_ms(timeout_ms));
  if (doctor_message_send(connection, &reply, deadline))
    echo_bulk(connection, deadline);
}

void doctor_answer(const struct doctor_connection *connection, uint32_t timeout_ms) {
  answer(connection, NULL, timeout_ms);
}

static void *answer_caller(void *argument) {
  struct caller *caller = argument;
  struct callers *all = caller->all;
  answer(&caller->connection, all, all->timeout_ms);
  pthread_mutex_lock(&all->lock);
  doctor_connection_close(&caller->connection); // the entry is free, but for the end of this thread
  pthread_mutex_unlock(&all->lock);
  return NULL;
}

static void init(struct callers *callers, uint32_t timeout_ms) {
  *callers = (struct callers){.timeout_ms = timeout_ms};
  pthread_mutex_init(&callers->lock, NULL);
  for (int i = 0; i < AT_ONCE; i++)
    callers->entry[i] = (struct caller){.all = callers, .connection.fd = -1};
}

// Takes a free entry for a caller; NULL: there is none.
static struct caller *find_place(struct callers *callers, struct doctor_connection connection) {
  struct caller *found = NULL;
  pthread_mutex_lock(&callers->lock);
  for (int i = 0; i < AT_ONCE && !found; i++)
    if (callers->entry[i].connection.fd < 0)
      found = &callers->entry[i];
  if (found)
    found->connection = connection;
  pthread_mutex_unlock(&callers->lock);
  return found;
}

static void join(struct caller *caller) {
  if (caller->started)
    pthread_join(caller->thread, NULL);
  caller->started = false;
}

// While all entries are in use it waits for one; further callers wait in the lobby.
static void take(struct callers *callers, int stop, struct doctor_connection connection) {
  struct pollfd ends = {.fd = stop, .events = POLLIN};
  struct caller *caller = find_place(callers, connection);
  while (!caller && poll(&ends, 1, PAUSE_MS) <= 0)
    caller = find_place(callers, connection);
  if (!caller) {
    doctor_connection_close(&connection);
    return;
  }
  join(caller); // who had the entry before has nothing left to do
  caller->started = pthread_create(&caller->thread, NULL, answer_caller, caller) == 0;
  if (!caller->started)
    answer_caller(caller);
}

static void end(struct callers *callers) {
  pthread_mutex_lock(&callers->lock);
  callers->ending = true;
  for (int i = 0; i < AT_ONCE; i++)
    if (callers->entry[i].connection.fd >= 0)
      shutdown(callers->entry[i].connection.fd, SHUT_RDWR);
  pthread_mutex_unlock(&callers->lock);
  for (int i = 0; i < AT_ONCE; i++) // to their very end: libcrypto keeps something of each until then
    join(&callers->entry[i]);
  pthread_mutex_destroy(&callers->lock);
}

void doctor_listener_serve(const struct doctor_listener *listener, int stop, uint32_t timeout_ms) {
  struct callers callers;
  init(&callers, timeout_ms);
  struct doctor_admission admission = {.lobby = listener->lobby, .key = listener->key};
  struct doctor_connection connection;
  while (doctor_admission_wait(&admission, stop, &connection))
    take(&callers, stop, connection);
  doctor_admission_close(&admission);
  end(&callers);
}
