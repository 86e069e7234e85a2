// Rows that are read in place, and answers that are written in place: how long they stay, and which calls wait.
// ep_operations, ep_random and ep_loss check their numbers.
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/support/rank.h"

enum { TOKENS = 8, HIDDEN = 256, TOPK = 2, DEADLINE_MS = 60000, LOOK_MS = 20, PAIRS = 5 };

static const int32_t all[] = {0, 1, 2, 3};

static uint16_t value_of(uint64_t op, int32_t rank, uint32_t token) {
  return oracle_to_bf16((double)(1 + (op * 31 + (uint64_t)rank * 7 + token) % 100));
}

static void fill(struct rank *rank, uint64_t op) {
  for (uint32_t i = 0; i < TOKENS * HIDDEN; i++)
    rank->x[i] = value_of(op, rank->index, i / HIDDEN);
}

// Whether every row in place is what its source sent in that operation.
static bool rows_are_of(struct rank *rank, uint64_t op, const void *const *rows_at, const int32_t *src_rank,
                        const int32_t *src_token, uint32_t count) {
  for (uint32_t row = 0; row < count; row++)
    for (uint32_t i = 0; i < HIDDEN; i++) {
      uint16_t value = ((const uint16_t *)rows_at[row])[i],
               right = value_of(op, src_rank[row], (uint32_t)src_token[row]);
      if (value != right)
        return rank_fail(rank, "row %u of operation %llu has 0x%04x at %u, should be 0x%04x", row,
                         (unsigned long long)op, value, i, right);
    }
  return true;
}

struct tale {
  _Atomic uint64_t begun, sent; // operations whose dispatch the writer has begun to send, and has sent
};

// Sends its tokens to rank 0 and wants no answer.
static void write_on(struct rank *rank, struct tale *tale) {
  for (uint32_t i = 0; i < TOKENS * TOPK; i++)
    rank->topk_idx[i] = i % TOPK == 0 ? 0 : -1;
  for (uint64_t i = 0; i < 2 * PAIRS; i++) {
    uint64_t op;
    struct weft_ep_dispatch_args args = {.size = sizeof args,
                                         .x = rank->x,
                                         .num_tokens = TOKENS,
                                         .topk_idx = rank->topk_idx,
                                         .topk_weights = rank->weights};
    fill(rank, weft_ep_next_op(rank->ep));
    atomic_store(&tale->begun, weft_ep_next_op(rank->ep) + 1);
    int rc = weft_ep_dispatch_send(rank->ep, &args, &op);
    atomic_store(&tale->sent, op + 1);
    if (rc != 0 || weft_ep_dispatch_recv(rank->ep, op, &rank->recv, NULL) != 0 || weft_ep_finish(rank->ep, op) != 0) {
      rank_fail(rank, "%s", weft_last_error());
      return;
    }
  }
}

struct rows {
  const void *at[TOKENS];
  int32_t src_rank[TOKENS], src_token[TOKENS];
};

static bool receive_in_place(struct rank *rank, struct rows *rows, uint64_t *op) {
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = {.size = sizeof recv,
                                   .layout = WEFT_EP_RANK_MAJOR,
                                   .rows = TOKENS,
                                   .rows_at = rows->at,
                                   .counts = rank->counts,
                                   .src_rank = rows->src_rank,
                                   .src_token = rows->src_token};
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  if (weft_ep_dispatch(rank->ep, &none, &recv, &info, op) != 0)
    return rank_fail(rank, "%s", weft_last_error());
  return info.num_rows == TOKENS ? true : rank_fail(rank, "%u rows came", info.num_rows);
}

