// Ends by a signal: a flag for the loops.
#include "bench/common/stop.h"

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
static char messages[ENDS][96]; // written before there is a handler

static void take(int number) {
  if (atomic_exchange(&came, number) == 0)
    return;
  for (int i = 0; i < ENDS; i++)
    if (ends[i].number == number && write(STDERR_FILENO, messages[i], strlen(messages[i])) < 0)
      break; // nobody reads it
  _exit(128 + number);
}

static void handle_all(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < ENDS; i++)
    if (ends[i].number != SIGHUP || sigaction(SIGHUP, NULL, &before) != 0 || before.sa_handler != SIG_IGN) // nohup
      sigaction(ends[i].number, &action, NULL);
}

void bench_stop_watch(const char *command) {
  for (int i = 0; i < ENDS; i++)
    snprintf(messages[i], sizeof messages[i], "%.48s: interrupted by %s\n", command, ends[i].name);
  handle_all(take);
}

void bench_stop_ignore(void) {
  handle_all(SIG_IGN);
}

int bench_stopped(void) {
  return atomic_load_explicit(&came, memory_order_relaxed);
}

const char *bench_stop_name(void) {
  int number = bench_stopped();
  for (int i = 0; i < ENDS; i++)
    if (ends[i].number == number)
      return ends[i].name;
  return "";
}

int bench_stop_check(void) {
  return bench_stopped() ? fail(WEFT_ERR_CANCELED, "interrupted by %s", bench_stop_name()) : 0;
}

bool bench_stop_asked(void *arg) {
  (void)arg;
  return bench_stopped() != 0;
}
