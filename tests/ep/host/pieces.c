// THROUGHPUT on host memory: rows that are sent in pieces through windows of a bounded size. The test covers numbers of
// rows on both sides of every boundary, input that does not fit, slow peers, and peers that lie about their pieces.
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "ep/host/host.h"
#include "ep/host/rows/rows.h"
#include "ep/support/rank.h"
#include "support/sanitized.h"

static const int32_t all[] = {0, 1, 2, 3, 4, 5};

static void run(struct setup setup, uint32_t num_ranks, rank_body body, void *arg) {
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, num_ranks, body, arg);
  weft_store_close(setup.store);
}

// --- sizes ---

// Operations of 0, 1, P - 1, P, P + 1, ... tokens, P rows a piece.
static void border_counts(struct rank *rank, void *arg) {
  (void)arg;
  const uint32_t most = rank->setup.tokens, piece = rank->ep->layout.piece_rows;
  if (rank->ep->layout.pieces < 5 || rank->ep->layout.pieces % 2 == 0)
    rank_fail(rank, "%u rows travel in %u pieces at most", most, rank->ep->layout.pieces);
  for (uint32_t whole = 0; whole <= most; whole += piece)
    for (int32_t beside = -1; beside <= 1; beside++) {
      if ((whole == 0 && beside < 0) || whole + (uint32_t)beside > most)
        continue;
      rank->pattern.num_tokens = whole + (uint32_t)beside;
      if (!rank_operate(rank))
        return;
    }
  rank->pattern.num_tokens = most;
  rank_operate_n(rank, 3);
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT; // the other rank may have gone, but its window is no larger
  if (weft_ep_get_stats(rank->ep, &stats) != 0 || stats.window_bytes > rank->ep->layout.window_bytes + EP_PAGE ||
      rank->ep->layout.area > rank->ep->layout.window_bytes)
    rank_fail(rank, "windows of %llu bytes, and %zu of %llu", (unsigned long long)stats.window_bytes,
              rank->ep->layout.area, (unsigned long long)rank->ep->layout.window_bytes);
}

static void numbers_of_rows_around_pieces(void **state) {
  (void)state;
  const int step = support_slowed() ? 3 : 1; // 0, 3 and 6 have both values of each bit
  for (int how = 0; how < 8; how += step)
    run((struct setup){.tokens = 200,
                       .window = 31,
                       .topk = 2,
                       .experts = 1,
                       .layout = how & 1 ? WEFT_EP_RANK_MAJOR : WEFT_EP_PER_EXPERT,
                       .dtype = how & 2 ? WEFT_EP_FP8 : WEFT_EP_BF16,
                       .combine_dtype = how & 4 ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16},
        2, border_counts, NULL);
}

static void operate(struct rank *rank, void *arg) {
  rank_operate_n(rank, *(uint32_t *)arg);
}

static void many_ranks_with_uneven_tokens(void **state) {
  (void)state;
  uint32_t count = 8;
  for (int layout = WEFT_EP_PER_EXPERT; layout <= WEFT_EP_RANK_MAJOR; layout++)
    run((struct setup){.tokens = 150, .window = 16, .uneven = true, .drop = 0.3f, .masks = true, .layout = layout}, 6,
        operate, &count);
  run((struct setup){.tokens = 150, .window = 16, .no_tokens = true}, 3, operate, &count);
  run((struct setup){.tokens = 90, .window = 1, .cast_before = true, .dtype = WEFT_EP_FP8_UE8M0}, 3, operate, &count);
}

// Rows of the size that models have: a piece is as large as the library likes it, and smaller than the window.
static void large_rows(void **state) {
  (void)state;
  uint32_t count = 3;
  run((struct setup){.tokens = 300, .hidden = 7168, .window = 150, .layout = WEFT_EP_RANK_MAJOR}, 2, operate, &count);
}

