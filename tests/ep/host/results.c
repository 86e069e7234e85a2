// Results besides the rows of an operation: totals of each expert, time waited for each source, and weft_ep_await.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/core/engine.h"
#include "ep/host/host.h"
#include "ep/support/rank.h"

enum { RANKS = 3, OPERATIONS = 12, MOST_MISSING = 4096, DEADLINE_MS = 20000 };

static const int32_t founders[] = {0, 1, 2};

// A copy of what the calls of one operation returned.
struct outcome {
  struct weft_ep_info info;
  struct weft_ep_result result;
  struct weft_ep_missing missing[MOST_MISSING];
};

static bool same_info(struct rank *rank, const struct weft_ep_info *a, const struct weft_ep_info *b) {
  if (a->op != b->op || a->epoch != b->epoch || a->num_ranks != b->num_ranks || a->num_rows != b->num_rows ||
      a->num_lost != b->num_lost || a->mark != b->mark || a->wire_bytes != b->wire_bytes ||
      a->logical_bytes != b->logical_bytes)
    return rank_fail(rank, "await gives other results for the dispatch of operation %llu", (unsigned long long)a->op);
  return true;
}

static bool same_result(struct rank *rank, const struct outcome *outcome, const struct weft_ep_result *b) {
  const struct weft_ep_result *a = &outcome->result;
  if (a->num_lost != b->num_lost || a->num_missing != b->num_missing || a->wire_bytes != b->wire_bytes ||
      a->logical_bytes != b->logical_bytes ||
      memcmp(outcome->missing, b->missing, a->num_missing * sizeof *b->missing) != 0)
    return rank_fail(rank, "await gives other results for the combine of operation %llu",
                     (unsigned long long)outcome->info.op);
  return true;
}

static bool check_await(struct rank *rank, uint64_t op, const struct outcome *outcome) {
  struct outcome again = {.info = WEFT_EP_INFO_INIT, .result = WEFT_EP_RESULT_INIT};
  again.result.missing = again.missing;
  again.result.missing_cap = MOST_MISSING;
  int rc = weft_ep_await(rank->ep, op, &again.info, &again.result, 0);
  if (rc != 0)
    return rank_fail(rank, "await: %s", weft_last_error());
  return same_info(rank, &outcome->info, &again.info) && same_result(rank, outcome, &again.result);
}

static void keep(struct outcome *outcome, const struct rank *rank) {
  outcome->info = rank->info;
  outcome->result = rank->result;
  memcpy(outcome->missing, rank->result.missing, rank->result.num_missing * sizeof *outcome->missing);
}

static bool check_totals(struct rank *rank, const int32_t *totals, int32_t *sums) {
  for (uint32_t e = 0; e < rank->setup.experts; e++) {
    sums[e] += rank->counts[e];
    if (totals[e] != sums[e])
      return rank_fail(rank, "expert_total[%u] is %d, the counts sum to %d", e, totals[e], sums[e]);
  }
  return true;
}

static _Atomic uint64_t all_missing;

static void operate(struct rank *rank, void *arg) {
  (void)arg;
  struct outcome *outcome = calloc(2, sizeof *outcome);
  int32_t totals[8] = {0}, sums[8] = {0};
  rank->recv.expert_total = totals;
  for (uint64_t i = 0; i < OPERATIONS && rank_operate(rank); i++) {
    keep(&outcome[i % 2], rank);
    atomic_fetch_add(&all_missing, rank->result.num_missing);
    if (!check_totals(rank, totals, sums) || !check_await(rank, rank->info.op, &outcome[i % 2]) ||
        !check_await(rank, UINT64_MAX, &outcome[i % 2]) ||
        (i > 0 && !check_await(rank, rank->info.op - 1, &outcome[(i - 1) % 2])))
      break;
    if (i > 1 && weft_ep_await(rank->ep, rank->info.op - 2, NULL, NULL, 0) != WEFT_ERR_INVALID)
      rank_fail(rank, "await knows of an operation that is not one of the newest two");
  }
  rank->recv.expert_total = NULL;
  free(outcome);
}