// Reads two operations in place, slowly: the writer begins a third, and has to wait in it.
static void read_slowly(struct rank *rank, struct tale *tale) {
  for (int pair = 0; pair < PAIRS; pair++) {
    struct rows first, second;
    uint64_t op, next;
    if (!receive_in_place(rank, &first, &op) || !receive_in_place(rank, &second, &next))
      return;
    uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
    while (pair + 1 < PAIRS && atomic_load(&tale->begun) < next + 2)
      if (clock_passed(deadline)) {
        rank_fail(rank, "the writer did not begin operation %llu", (unsigned long long)next + 1);
        return;
      }
    for (uint64_t look = clock_deadline_ms(LOOK_MS); !clock_passed(look); sched_yield())
      if (atomic_load(&tale->sent) > next + 1) {
        rank_fail(rank, "operation %llu was sent over rows that are still read", (unsigned long long)next + 1);
        return;
      }
    if (!rows_are_of(rank, op, first.at, first.src_rank, first.src_token, TOKENS) ||
        !rows_are_of(rank, next, second.at, second.src_rank, second.src_token, TOKENS))
      return;
    if (weft_ep_finish(rank->ep, op) != 0 || weft_ep_finish(rank->ep, next) != 0) {
      rank_fail(rank, "%s", weft_last_error());
      return;
    }
  }
}

static void reader_and_writer(struct rank *rank, void *arg) {
  if (rank->index == 0)
    read_slowly(rank, arg);
  else
    write_on(rank, arg);
}

static void rows_stay_until_the_operation_is_answered(void **state) {
  (void)state;
  struct tale tale = {0};
  struct setup setup = {.tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK, .layout = WEFT_EP_RANK_MAJOR};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, 2, reader_and_writer, &tale);
  weft_store_close(setup.store);
}

enum { MOST_ROWS = 4 * TOKENS };

struct operation {
  uint64_t number;
  uint16_t x[TOKENS * HIDDEN], out[TOKENS * HIDDEN];
  const void *rows_at[MOST_ROWS];
  void *answers_at[MOST_ROWS];
  int32_t src_rank[MOST_ROWS], src_token[MOST_ROWS];
  struct weft_ep_info info;
};

// Every token goes to this rank and to the next one.
static bool begin(struct rank *rank, struct operation *op, int32_t next_rank) {
  fill(rank, weft_ep_next_op(rank->ep));
  memcpy(op->x, rank->x, sizeof op->x);
  for (uint32_t t = 0; t < TOKENS; t++) {
    rank->topk_idx[t * TOPK] = (int64_t)rank->index * rank->setup.experts;
    rank->topk_idx[t * TOPK + 1] = (int64_t)next_rank * rank->setup.experts + 1;
  }
  struct weft_ep_dispatch_args args = {
      .size = sizeof args, .x = op->x, .num_tokens = TOKENS, .topk_idx = rank->topk_idx, .topk_weights = rank->weights};
  struct weft_ep_recv_args recv = {.size = sizeof recv,
                                   .layout = WEFT_EP_RANK_MAJOR,
                                   .rows = MOST_ROWS,
                                   .rows_at = op->rows_at,
                                   .counts = rank->counts,
                                   .src_rank = op->src_rank,
                                   .src_token = op->src_token};
  op->info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  return weft_ep_dispatch(rank->ep, &args, &recv, &op->info, &op->number) == 0;
}

// The experts give their input back, so the sum over two ranks is twice the token; one rank alone gives one row.
static bool end(struct rank *rank, struct operation *op) {
  struct weft_ep_combine_args args = {.size = sizeof args, .out = op->out};
  if (weft_ep_combine_rows(rank->ep, op->number, op->answers_at) != 0)
    return rank_fail(rank, "%s", weft_last_error());
  for (uint32_t row = 0; row < op->info.num_rows; row++)
    memcpy(op->answers_at[row], op->rows_at[row], HIDDEN * sizeof(uint16_t));
  if (weft_ep_combine(rank->ep, op->number, &args, NULL) != 0)
    return rank_fail(rank, "%s", weft_last_error());
  double times = op->info.num_ranks > 1 ? 2 : 1;
  for (uint32_t i = 0; i < TOKENS * HIDDEN; i++)
    if (oracle_bf16(op->out[i]) != times * oracle_bf16(op->x[i]))
      return rank_fail(rank, "operation %llu gives 0x%04x at %u, should be the sum of 0x%04x",
                       (unsigned long long)op->number, op->out[i], i, op->x[i]);
  return true;
}

