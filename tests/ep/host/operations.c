// Dispatch and combine among ranks that stay: every number against the oracle.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cmocka_all.h"

#include "ep/support/rank.h"
#include "support/sanitized.h"

static const int32_t all[] = {0, 1, 2, 3};

static void operate(struct rank *rank, void *arg) {
  rank_operate_n(rank, *(uint32_t *)arg);
}

// Runs `count` operations in a group of its own; half of many where each takes several times as long. A window has two
// slots: four operations use each of them twice.
static void run(struct setup setup, const int32_t *ranks, uint32_t num_ranks, uint32_t count) {
  if (count > 8 && support_slowed())
    count /= 2;
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, ranks, num_ranks, operate, &count);
  weft_store_close(setup.store);
}

static void one_rank_alone(void **state) {
  (void)state;
  run((struct setup){0}, all, 1, 16);
}

static void two_ranks(void **state) {
  (void)state;
  run((struct setup){0}, all, 2, 16);
}

static void four_ranks_in_each_dtype_and_layout(void **state) {
  (void)state;
  for (int dtype = WEFT_EP_BF16; dtype <= WEFT_EP_FP8_UE8M0; dtype++)
    for (int layout = WEFT_EP_PER_EXPERT; layout <= WEFT_EP_RANK_MAJOR; layout++)
      run((struct setup){.dtype = (enum weft_ep_dtype)dtype, .layout = (enum weft_ep_layout)layout, .drop = 0.2f}, all,
          4, 9);
}

static void sparse_odd_rank_sets(void **state) {
  (void)state;
  const int32_t three[] = {1, 7, 14}, five[] = {0, 3, 4, 9, 15};
  run((struct setup){.drop = 0.1f}, three, 3, 9);
  run((struct setup){.dtype = WEFT_EP_FP8}, five, 5, 9);
}

static void weights_with_the_combine(void **state) {
  (void)state;
  run((struct setup){.late_weights = true, .drop = 0.3f}, all, 4, 9);
  run((struct setup){.late_weights = true, .apart = true, .uneven = true, .dtype = WEFT_EP_FP8}, all, 3, 9);
}

static void halves_apart(void **state) {
  (void)state;
  run((struct setup){.apart = true}, all, 4, 9);
  run((struct setup){.apart = true, .layout = WEFT_EP_RANK_MAJOR, .dtype = WEFT_EP_FP8}, all, 4, 9);
}

static void rows_and_answers_in_place(void **state) {
  (void)state;
  for (int dtype = WEFT_EP_BF16; dtype <= WEFT_EP_FP8_UE8M0; dtype++)
    for (int apart = 0; apart < 2; apart++) {
      struct setup setup = {.in_place = true, .placed = true, .dtype = (enum weft_ep_dtype)dtype, .apart = apart};
      setup.layout = WEFT_EP_RANK_MAJOR;
      run(setup, all, 4, 9);
      setup.layout = WEFT_EP_PER_EXPERT;
      run(setup, all, 4, 9);
    }
  run((struct setup){.placed = true, .layout = WEFT_EP_RANK_MAJOR, .uneven = true, .drop = 0.5f}, all, 3, 9);
}

// Rows of many chunks too: those go to other hosts from the caller's memory while their type is bf16, without strides.
static void calls_that_vary(void **state) {
  (void)state;
  for (int layout = WEFT_EP_PER_EXPERT; layout <= WEFT_EP_RANK_MAJOR; layout++)
    for (int apart = 0; apart < 2; apart++)
      for (int large = 0; large < 2; large++)
        run((struct setup){.vary = true,
                           .layout = (enum weft_ep_layout)layout,
                           .apart = apart,
                           .cast_before = apart,
                           .tokens = large ? 200 : 16,
                           .hidden = large ? 2048 : 256,
                           .uneven = true},
            all, 3, 12);
}

static void rows_cast_before(void **state) {
  (void)state;
  for (int how = 0; how < 24; how++)
    run((struct setup){.cast_before = true,
                       .dtype = (enum weft_ep_dtype)(WEFT_EP_FP8 + how % 3),
                       .layout = how / 3 & 1 ? WEFT_EP_RANK_MAJOR : WEFT_EP_PER_EXPERT,
                       .apart = how / 3 & 2,
                       .in_place = how / 3 & 4,
                       .uneven = true,
                       .drop = 0.2f},
        all, 3, 9);
  run((struct setup){.cast_before = true, .dtype = WEFT_EP_FP8, .late_weights = true, .hidden = 7168, .tokens = 32},
      all, 2, 9);
}

