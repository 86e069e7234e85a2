// Ends by a signal: a flag for the loops, and a way out of calls that look at no flag.
#include "p2p/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"

static const struct {
  int number;
  const char *name, *message;
} ends[] = {{SIGINT, "SIGINT", "weft p2p: interrupted by SIGINT\n"},
            {SIGTERM, "SIGTERM", "weft p2p: interrupted by SIGTERM\n"},
            {SIGHUP, "SIGHUP", "weft p2p: interrupted by SIGHUP\n"}};
enum { ENDS = sizeof ends / sizeof *ends };

static atomic_int came;
static atomic_bool now;

static void leave(int number) {
  for (int i = 0; i < ENDS; i++)
    if (ends[i].number == number && write(STDERR_FILENO, ends[i].message, strlen(ends[i].message)) < 0)
      break; // nobody reads it
  _exit(128 + number);
}

static void take(int number) {
  if (atomic_exchange(&came, number) != 0 || atomic_load(&now))
    leave(number);
}

static void handle_all(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  struct sigaction before;
  for (int i = 0; i < ENDS; i++)
    if (ends[i].number != SIGHUP || sigaction(SIGHUP, NULL, &before) != 0 || before.sa_handler != SIG_IGN) // nohup
      sigaction(ends[i].number, &action, NULL);
}

void p2p_stop_watch(void) {
  handle_all(take);
}

void p2p_stop_ignore(void) {
  handle_all(SIG_IGN);
}

void p2p_stop_at_once(bool at_once) {
  atomic_store(&now, at_once);
  if (at_once && atomic_load(&came) != 0) // before it was set
    leave(atomic_load(&came));
}

int p2p_stopped(void) {
  return atomic_load_explicit(&came, memory_order_relaxed);
}

int p2p_stop_check(void) {
  int number = p2p_stopped();
  for (int i = 0; i < ENDS && number != 0; i++)
    if (ends[i].number == number)
      return fail(WEFT_ERR_CANCELED, "interrupted by %s", ends[i].name);
  return 0;
}