static void totals_and_awaited_results_are_those_of_the_calls(void **state) {
  (void)state;
  for (int layout = WEFT_EP_PER_EXPERT; layout <= WEFT_EP_RANK_MAJOR; layout++) {
    struct setup setup = {.layout = (enum weft_ep_layout)layout, .masks = true, .drop = 0.2f, .uneven = true};
    atomic_store(&all_missing, 0);
    assert_int_equal(weft_store_open_local(&setup.store), 0);
    ranks_run(&setup, founders, RANKS, operate, NULL);
    assert_true(atomic_load(&all_missing) > 0); // else the lists were empty
    weft_store_close(setup.store);
  }
}

// Rank 1 comes when rank 0 sleeps in its dispatch_recv: it has sent its header, and sleeps afterwards.
static bool await_sleeper(struct rank *rank) {
  uint64_t op = weft_ep_next_op(rank->ep), deadline_ns = clock_deadline_ms(DEADLINE_MS);
  struct ep_link *link = ep_link_find(rank->ep, 0, 0);
  if (!link)
    return rank_fail(rank, "no link to rank 0");
  uint64_t first = ep_piece(&rank->ep->layout, op, 0);
  const struct ep_slot_head *slot = ep_slot(&rank->ep->layout, link->in.memory, first);
  while (atomic_load(&slot->dispatch.flag) != first + 1 || !ep_doorbell_begun(ep_link_bell(link)))
    if (clock_passed(deadline_ns))
      return rank_fail(rank, "rank 0 does not wait for its peers within %d ms", DEADLINE_MS);
  return true;
}

static void check_waits(struct rank *rank, const int64_t *waits) {
  int64_t before = 0;
  for (int i = 0; i < 4; i++) {
    if ((rank->index == 1 && !await_sleeper(rank)) || !rank_operate(rank))
      return;
    if (rank->index == 0 && waits[1] <= before)
      rank_fail(rank, "the wait for rank 1 is not in wait_ns: %lld after %lld", (long long)waits[1], (long long)before);
    before = waits[1];
  }
  for (int32_t source = 0; source < 16; source++)
    if (waits[source] < 0 || (waits[source] != 0 && (source >= RANKS || source == rank->index)))
      rank_fail(rank, "wait_ns[%d] is %lld", source, (long long)waits[source]);
}

// The time at a barrier counts for the peer that came last, whichever that was.
static void check_peer_waits(struct rank *rank) {
  uint64_t before = 0;
  for (int i = 0; i < 4; i++) {
    struct weft_ep_peer_stats peer = WEFT_EP_PEER_STATS_INIT;
    uint64_t all = 0;
    if ((rank->index == 1 && !await_sleeper(rank)) || weft_ep_barrier(rank->ep) != 0)
      return;
    for (int32_t other = 1; rank->index == 0 && other < RANKS; other++)
      if (weft_ep_get_peer_stats(rank->ep, other, &peer) == 0)
        all += peer.wait_ns;
    if (rank->index == 0 && all <= before)
      rank_fail(rank, "the wait at a barrier is in no peer's wait_ns");
    before = all;
  }
}

static void come_late(struct rank *rank, void *arg) {
  (void)arg;
  int64_t waits[16] = {0};
  rank->recv.wait_ns = waits;
  check_peer_waits(rank);
  if (!rank->error[0])
    check_waits(rank, waits);
  rank->recv.wait_ns = NULL;
}

static void waits_are_those_for_each_source(void **state) {
  (void)state;
  struct setup setup = {0};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, founders, RANKS, come_late, NULL);
  weft_store_close(setup.store);
}

static uint64_t sent[RANKS][RANKS], received[RANKS][RANKS]; // [this rank][peer]

