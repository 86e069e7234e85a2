// A peer of the suite in a separate process, which the test controls.
#include "conformance/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"

// Anew, so that no library is found in the middle of something.
static _Noreturn void become(int socket, pid_t parent) {
  char number[16];
  const char *args[MAX_SETTINGS + 5] = {"conformance", "--child", number, suite.name};
  snprintf(number, sizeof number, "%d", socket);
  for (int i = 0; suite.settings[i]; i++)
    args[4 + i] = suite.settings[i];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent)
    execv("/proc/self/exe", (char *const *)args);
  _exit(127);
}

void process_start(struct process *process, struct end *end) {
  int sockets[2];
  pid_t parent = getpid();
  *process = (struct process){.driven = end};
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  assert_int_equal(fcntl(sockets[0], F_SETFD, FD_CLOEXEC), 0);
  process->pid = fork();
  if (process->pid == 0)
    become(sockets[1], parent);
  assert_true(process->pid > 0);
  close(sockets[1]);
  process->socket = sockets[0];
}

struct answer *process_ask(struct process *process, enum order_kind kind, uint64_t a, uint64_t b, const void *bytes,
                           size_t size) {
  static struct answer answer;
  static struct order order;
  memset(&order, 0, sizeof order);
  order.kind = kind;
  order.a = a;
  order.b = b;
  order.size = (uint32_t)size;
  assert_true(size <= sizeof order.bytes);
  if (size)
    memcpy(order.bytes, bytes, size);
  assert_int_equal(send(process->socket, &order, sizeof order, MSG_NOSIGNAL), sizeof order);
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  uint32_t idle = 0;
  ssize_t got;
  while ((got = recv(process->socket, &answer, sizeof answer, MSG_DONTWAIT)) < 0) {
    assert_true(errno == EAGAIN || errno == EINTR);
    ends_rest(process->driven, NULL, process->socket, end_drive(process->driven), &idle);
    if (clock_passed(deadline_ns))
      fail_msg("the other process does not answer order %d", kind);
  }
  if (got != sizeof answer)
    fail_msg("the other process ended at order %d", kind);
  if (answer.rc != 0)
    fail_msg("the other process at order %d: %s: %s", kind, weft_err_name(answer.rc), answer.why);
  return &answer;
}

static void reap(struct process *process) {
  close(process->socket);
  int status = 0;
  assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
  if (!WIFSIGNALED(status) && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
    fail_msg("the other process exited with %d", WEXITSTATUS(status));
  process->pid = 0;
}

void process_kill(struct process *process) {
  assert_int_equal(kill(process->pid, SIGKILL), 0);
  reap(process);
}

void process_end(struct process *process) {
  process_ask(process, ORDER_END, 0, 0, NULL, 0);
  reap(process);
}