static void combined_as_logfmt10(void **state) {
  (void)state;
  const uint32_t hidden[] = {128, 384, 1280, 7168};
  for (int how = 0; how < 16; how++)
    run((struct setup){.combine_dtype = WEFT_EP_COMBINE_LOGFMT10,
                       .dtype = how & 1 ? WEFT_EP_FP8_UE8M0 : WEFT_EP_BF16,
                       .layout = how & 2 ? WEFT_EP_RANK_MAJOR : WEFT_EP_PER_EXPERT,
                       .apart = how & 4,
                       .in_place = how & 8,
                       .late_weights = !(how & 2) && how & 4,
                       .hidden = hidden[how / 4],
                       .tokens = how < 12 ? 24 : 6, // mostly enough that rows are written in more than one way
                       .uneven = true,
                       .drop = 0.2f},
        all, 3, 9);
}

// Rows as they travel: codes and heads of each 128 values.
static void logfmt10_bytes_body(struct rank *rank, void *arg) {
  (void)arg;
  for (int i = 0; i < 8 && rank_operate(rank); i++) {
    uint64_t rows = 0, hidden = rank->setup.hidden, row_bytes = hidden / 128 * (160 + 8);
    uint64_t pairs = rank->info.logical_bytes / (2 * hidden + 16),
             logical = pairs * (hidden * 10 / 8 + hidden / 128 * 4);
    for (uint32_t row = 0; row < rank->info.num_rows; row++)
      rows += rank->src_rank[row] != rank->index;
    if (rank->result.wire_bytes != rows * row_bytes)
      rank_fail(rank, "the combine of %u rows for others sent %u bytes", (unsigned)rows,
                (unsigned)rank->result.wire_bytes);
    if (pairs == 0 || rank->result.logical_bytes != logical)
      rank_fail(rank, "the combine of %u pairs counts %u bytes", (unsigned)pairs, (unsigned)rank->result.logical_bytes);
  }
}

static void logfmt10_sends_two_thirds_of_the_bytes(void **state) {
  (void)state;
  struct setup setup = {.combine_dtype = WEFT_EP_COMBINE_LOGFMT10, .layout = WEFT_EP_RANK_MAJOR, .hidden = 384};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, 3, logfmt10_bytes_body, NULL);
  weft_store_close(setup.store);
}

static void uneven_tokens(void **state) {
  (void)state;
  run((struct setup){.uneven = true, .drop = 0.4f}, all, 4, 24);
}

static void token_counts(void **state) {
  (void)state;
  run((struct setup){.no_tokens = true}, all, 3, 5);
  const uint32_t tokens[] = {1, 7, 128, 513, 1024};
  for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
    run((struct setup){.tokens = tokens[i], .hidden = 128, .topk = 2}, all, 2, 5);
}

// Between hosts rows leave in chunks of some 240 KB while the next are written; counts on both sides of the borders.
static void rows_of_many_chunks(void **state) {
  (void)state;
  for (int in_place = 0; in_place < 2; in_place++)
    run((struct setup){.tokens = 128,
                       .hidden = 2048,
                       .topk = 2,
                       .experts = 1,
                       .layout = WEFT_EP_RANK_MAJOR,
                       .in_place = in_place,
                       .uneven = in_place},
        all, 2, 3);
}

static void hidden_sizes(void **state) {
  (void)state;
  const uint32_t hidden[] = {128, 384, 2048, 2560, 7168, 16384};
  for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
    for (int dtype = WEFT_EP_BF16; dtype <= WEFT_EP_FP8_UE8M0; dtype++)
      run((struct setup){.hidden = hidden[i], .tokens = 3, .dtype = (enum weft_ep_dtype)dtype}, all, 2, 5);
}

static void topk_and_experts(void **state) {
  (void)state;
  for (uint32_t topk = 1; topk <= 16; topk += topk < 3 ? 1 : 5)
    run((struct setup){.topk = topk, .experts = 7, .capacity = 5}, all, 4, 5);
  run((struct setup){.topk = 16, .experts = 256, .capacity = 4, .tokens = 5, .hidden = 128}, all, 3, 5);
  run((struct setup){.topk = 3, .experts = 1}, all, 4, 5);
}

// A barrier is an operation: ranks come out of it together, and operations go on.
static void barrier_body(struct rank *rank, void *arg) {
  (void)arg;
  for (int i = 0; i < 20; i++) {
    if (weft_ep_barrier(rank->ep) != 0)
      rank_fail(rank, "barrier: %s", weft_last_error());
    if (!rank_operate(rank))
      return;
  }
}

static void barriers_between_operations(void **state) {
  (void)state;
  struct setup setup = {0};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, 4, barrier_body, NULL);
  weft_store_close(setup.store);
}

