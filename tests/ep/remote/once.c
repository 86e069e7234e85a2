// Rows that cross to another host once (host/send/): ranks on two declared hosts. The test counts network traffic where
// it is posted. Carriers, readers and sources are killed and stopped at critical moments, and the oracle checks every
// remaining rank. Operations by a route are in once_by_route.c.
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "ep/remote/support/scenarios.h"

enum { MEASURED = 6 };

// Counts the last operation's tokens: pairs of a token and a rank of the other host that gets it, and rows that have to
// cross for them; and the bytes that carry all that.
static void expect(struct rank *rank) {
  struct board *board = scenario->board;
  uint32_t tokens = pattern_tokens(&rank->pattern, rank->info.op, rank->index);
  uint64_t local = 0, pairs = 0, words = 0, crossed = 0;
  for (uint32_t t = 0; t < tokens; t++) {
    uint64_t ranks = 0;
    bool shared = false;
    for (uint32_t k = 0; k < rank->setup.topk; k++)
      if (rank->topk_idx[t * rank->setup.topk + k] >= 0)
        ranks |= 1u << rank->topk_idx[t * rank->setup.topk + k] / rank->setup.experts;
    for (int32_t r = 0; r < (int32_t)scenario->ranks; r++) {
      bool gets = ranks >> r & 1, far = !on_one_host(rank->index, r);
      local += gets && !far && r != rank->index;
      pairs += gets && far;
      words += gets && far && shares_rows(r);
      crossed += gets && far && !maps(r);
      shared |= gets && far && maps(r);
    }
    crossed += shared;
  }
  const struct ep_layout *layout = &rank->ep->layout;
  uint64_t row_bytes = layout->value_bytes + layout->scale_bytes;
  board->pairs[rank->index] += pairs;
  board->expected[rank->index] += crossed;
  board->wire_bytes[rank->index] += rank->info.wire_bytes;
  board->bytes[rank->index] += ep_layout_bytes(layout, row_bytes, (uint32_t)local) +
                               ep_layout_bytes(layout, 0, (uint32_t)pairs) + words * sizeof(uint64_t) +
                               row_bytes * crossed;
}

// --- counting ---

static bool measure(struct rank *rank, void *arg) {
  static const int32_t all[RANKS] = {0, 1, 2, 3, 4, 5};
  strikes_begin(arg, rank);
  if (!rank_open(rank, &rank->setup, rank->index, all, scenario->ranks) || !rank_activate(rank))
    return false;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t measured = 0; rank->info.mark < 1;) {
    bool counts = knows_all(rank);
    rows_posted = 0;
    if (!rank_operate(rank))
      return false;
    if (counts && measured < MEASURED) {
      measured++;
      scenario->board->crossed[rank->index] += rows_posted;
      expect(rank);
    }
    if (measured == MEASURED)
      weft_ep_set_mark(rank->ep, 1);
    if (clock_passed(deadline))
      return rank_fail(rank, "it does not know which windows the ranks of the other host read");
  }
  return true;
}

// Returns by how much fewer rows crossed than without sharing, times 1,000.
static uint64_t count(struct setup setup, uint32_t ranks, int32_t cannot_map) {
  struct scenario scene = {.ranks = ranks, .cannot_map = cannot_map, .board = processes_share(sizeof *scene.board)};
  struct processes processes;
  uint64_t crossed = 0, pairs = 0;
  processes_start(&processes, ranks, &setup, measure, &scene);
  bool good = true;
  for (uint32_t i = 0; i < ranks; i++)
    good &= processes_expect(&processes, i, 0);
  assert_true(good);
  for (uint32_t i = 0; i < ranks; i++) {
    assert_int_equal(scene.board->crossed[i], scene.board->expected[i]);
    assert_int_equal(scene.board->wire_bytes[i], scene.board->bytes[i]);
    crossed += scene.board->crossed[i];
    pairs += scene.board->pairs[i];
  }
  processes_end(&processes);
  assert_true(crossed > 0);
  print_message("%u ranks, top-%u: %llu rows crossed for %llu pairs of a token and a rank, %.2f times fewer\n", ranks,
                setup.topk, (unsigned long long)crossed, (unsigned long long)pairs, (double)pairs / (double)crossed);
  return pairs * 1000 / crossed;
}

static const struct setup drawn = {
    .tokens = 120, .window = 25, .topk = 6, .capacity = RANKS, .layout = WEFT_EP_RANK_MAJOR};

// Nearly every token has experts on all ranks of the other host.
static void a_token_crosses_once_for_each_host(void **state) {
  (void)state;
  struct setup setup = drawn;
  assert_true(count(setup, 4, -1) > 1500);
  setup.layout = WEFT_EP_PER_EXPERT;
  setup.dtype = WEFT_EP_FP8;
  assert_true(count(setup, 6, -1) > 1700);
  setup.uneven = true;
  setup.topk = 2;
  count(setup, 5, -1);
}

static void a_rank_that_cannot_map_gets_rows_of_its_own(void **state) {
  (void)state;
  for (uint32_t ranks = 4; ranks <= RANKS; ranks += 2) {
    uint64_t all = count(drawn, ranks, -1), fewer = count(drawn, ranks, 3);
    assert_true(fewer > 1100 && fewer < all - 200);
  }
}

// --- credit ---