// Rows that go past the caches, and the sums too where there are so many. Without pieces nobody knows at first how many
// rows there will be: the first go through the caches.
static void operate_past_caches(struct rank *rank, void *arg) {
  (void)arg;
  if (rank_operate_n(rank, 2) && rank->ep->host->places.laid <= EP_CACHED_BYTES)
    rank_fail(rank, "%llu bytes of rows stay in the caches", (unsigned long long)rank->ep->host->places.laid);
}

static void rows_past_the_caches(void **state) {
  (void)state;
  run((struct setup){.tokens = EP_CACHED_BYTES / 16384 + 30,
                     .capacity = 2,
                     .hidden = 8192,
                     .window = 150,
                     .layout = WEFT_EP_RANK_MAJOR},
      2, operate_past_caches, NULL);
  run((struct setup){.tokens = 300, .capacity = 2, .hidden = 8192}, 2, operate_past_caches, NULL);
}

// --- what has to fit ---

static bool returns(struct rank *rank, int rc, int wanted, const char *words) {
  if (rc == wanted && (wanted == 0 || strstr(weft_last_error(), words)))
    return true;
  return rank_fail(rank, "%d instead of %d with '%s': %s", rc, wanted, words, weft_last_error());
}

static struct weft_ep_dispatch_args tokens_of(struct rank *rank) {
  const struct setup *s = &rank->setup;
  for (size_t i = 0; i < (size_t)s->tokens * s->topk; i++) {
    rank->topk_idx[i] = (int64_t)(i % (2 * s->experts));
    rank->weights[i] = 0.5f;
  }
  memset(rank->x, 0, (size_t)s->tokens * s->hidden * 2);
  return (struct weft_ep_dispatch_args){.size = sizeof(struct weft_ep_dispatch_args),
                                        .x = rank->x,
                                        .num_tokens = s->tokens,
                                        .topk_idx = rank->topk_idx,
                                        .topk_weights = rank->weights};
}

static void refused_halves(struct rank *rank, void *arg) {
  (void)arg;
  struct weft_ep_dispatch_args args = tokens_of(rank);
  struct weft_ep_recv_args in_place = rank->recv;
  struct weft_ep_combine_args combine = {.size = sizeof combine, .y = rank->y, .out = rank->out};
  const void **rows_at = calloc((size_t)rank->rows * rank->setup.experts, sizeof *rows_at);
  void **answers_at = calloc(rank->rows, sizeof *answers_at);
  uint64_t op;
  in_place.x = NULL;
  in_place.rows_at = rows_at;
  rank->info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  rank->result = (struct weft_ep_result)WEFT_EP_RESULT_INIT;
  memset(rank->y, 0, (size_t)rank->rows * rank->setup.hidden * 2);
  // Neither begins an operation: all ranks get as far as the next.
  if (returns(rank, weft_ep_dispatch_send(rank->ep, &args, &op), WEFT_ERR_LIMIT, "weft_ep_dispatch") &&
      returns(rank, weft_ep_dispatch(rank->ep, &args, &in_place, NULL, &op), WEFT_ERR_LIMIT, "give x") &&
      returns(rank, weft_ep_dispatch(rank->ep, &args, &rank->recv, &rank->info, &op), 0, "") &&
      returns(rank, weft_ep_combine_send(rank->ep, op, &combine), WEFT_ERR_LIMIT, "call weft_ep_combine") &&
      returns(rank, weft_ep_combine_rows(rank->ep, op, answers_at), WEFT_ERR_LIMIT, "combine_rows"))
    returns(rank, weft_ep_combine(rank->ep, op, &combine, &rank->result), 0, "");
  if (!rank->error[0] && (rank->info.num_lost || rank->result.num_missing))
    rank_fail(rank, "%u ranks lost, %u missing", rank->info.num_lost, rank->result.num_missing);
  // A rank that gives no room in place gets the error when the headers have come, and the operation is still there.
  in_place.x = NULL;
  if (!rank->error[0] && returns(rank, weft_ep_dispatch(rank->ep, &args, &rank->recv, NULL, &op), 0, ""))
    returns(rank, weft_ep_finish(rank->ep, op), 0, "");
  free(rows_at);
  free(answers_at);
}

