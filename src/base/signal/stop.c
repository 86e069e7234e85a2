// The handler of signals that request an end: it sets a flag, which loops check. A second signal, or the first one
// after stop_at_once(), ends the process even within a call that checks no flag.
#include "base/signal/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"

static const struct {
  int number;
  const char *name;
} ends[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}};
enum { ENDS = sizeof ends / sizeof *ends };

static atomic_int came;
static atomic_bool now;
static char messages[ENDS][96]; // written before there is a handler

static void leave(int number) {
  for (int i = 0; i < ENDS; i++)
    if (ends[i].number == number && write(STDERR_FILENO, messages[i], strlen(messages[i])) < 0)
      break; // nobody reads it
  _exit(128 + number);
}

// Replaces an output that takes no bytes by /dev/null. The kernel starts a write() again that the signal has
// interrupted, and finds the file of its descriptor anew, so it ends then, and so do all later ones, up to those of
// exit().
static void give_up(int output) {
  enum { READER_MS = 500 }; // for a reader that is only slow
  struct pollfd wanted = {.fd = output, .events = POLLOUT};
  if (poll(&wanted, 1, READER_MS) != 0)
    return;
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) {
    dup2(null, output);
    close(null);
  }
}

static void take(int number) {
  int error = errno;
  if (atomic_exchange(&came, number) != 0 || atomic_load(&now))
    leave(number);
  give_up(STDOUT_FILENO);
  give_up(STDERR_FILENO);
  errno = error;
}

bool stop_hangup_is_ignored(void) {
  struct sigaction now_set;
  return sigaction(SIGHUP, NULL, &now_set) == 0 && now_set.sa_handler == SIG_IGN;
}

static void handle_all(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < ENDS; i++)
    if (ends[i].number != SIGHUP || !stop_hangup_is_ignored())
      sigaction(ends[i].number, &action, NULL);
}

void stop_watch(const char *command) {
  for (int i = 0; i < ENDS; i++)
    snprintf(messages[i], sizeof messages[i], "%.48s: interrupted by %s\n", command, ends[i].name);
  handle_all(take);
}

void stop_ignore(void) {
  handle_all(SIG_IGN);
}

void stop_at_once(bool at_once) {
  atomic_store(&now, at_once);
  if (at_once && atomic_load(&came) != 0) // before it was set
    leave(atomic_load(&came));
}

int stop_came(void) {
  return atomic_load_explicit(&came, memory_order_relaxed);
}

const char *stop_name(void) {
  int number = stop_came();
  for (int i = 0; i < ENDS; i++)
    if (ends[i].number == number)
      return ends[i].name;
  return "";
}

int stop_check(void) {
  return stop_came() ? fail(WEFT_ERR_CANCELED, "interrupted by %s", stop_name()) : 0;
}

bool stop_asked(void *arg) {
  (void)arg;
  return stop_came() != 0;
}