static void exchange(struct rank *rank, void *arg) {
  (void)arg;
  for (int i = 0; i < 4 && rank_operate(rank); i++)
    continue;
  if (rank->error[0] || weft_ep_barrier(rank->ep) != 0)
    return;
  for (int32_t other = 0; other < RANKS; other++) {
    struct weft_ep_peer_stats peer = WEFT_EP_PEER_STATS_INIT;
    if (other == rank->index)
      continue;
    if (weft_ep_get_peer_stats(rank->ep, other, &peer) != 0)
      rank_fail(rank, "no counters of rank %d: %s", other, weft_last_error());
    sent[rank->index][other] = peer.sent_bytes;
    received[rank->index][other] = peer.received_bytes;
  }
  if (weft_ep_barrier(rank->ep) != 0) // a rank that leaves takes the counters of its links with it
    rank_fail(rank, "the last barrier: %s", weft_last_error());
}

static void what_one_rank_has_sent_another_has_received(void **state) {
  (void)state;
  static const struct setup setups[] = {
      {.uneven = true}, {.late_weights = true}, {.dtype = WEFT_EP_FP8}, {.layout = WEFT_EP_RANK_MAJOR}};
  for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
    struct setup setup = setups[i];
    assert_int_equal(weft_store_open_local(&setup.store), 0);
    ranks_run(&setup, founders, RANKS, exchange, NULL);
    weft_store_close(setup.store);
    for (int a = 0; a < RANKS; a++)
      for (int b = 0; b < RANKS; b++)
        if (a != b) {
          assert_true(sent[a][b] > 0);
          assert_int_equal(sent[a][b], received[b][a]);
        }
  }
}

// Lists end where the caller's memory does; their numbers count on.
static void lists_end_where_their_room_does(void **state) {
  (void)state;
  struct ep_member members[] = {{.rank = 4}, {.rank = 7}, {.rank = 9}};
  int64_t experts[] = {1, 2, 3};
  int16_t member_of[] = {-1, -1, -1};
  const struct ep_op op = {.members = members,
                           .outcome = {.received = true, .members = 3},
                           .num_tokens = 3,
                           .topk = 1,
                           .experts = experts,
                           .member_of = member_of};
  int32_t lost[] = {-1, -1, -1};
  struct weft_ep_missing missing[] = {{.expert = -1}, {.expert = -1}, {.expert = -1}};
  struct weft_ep_info info = {.size = sizeof info, .lost = lost, .lost_cap = 2};
  struct weft_ep_result result = {.size = sizeof result, .missing = missing, .missing_cap = 2};
  ep_fill_info(&op, &info);
  assert_int_equal(info.num_lost, 3);
  assert_true(lost[0] == 4 && lost[1] == 7 && lost[2] == -1);
  ep_list_missing(&op, &result);
  assert_int_equal(result.num_missing, 3);
  assert_true(missing[0].expert == 1 && missing[1].expert == 2 && missing[2].expert == -1);
}

static void on_host_memory_there_is_no_device(struct rank *rank, void *arg) {
  (void)arg;
  int32_t device = 7;
  if (weft_ep_get_memory(rank->ep, &device) != WEFT_EP_MEMORY_HOST || device != -1 ||
      weft_ep_get_memory(rank->ep, NULL) != WEFT_EP_MEMORY_HOST)
    rank_fail(rank, "weft_ep_get_memory reports device %d", device);
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  if (weft_ep_await(rank->ep, UINT64_MAX, &info, NULL, 0) != WEFT_ERR_INVALID)
    rank_fail(rank, "await knows of an operation before there was one");
  struct weft_ep_result result = WEFT_EP_RESULT_INIT;
  if (weft_ep_barrier(rank->ep) != 0 || weft_ep_await(rank->ep, UINT64_MAX, &info, NULL, 0) != 0 ||
      info.num_ranks != RANKS)
    rank_fail(rank, "await does not know of a barrier: %s", weft_last_error());
  if (weft_ep_await(rank->ep, info.op, NULL, &result, 0) != WEFT_ERR_INVALID)
    rank_fail(rank, "await gives results of a combine that there was not");
}