static void halves_that_do_not_fit_are_refused(void **state) {
  (void)state;
  run((struct setup){.tokens = 100, .window = 30, .layout = WEFT_EP_RANK_MAJOR}, 2, refused_halves, NULL);
}

static void halves_that_fit_flow(void **state) {
  (void)state;
  uint32_t count = 6;
  for (int how = 0; how < 4; how++)
    run((struct setup){.tokens = 60,
                       .window = 70,
                       .hidden = 7168, // more rows than a piece has
                       .apart = true,
                       .layout = how & 1 ? WEFT_EP_RANK_MAJOR : WEFT_EP_PER_EXPERT,
                       .in_place = how & 2,
                       .placed = how & 1},
        3, operate, &count);
}

static void weights_come_with_the_dispatch(struct rank *rank, void *arg) {
  (void)arg;
  struct weft_ep_dispatch_args args = tokens_of(rank);
  struct weft_ep_combine_args combine = {
      .size = sizeof combine, .y = rank->y, .out = rank->out, .topk_weights = rank->weights};
  uint64_t op;
  args.topk_weights = NULL;
  memset(rank->y, 0, (size_t)rank->rows * rank->setup.experts * rank->setup.hidden * 2);
  if (returns(rank, weft_ep_dispatch(rank->ep, &args, &rank->recv, NULL, &op), 0, "") &&
      returns(rank, weft_ep_combine(rank->ep, op, &combine, NULL), WEFT_ERR_INVALID, "with THROUGHPUT"))
    returns(rank, weft_ep_finish(rank->ep, op), 0, "");
}

static void late_weights_are_refused(void **state) {
  (void)state;
  run((struct setup){.tokens = 40, .window = 10}, 2, weights_come_with_the_dispatch, NULL);
}

static weft_ep_t *open_alone(weft_store_t *store, int32_t rank, enum weft_ep_mode mode, uint64_t window_bytes) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  weft_ep_t *ep = NULL;
  options.store = store;
  options.prefix = "/weft/differ/";
  options.rank = rank;
  options.capacity = 4;
  options.hidden = 256;
  options.max_tokens = 100;
  options.mode = mode;
  options.window_bytes = window_bytes;
  assert_int_equal(weft_ep_open(&ep, &options, 60000), 0);
  return ep;
}

static void ranks_that_differ_do_not_connect(void **state) {
  (void)state;
  static const int32_t other = 1;
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  for (int how = 0; how < 2; how++) {
    weft_ep_t *one = open_alone(store, 0, WEFT_EP_THROUGHPUT, 1 << 20);
    weft_ep_t *two = how ? open_alone(store, 1, WEFT_EP_THROUGHPUT, 1 << 21) : open_alone(store, 1, WEFT_EP_LATENCY, 0);
    assert_int_equal(weft_ep_connect(one, &other, 1, 60000), WEFT_ERR_VERSION);
    assert_non_null(strstr(weft_last_error(), how ? "window_bytes" : "mode"));
    weft_ep_close(two);
    weft_ep_close(one);
  }
  weft_store_close(store);
}

// --- peers that are slow, or lie ---

enum { SLOW_LIMIT_MS = 2000, SLOW_MS = SLOW_LIMIT_MS / 5 }; // the rest is for a busy machine
enum lie {
  SLOW,
  COUNTS_TOO_MANY,
  COUNTS_OF_OTHERS,
  COUNT_TOO_HIGH,
  TOKEN_TWICE,
  TOKEN_TOO_HIGH,
  PLACE_TOO_MANY,
  FLAG_TOO_EARLY,
  FLAG_TOO_HIGH,
  LIES
};

