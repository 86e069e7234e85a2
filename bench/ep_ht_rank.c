// What ranks of bench_ep_ht have in common on host memory and on CUDA memory.
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "ep/oracle/pattern.h"
#include "ep_ht.h"
#include "support/pair.h"

_Noreturn void ht_fail(struct ht_board *at, int rank, const char *what) {
  if (!atomic_exchange(&at->failed, true)) // only the first rank that fails prints; the others fail because of it
    fprintf(stderr, "bench_ep_ht: rank %d: %s: %s\n", rank, what, weft_last_error());
  _exit(1);
}

void ht_meet(struct ht_board *at) {
  uint32_t place = atomic_fetch_add(&at->arrived, 1) / at->setup.ranks;
  uint64_t deadline = clock_deadline_ms(HT_DEADLINE_MS);
  for (uint32_t i = 0; atomic_load(&at->arrived) < (place + 1) * at->setup.ranks; i++) {
    if (i > HT_SPINS)
      sched_yield(); // another process, even another rank, may need this processor
    if (atomic_load(&at->failed) || clock_passed(deadline))
      ht_fail(at, -1, "another rank did not come");
  }
}

// Only rows by rank are read in place.
uint64_t ht_zero_copy_bytes(const struct ht_setup *setup, const struct ht_point *point) {
  bool lies = setup->cuda && setup->zero_copy && point->layout == WEFT_EP_RANK_MAJOR;
  return lies ? (uint64_t)setup->ranks * point->tokens * setup->hidden * sizeof(uint16_t) : 0;
}

weft_ep_t *ht_open(struct ht_board *at, weft_store_t *store, int rank, uint32_t number, int32_t gpu) {
  const struct ht_setup *s = &at->setup;
  const struct ht_point *point = &s->points[number];
  char prefix[64];
  snprintf(prefix, sizeof prefix, "/weft/bench/%u/", number);
  struct weft_ep_options options = bench_group_options(store, prefix, rank, s->ranks);
  options.max_tokens = point->tokens;
  options.hidden = s->hidden;
  options.topk = s->topk;
  options.experts_per_rank = s->experts;
  options.dtype = point->dtype;
  options.mode = s->latency ? WEFT_EP_LATENCY : WEFT_EP_THROUGHPUT;
  options.window_bytes = s->window_bytes;
  options.memory = s->cuda ? WEFT_EP_MEMORY_CUDA : WEFT_EP_MEMORY_HOST;
  options.device = gpu;
  options.zero_copy_bytes = ht_zero_copy_bytes(s, point);
  if (s->hosts > 1)
    options.host_id = rank % 2 ? "odd" : "even";
  options.op_timeout_ms = 20000; // a rank whose processor is taken by other work is not lost
  weft_ep_t *ep = NULL;
  int err = weft_ep_open(&ep, &options, HT_DEADLINE_MS);
  if (err == WEFT_ERR_UNSUPPORTED) {
    snprintf(at->found[rank][number].refused, HT_WHY, "%s", weft_last_error());
    return NULL;
  }
  if (err || weft_ep_activate(ep, HT_DEADLINE_MS) != 0)
    ht_fail(at, rank, "cannot start");
  return ep;
}

struct ht_rank ht_rank_at(struct ht_board *board, int rank, uint32_t point) {
  return (struct ht_rank){.board = board,
                          .setup = &board->setup,
                          .point = &board->setup.points[point],
                          .found = &board->found[rank][point],
                          .rank = rank};
}

bool ht_is_fp8(const struct ht_point *point) {
  return point->dtype != WEFT_EP_BF16;
}

void ht_fill(const struct ht_rank *r, uint16_t *x, int64_t *topk_idx, float *weights) {
  const struct ht_setup *s = r->setup;
  struct pattern pattern = {
      .seed = 1, .num_tokens = r->point->tokens, .hidden = s->hidden, .topk = s->topk, .experts_per_rank = s->experts};
  pattern_fill(&pattern, 1, r->rank, bench_founders, s->ranks, x, topk_idx, weights);
}

int ht_make_route(struct ht_rank *r) {
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  options.max_tokens = r->point->tokens;
  options.max_rows = r->setup->ranks * r->point->tokens;
  options.alignment = r->point->layout == WEFT_EP_PACKED ? r->setup->alignment : 0;
  return r->point->way != HT_FRESH ? weft_ep_route_create(r->ep, &options, &r->route) : 0;
}

void ht_go_by_route(struct ht_rank *r) {
  if (r->point->way == HT_KEPT) {
    r->dispatch.topk_idx = NULL;
    r->dispatch.topk_weights = NULL;
  }
}