static void two_at_once(struct rank *rank, void *arg) {
  int32_t count = *(const int32_t *)arg, next_rank = (rank->index + 1) % count;
  static _Thread_local struct operation first, second;
  for (int i = 0; i < 20; i++) {
    if (!begin(rank, &first, next_rank) || !begin(rank, &second, next_rank)) {
      rank_fail(rank, "%s", weft_last_error());
      return;
    }
    if (!rows_are_of(rank, first.number, first.rows_at, first.src_rank, first.src_token, first.info.num_rows) ||
        !end(rank, &first) || !end(rank, &second))
      return;
  }
}

static void two_operations_in_place_overlap(void **state) {
  (void)state;
  struct setup setup = {.tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK};
  for (int32_t count = 2; count <= 4; count++) {
    assert_int_equal(weft_store_open_local(&setup.store), 0);
    ranks_run(&setup, all, (uint32_t)count, two_at_once, &count);
    weft_store_close(setup.store);
  }
}

#define refuse(rank, call, words)                                                                                      \
  do {                                                                                                                 \
    if ((call) != WEFT_ERR_INVALID || !strstr(weft_last_error(), words)) {                                             \
      rank_fail(rank, "\"%s\" does not say \"%s\"", weft_last_error(), words);                                         \
      return;                                                                                                          \
    }                                                                                                                  \
  } while (0)

static void misuse(struct rank *rank, void *arg) {
  (void)arg;
  static struct operation op;
  if (!begin(rank, &op, 0)) {
    rank_fail(rank, "%s", weft_last_error());
    return;
  }
  struct weft_ep_combine_args args = {.size = sizeof args, .out = op.out};
  refuse(rank, weft_ep_combine_send(rank->ep, op.number, &args), "y is NULL");
  refuse(rank, weft_ep_combine_rows(rank->ep, op.number, NULL), "rows_at is NULL");
  refuse(rank, weft_ep_combine_rows(rank->ep, op.number + 2, op.answers_at), "not open");
  if (weft_ep_combine_rows(rank->ep, op.number, op.answers_at) != 0) {
    rank_fail(rank, "%s", weft_last_error());
    return;
  }
  args.y = op.x;
  refuse(rank, weft_ep_combine_send(rank->ep, op.number, &args), "y is given");
  if (!end(rank, &op))
    return;
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  struct weft_ep_recv_args recv = rank->recv;
  recv.rows_at = rank->rows_at;
  refuse(rank, weft_ep_dispatch(rank->ep, &none, &recv, NULL, &op.number), "both given");
  recv.x = NULL;
  if (weft_ep_dispatch(rank->ep, &none, &recv, NULL, &op.number) != 0)
    rank_fail(rank, "%s", weft_last_error());
  else
    refuse(rank, weft_ep_combine_rows(rank->ep, op.number, op.answers_at), "per expert");
}

static void coded(struct rank *rank, void *arg) {
  (void)arg;
  static struct operation op;
  if (begin(rank, &op, 0))
    refuse(rank, weft_ep_combine_rows(rank->ep, op.number, op.answers_at), "logfmt10");
  else
    rank_fail(rank, "%s", weft_last_error());
}

static void misuse_is_refused(void **state) {
  (void)state;
  struct setup setup = {.tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, 1, misuse, NULL);
  setup.prefix = "/weft/coded/";
  setup.combine_dtype = WEFT_EP_COMBINE_LOGFMT10;
  ranks_run(&setup, all, 1, coded, NULL);
  weft_store_close(setup.store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_stay_until_the_operation_is_answered),
      cmocka_unit_test(two_operations_in_place_overlap),
      cmocka_unit_test(misuse_is_refused),
  };
  return cmocka_run_group_tests_name("ep_in_place", tests, NULL, NULL);
}
