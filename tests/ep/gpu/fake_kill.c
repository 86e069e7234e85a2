// SIGKILL of a rank on CUDA memory, on a plug-in without a GPU: its seat is free when its death is reported, and
// kernels do not wait until their deadline.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/support/processes.h"

enum { RANKS = 3, BEFORE = 20, AFTER = 20, DEADLINE_MS = 60000 };

static struct processes processes;

struct losses {
  uint32_t deaths, deadlines;
};

static struct losses take_losses(weft_ep_t *ep) {
  struct losses losses = {0};
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  while (weft_ep_next_event(ep, &event) > 0) {
    bool lost = event.kind == WEFT_EP_EVENT_PEER_LOST, deadline = strstr(event.detail, "deadline") != NULL;
    losses.deaths += lost && !deadline;
    losses.deadlines += lost && deadline;
  }
  return losses;
}

static bool operate(struct rank *rank) {
  static int32_t counts[2];
  struct weft_ep_recv_args recv = {.size = sizeof recv, .counts = counts};
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  uint64_t op;
  if (weft_ep_dispatch(rank->ep, &none, &recv, &rank->info, &op) != 0 ||
      weft_ep_combine(rank->ep, op, &combine, NULL) != 0)
    return rank_fail(rank, "operation: %s", weft_last_error());
  if (rank->info.num_lost > 0 && (rank->info.num_lost > 1 || rank->lost[0] != RANKS - 1))
    return rank_fail(rank, "operation %llu lost %u ranks", (unsigned long long)op, rank->info.num_lost);
  return true;
}

// Until the view and the links are without the dead one.
static bool operate_until_out(struct rank *rank) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  while (rank->info.num_ranks != RANKS - 1 || stats.connected != RANKS - 2) {
    if (!operate(rank))
      return false;
    weft_ep_get_stats(rank->ep, &stats);
    if (clock_passed(deadline_ns))
      return rank_fail(rank, "the view has %u ranks yet", rank->info.num_ranks);
  }
  return true;
}

static bool survive(struct rank *rank) {
  if (!operate_until_out(rank))
    return false;
  for (int i = 0; i < AFTER; i++)
    if (!operate(rank) || rank->info.num_lost > 0)
      return rank_fail(rank, "operation %llu lost somebody after all", (unsigned long long)rank->info.op);
  // No death is reported if the view without the dead rank came before the news of its death.
  const struct losses losses = take_losses(rank->ep);
  if (losses.deadlines > 0 || losses.deaths > 1)
    return rank_fail(rank, "%u deaths were reported, and %u deadlines passed", losses.deaths, losses.deadlines);
  return true;
}

static bool live(struct rank *rank, void *arg) {
  (void)arg;
  static const int32_t founders[] = {0, 1, 2};
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = rank->setup.store;
  options.prefix = RANK_PREFIX;
  options.rank = rank->index;
  options.capacity = 4;
  options.founders = founders;
  options.num_founders = RANKS;
  options.hidden = 128;
  options.max_tokens = 4;
  options.op_timeout_ms = DEADLINE_MS;
  options.memory = WEFT_EP_MEMORY_CUDA;
  if (getenv("WEFT_TEST_THROUGHPUT")) {
    options.mode = WEFT_EP_THROUGHPUT;
    options.hidden = 1024; // rows of this size are moved from window to window (LEAST_MOVE of cuda/relay/flow.c)
  }
  if (getenv("WEFT_TEST_HOSTS"))
    options.host_id = rank->index % 2 ? "odd" : "even";
  rank->info = (struct weft_ep_info){.size = sizeof rank->info, .lost = rank->lost, .lost_cap = 16};
  if (weft_ep_open(&rank->ep, &options, DEADLINE_MS) != 0 || weft_ep_activate(rank->ep, DEADLINE_MS) != 0)
    return rank_fail(rank, "open: %s", weft_last_error());
  for (int i = 0; i < BEFORE; i++)
    if (!operate(rank))
      return false;
  if (rank->index == RANKS - 1)
    kill(getpid(), SIGKILL);
  bool good = survive(rank);
  weft_ep_close(rank->ep);
  rank->ep = NULL;
  return good;
}

static void a_killed_rank_costs_no_deadline(void **state) {
  (void)state;
  const struct setup setup = {0};
  processes_start(&processes, RANKS, &setup, live, NULL);
  bool good = processes_expect(&processes, RANKS - 1, SIGKILL);
  for (uint32_t i = 0; i < RANKS - 1; i++)
    good &= processes_expect(&processes, i, 0);
  processes_end(&processes);
  assert_true(good);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_killed_rank_costs_no_deadline)};
  return cmocka_run_group_tests_name("ep_fake_kill", tests, NULL, NULL);
}