// Two operations in flight: n + 1 is sent before n is received.
static void overlap_body(struct rank *rank, void *arg) {
  (void)arg;
  enum { TOKENS = 16, TOPK = 4, HIDDEN = 256 };
  static const int64_t none[TOKENS * TOPK] = {[0 ... TOKENS * TOPK - 1] = -1};
  for (int i = 0; i < 20; i++) {
    uint64_t first, second;
    int64_t topk_idx[TOKENS * TOPK];
    memcpy(topk_idx, none, sizeof topk_idx);
    for (int t = 0; t < TOKENS; t++)
      topk_idx[t * TOPK] = (t + i) % 8;
    struct weft_ep_dispatch_args a = {
        .size = sizeof a, .x = rank->x, .num_tokens = TOKENS, .topk_idx = topk_idx, .topk_weights = rank->weights};
    for (int t = 0; t < TOKENS * TOPK; t++)
      rank->weights[t] = 1.0f;
    for (int v = 0; v < TOKENS * HIDDEN; v++)
      rank->x[v] = oracle_to_bf16((double)(v % 97 + i));
    struct weft_ep_combine_args c = {.size = sizeof c, .y = rank->received, .out = rank->out};
    int rc = weft_ep_dispatch_send(rank->ep, &a, &first);
    rc = rc ? rc : weft_ep_dispatch_send(rank->ep, &a, &second);
    uint64_t third;
    if (rc == 0 && weft_ep_dispatch_send(rank->ep, &a, &third) != WEFT_ERR_BUSY) {
      rank_fail(rank, "a third operation was begun");
      return;
    }
    for (int half = 0; half < 2 && rc == 0; half++) {
      uint64_t op = half == 0 ? first : second;
      rc = weft_ep_dispatch_recv(rank->ep, op, &rank->recv, NULL);
      rc = rc ? rc : weft_ep_combine(rank->ep, op, &c, NULL);
      if (rc == 0 && memcmp(rank->out, rank->x, sizeof(uint16_t) * TOKENS * HIDDEN) != 0) {
        rank_fail(rank, "identity experts with weight 1 did not give the input back");
        return;
      }
    }
    if (rc != 0) {
      rank_fail(rank, "%s", weft_last_error());
      return;
    }
  }
}

static void two_operations_overlap(void **state) {
  (void)state;
  struct setup setup = {.apart = true};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, 4, overlap_body, NULL);
  weft_store_close(setup.store);
}

// The same input twice gives the same bits twice: rows in the same order, sums in the same order.
static void repeat_body(struct rank *rank, void *arg) {
  (void)arg;
  enum { TOKENS = 16, TOPK = 4, HIDDEN = 256 };
  uint16_t first[TOKENS * HIDDEN];
  int32_t order[64];
  for (int i = 0; i < TOKENS * HIDDEN; i++)
    rank->x[i] = oracle_to_bf16((i % 251) * 0.37 - 11.0 + rank->index);
  for (int t = 0; t < TOKENS; t++)
    for (int k = 0; k < TOPK; k++) {
      rank->topk_idx[t * TOPK + k] = (t * 3 + k * 2 + rank->index) % 8;
      rank->weights[t * TOPK + k] = 0.1f + 0.07f * (float)k;
    }
  for (int i = 0; i < 10; i++) {
    struct weft_ep_dispatch_args a = {.size = sizeof a,
                                      .x = rank->x,
                                      .num_tokens = TOKENS,
                                      .topk_idx = rank->topk_idx,
                                      .topk_weights = rank->weights};
    struct weft_ep_combine_args c = {.size = sizeof c, .y = rank->received, .out = rank->out};
    uint64_t op;
    if (weft_ep_dispatch(rank->ep, &a, &rank->recv, NULL, &op) != 0 || weft_ep_combine(rank->ep, op, &c, NULL) != 0) {
      rank_fail(rank, "%s", weft_last_error());
      return;
    }
    if (i > 0 && (memcmp(first, rank->out, sizeof first) != 0 || memcmp(order, rank->src_token, sizeof order) != 0)) {
      rank_fail(rank, "repetition %d gave other bits", i);
      return;
    }
    memcpy(first, rank->out, sizeof first);
    memcpy(order, rank->src_token, sizeof order);
  }
}

static void repetitions_are_bit_identical(void **state) {
  (void)state;
  struct setup setup = {0};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, 4, repeat_body, NULL);
  weft_store_close(setup.store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_rank_alone),
      cmocka_unit_test(two_ranks),
      cmocka_unit_test(four_ranks_in_each_dtype_and_layout),
      cmocka_unit_test(sparse_odd_rank_sets),
      cmocka_unit_test(weights_with_the_combine),
      cmocka_unit_test(halves_apart),
      cmocka_unit_test(rows_and_answers_in_place),
      cmocka_unit_test(calls_that_vary),
      cmocka_unit_test(rows_cast_before),
      cmocka_unit_test(combined_as_logfmt10),
      cmocka_unit_test(logfmt10_sends_two_thirds_of_the_bytes),
      cmocka_unit_test(uneven_tokens),
      cmocka_unit_test(token_counts),
      cmocka_unit_test(rows_of_many_chunks),
      cmocka_unit_test(hidden_sizes),
      cmocka_unit_test(topk_and_experts),
      cmocka_unit_test(barriers_between_operations),
      cmocka_unit_test(two_operations_overlap),
      cmocka_unit_test(repetitions_are_bit_identical),
  };
  return cmocka_run_group_tests_name("ep_operations", tests, NULL, NULL);
}