static const struct {
  const char *words; // with which rank 0 loses rank 1
  bool some;         // a part of its rows had come
} wanted[LIES] = {[COUNTS_TOO_MANY] = {"malformed header", false},
                  [COUNTS_OF_OTHERS] = {"rows", true},
                  [COUNT_TOO_HIGH] = {"fewer for local expert 0", true},
                  [TOKEN_TWICE] = {"has an invalid header", true},
                  [TOKEN_TOO_HIGH] = {"has an invalid header", true},
                  [PLACE_TOO_MANY] = {"has an invalid header", true},
                  [FLAG_TOO_EARLY] = {"announces another number of rows", true},
                  [FLAG_TOO_HIGH] = {"overwrote", true}};

struct liar {
  weft_ep_t *ep;
  enum lie lie;
};

// Until rank 0 has given this one up, or the time is over.
static bool await_given_up(const struct ep_link *link) {
  for (int i = 0; i < 6000 && ep_link_up(link); i++)
    poll(NULL, 0, 10);
  return !ep_link_up(link);
}

// Rank 1 has written a row, whose piece it has not published.
static void lie(void *arg, uint32_t rows_written, uint32_t peers_done) {
  const struct liar *liar = arg;
  const struct ep_layout *layout = &liar->ep->layout;
  const struct ep_op *op = &liar->ep->host->ops[0]; // it is the first operation
  (void)peers_done;
  uint32_t piece = (rows_written - 1) / layout->piece_rows, row = (rows_written - 1) % layout->piece_rows;
  uint64_t number = ep_piece(layout, 0, piece);
  const struct ep_link *link = op->members[0].link;
  char *slot = (char *)ep_slot(layout, link->out.memory, number);
  uint32_t *counts = (uint32_t *)(slot + layout->counts);
  _Atomic uint64_t *flag = &((struct ep_slot_head *)slot)->dispatch.flag;
  if (liar->lie == SLOW && row == 0)
    poll(NULL, 0, SLOW_MS);
  if (liar->lie == COUNTS_TOO_MANY && rows_written == 1)
    counts[0] += UINT32_MAX / 2;
  if (liar->lie == COUNTS_OF_OTHERS && rows_written == 1) {
    counts[0]++;
    counts[1]--;
  }
  if (liar->lie == COUNT_TOO_HIGH && rows_written == 1)
    counts[0]++;
  struct ep_row *head = ep_row_at(layout, slot + layout->heads, row);
  if (liar->lie == TOKEN_TWICE && piece == 2 && row == 3)
    head->token--;
  if (liar->lie == TOKEN_TOO_HIGH && rows_written == op->members[0].rows_out)
    head->token = (int32_t)layout->max_tokens;
  if (liar->lie == PLACE_TOO_MANY && piece == 2 && row == 3)
    head->places ^= 1;
  if (liar->lie == FLAG_TOO_EARLY && piece == 1 && row == 0) {
    ((struct ep_slot_head *)slot)->dispatch.count = 1;
    atomic_store(flag, number + 1);
    await_given_up(link);
  }
  if (liar->lie == FLAG_TOO_HIGH && piece == 1 && row == 0) {
    atomic_store(flag, number + 3);
    await_given_up(link);
  }
}

// If the view arrives after the loss, the detail of the event has other words.
static bool lost_with(struct rank *rank, const char *words) {
  struct weft_ep_event event = WEFT_EP_EVENT_INIT;
  for (int i = 0; i < 1000; i++, poll(NULL, 0, 10)) // another thread may be about to emit it
    while (weft_ep_next_event(rank->ep, &event) == 1)
      if (event.kind == WEFT_EP_EVENT_PEER_LOST)
        return strstr(event.detail, words) || strstr(event.detail, "when the view with it arrived") ||
               rank_fail(rank, "rank 1 was lost with '%s'", event.detail);
  return rank_fail(rank, "rank 1 was not lost with '%s'", words);
}