static void memory_is_reported(void **state) {
  (void)state;
  struct setup setup = {0};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, founders, RANKS, on_host_memory_there_is_no_device, NULL);
  weft_store_close(setup.store);
}

// Whether the metrics have the line "series value".
static bool has_line(const char *metrics, const char *series, uint64_t value) {
  char line[160];
  int size = snprintf(line, sizeof line, "\n%s %llu\n", series, (unsigned long long)value);
  return size > 0 && (size_t)size < sizeof line && strstr(metrics, line);
}

static void counters_are_those_of_the_structs(struct rank *rank, void *arg) {
  (void)arg;
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  struct weft_ep_peer_stats peer = WEFT_EP_PEER_STATS_INIT;
  int32_t other = (rank->index + 1) % RANKS;
  size_t need = 0, size = 0;
  char series[96];
  for (uint32_t i = 0; i < 3 && rank_operate(rank); i++)
    continue;
  if (rank->error[0] || weft_ep_barrier(rank->ep) != 0)
    return;
  int rc = weft_ep_metrics(rank->ep, NULL, 0, &need);
  size_t cap = need + 256; // the rank's threads count on: a number may have got a digit more when it is asked again
  char *text = malloc(cap);
  if (rc != 0 || weft_ep_metrics(rank->ep, text, need / 2, &size) != WEFT_ERR_ROOM || size < need || size > cap ||
      weft_ep_metrics(rank->ep, text, cap, &size) != 0 || strlen(text) + 1 != size) {
    rank_fail(rank, "the metrics' sizes disagree: %s", weft_last_error());
    free(text);
    return;
  }
  weft_ep_get_stats(rank->ep, &stats);
  weft_ep_get_peer_stats(rank->ep, other, &peer);
  snprintf(series, sizeof series, "weft_ep_operations_total{rank=\"%d\"}", rank->index);
  bool good = has_line(text, series, stats.operations) && stats.operations >= 3;
  snprintf(series, sizeof series, "weft_ep_connected_peers{rank=\"%d\"}", rank->index);
  good = good && has_line(text, series, RANKS - 1);
  snprintf(series, sizeof series, "weft_ep_dispatch_wire_bytes_total{rank=\"%d\"}", rank->index);
  good = good && has_line(text, series, stats.dispatch_wire_bytes) && stats.dispatch_wire_bytes > 0;
  snprintf(series, sizeof series, "weft_ep_peer_sent_bytes_total{rank=\"%d\",peer=\"%d\"}", rank->index, other);
  good = good && has_line(text, series, peer.sent_bytes) && peer.sent_bytes > 0;
  size_t length = strlen(text);
  good = good && length > 6 && strcmp(text + length - 6, "# EOF\n") == 0;
  if (!good)
    rank_fail(rank, "the metrics are wrong: %s", text);
  free(text);
  if (weft_ep_metrics(rank->ep, NULL, 5, &size) != WEFT_ERR_INVALID ||
      weft_ep_metrics(rank->ep, series, 0, NULL) != WEFT_ERR_INVALID)
    rank_fail(rank, "metrics are written to nowhere");
}

static void count_together(struct rank *rank, void *arg) {
  counters_are_those_of_the_structs(rank, arg);
  if (weft_ep_barrier(rank->ep) != 0) // a rank that leaves is no longer among the connected peers
    rank_fail(rank, "the last barrier: %s", weft_last_error());
}

static void metrics_report_the_counters(void **state) {
  (void)state;
  struct setup setup = {0};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, founders, RANKS, count_together, NULL);
  weft_store_close(setup.store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(totals_and_awaited_results_are_those_of_the_calls),
      cmocka_unit_test(waits_are_those_for_each_source),
      cmocka_unit_test(what_one_rank_has_sent_another_has_received),
      cmocka_unit_test(lists_end_where_their_room_does),
      cmocka_unit_test(memory_is_reported),
      cmocka_unit_test(metrics_report_the_counters),
  };
  return cmocka_run_group_tests_name("ep_results", tests, NULL, NULL);
}