// The source's tokens all go to the carrier, the first of them to the reader too, which has all its rows with the first
// piece. Others send none.
static bool dispatch_to_carrier(struct rank *rank) {
  const uint32_t hidden = rank->setup.hidden, tokens = rank->index == SOURCE ? rank->setup.tokens : 0;
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  for (uint32_t t = 0; t < tokens; t++) {
    rank->topk_idx[2 * t] = CARRIER * (int64_t)rank->setup.experts;
    rank->topk_idx[2 * t + 1] = t < 10 ? READER * (int64_t)rank->setup.experts : -1;
    for (uint32_t i = 0; i < hidden; i++)
      rank->x[t * hidden + i] = (uint16_t)(t + weft_ep_next_op(rank->ep) % 100 * 128);
  }
  args.x = rank->x;
  args.num_tokens = tokens;
  args.topk_idx = rank->topk_idx;
  args.topk_weights = rank->weights;
  rank->info.size = sizeof rank->info;
  uint64_t op;
  if (weft_ep_dispatch(rank->ep, &args, &rank->recv, &rank->info, &op) != 0)
    return rank_fail(rank, "dispatch: %s", weft_last_error());
  uint32_t rows = rank->index == CARRIER ? rank->setup.tokens : rank->index == READER ? 10 : 0;
  if (rank->info.num_rows != rows)
    return rank_fail(rank, "%u rows came, not %u", rank->info.num_rows, rows);
  for (uint32_t i = 0; i < rows * hidden; i++)
    if (((const uint16_t *)rank->received)[i] != i / hidden + op % 100 * 128)
      return rank_fail(rank, "row %u of %u has values of another", i / hidden, rows);
  scenario->board->operations[rank->index] = op + 1;
  return weft_ep_finish(rank->ep, op) == 0 || rank_fail(rank, "finish: %s", weft_last_error());
}

static bool read_slowly(struct rank *rank, void *arg) {
  static const int32_t all[] = {0, 1, 2, 3};
  strikes_begin(arg, rank);
  if (!rank_open(rank, &rank->setup, rank->index, all, scenario->ranks) || !rank_activate(rank))
    return false;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t steps = 0; rank->info.mark < 2 && !clock_passed(deadline); steps += armed) {
    weft_ep_set_mark(rank->ep, steps >= MEASURED ? 2 : knows_all(rank));
    armed = rank->info.mark == 1;
    if (!dispatch_to_carrier(rank))
      return false;
  }
  return rank->info.mark == 2 ? true : rank_fail(rank, "not all know which windows the others read");
}

static void rows_are_not_overwritten_while_a_neighbour_reads_them(void **state) {
  (void)state;
  struct setup setup = drawn;
  setup.topk = 2;
  struct scenario scene = {
      .ranks = 4, .strikes = READER_SLOW, .cannot_map = -1, .board = processes_share(sizeof *scene.board)};
  struct processes processes;
  processes_start(&processes, scene.ranks, &setup, read_slowly, &scene);
  bool good = true;
  for (uint32_t i = 0; i < scene.ranks; i++)
    good &= processes_expect(&processes, i, 0);
  assert_true(good);
  processes_end(&processes);
}

// --- losses ---

static bool live(struct rank *rank, void *arg) {
  static const int32_t all[RANKS] = {0, 1, 2, 3, 4, 5};
  strikes_begin(arg, rank);
  struct board *board = scenario->board;
  if (!rank_open(rank, &rank->setup, rank->index, all, scenario->ranks) || !rank_activate(rank))
    return false;
  int32_t left[RANKS];
  uint32_t count = 0, ready = 0, after = 0;
  for (int32_t i = 0; i < (int32_t)scenario->ranks; i++)
    if (i != scenario->victim)
      left[count++] = i;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (rank->info.mark < 2 && !clock_passed(deadline)) {
    ready += knows_all(rank);
    if (ready >= STEPS_BEFORE && after < STEPS_AFTER)
      weft_ep_set_mark(rank->ep, 1);
    armed = rank->info.mark == 1; // all know
    if (!rank_operate(rank)) {
      board->fenced += strstr(rank->error, "FENCED") != NULL;
      return rank->index == scenario->victim && strstr(rank->error, "FENCED");
    }
    board->operations[rank->index]++;
    for (uint32_t i = 0; rank->index != scenario->victim && i < rank->result.num_missing; i++)
      board->wrong += rank->missing[i].expert / rank->setup.experts != scenario->victim;
    after += rank_sees(rank, left, count);
    if (after == STEPS_AFTER)
      weft_ep_set_mark(rank->ep, 2);
  }
  return rank->info.mark == 2 ? true : rank_fail(rank, "the end did not come, %u after the view that is left", after);
}

static void run_scenario(struct scenario scene) {
  struct setup setup = drawn;
  scenario_run(scene, 4, setup, live);
  setup.layout = WEFT_EP_PER_EXPERT;
  scenario_run(scene, RANKS, setup, live);
}

int main(void) {
  setenv("WEFT_TEST_HOSTS", "2", 0);
  setenv("WEFT_EP_TRANSPORT", "shm", 0);
  setenv("WEFT_ADDRESS", "127.0.0.1", 0);
  scenario_of_test = run_scenario;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_token_crosses_once_for_each_host),
      cmocka_unit_test(a_rank_that_cannot_map_gets_rows_of_its_own),
      cmocka_unit_test(rows_are_not_overwritten_while_a_neighbour_reads_them),
      SCENARIOS,
  };
  return cmocka_run_group_tests_name("ep_once", tests, NULL, NULL);
}