// Rows of rank 1 that came are right, and the places of the others empty.
static void check_rows(struct rank *rank, bool some) {
  const struct setup *s = &rank->setup;
  uint32_t came = 0, empty = 0;
  for (uint32_t e = 0; e < s->experts; e++)
    for (int32_t i = 0; i < rank->counts[e]; i++) {
      size_t row = (size_t)e * rank->rows + (size_t)i;
      const uint16_t *x = (const uint16_t *)rank->received + row * s->hidden;
      if (rank->src_rank[row] != 1)
        continue;
      uint16_t value = rank->src_token[row] < 0 ? 0 : (uint16_t)(0x4000 + rank->src_token[row]);
      came += rank->src_token[row] >= 0;
      empty += rank->src_token[row] < 0;
      for (uint32_t h = 0; h < s->hidden; h++)
        if (x[h] != value) {
          rank_fail(rank, "row %d of expert %u, token %d of rank 1, has %#x", i, e, rank->src_token[row], x[h]);
          return;
        }
    }
  if ((came > 0) != some || (empty > 0) != some)
    rank_fail(rank, "%u rows of rank 1 came, and %u places of it are empty", came, empty);
}

static void receive_lies(struct rank *rank, void *arg) {
  struct liar liar = {.ep = rank->ep, .lie = *(enum lie *)arg};
  struct weft_ep_dispatch_args args = tokens_of(rank);
  uint64_t op;
  for (uint32_t t = 0; t < args.num_tokens; t++)
    for (uint32_t h = 0; h < rank->setup.hidden; h++)
      rank->x[(size_t)t * rank->setup.hidden + h] = (uint16_t)(0x4000 + t);
  if (rank->index == 1)
    ep_fault_set(rank->ep, lie, &liar);
  rank->info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  rank->info.lost = rank->lost;
  rank->info.lost_cap = 16;
  int rc = weft_ep_dispatch(rank->ep, &args, &rank->recv, &rank->info, &op);
  const struct ep_member *zero = &rank->ep->host->ops[0].members[0];
  if (rank->index == 1 && liar.lie != SLOW && !await_given_up(zero->link))
    rank_fail(rank, "rank 0 believes it");
  if (rank->index == 1 || !returns(rank, rc, 0, ""))
    return;
  if (liar.lie == SLOW && rank->info.num_lost > 0)
    rank_fail(rank, "a slow rank was lost");
  if (liar.lie == SLOW)
    return;
  if (rank->info.num_lost != 1 || rank->lost[0] != 1)
    rank_fail(rank, "%u ranks were lost", rank->info.num_lost);
  else if (lost_with(rank, wanted[liar.lie].words))
    check_rows(rank, wanted[liar.lie].some);
}

static void peers_that_lie_cost_themselves(void **state) {
  (void)state;
  for (enum lie kind = COUNTS_TOO_MANY; kind < LIES; kind++)
    run((struct setup){.tokens = 100, .window = 20, .experts = 3, .topk = 2}, 2, receive_lies, &kind);
}

// Ten pieces, each of which takes a fifth of the time limit.
static void deadlines_count_from_the_last_piece(void **state) {
  (void)state;
  enum lie slow = SLOW;
  run((struct setup){.tokens = 200, .window = 20, .timeout_ms = SLOW_LIMIT_MS}, 2, receive_lies, &slow);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_of_rows_around_pieces),
      cmocka_unit_test(many_ranks_with_uneven_tokens),
      cmocka_unit_test(large_rows),
      cmocka_unit_test(rows_past_the_caches),
      cmocka_unit_test(halves_that_do_not_fit_are_refused),
      cmocka_unit_test(halves_that_fit_flow),
      cmocka_unit_test(late_weights_are_refused),
      cmocka_unit_test(ranks_that_differ_do_not_connect),
      cmocka_unit_test(peers_that_lie_cost_themselves),
      cmocka_unit_test(deadlines_count_from_the_last_piece),
  };
  return cmocka_run_group_tests_name("ep_pieces", tests, NULL, NULL);
}
