// Dispatches by a route whose rows cross to another host once: they bring the same bits as ordinary ones, and each
// token's row crosses once. Carriers, readers and sources are killed and stopped, as in once.c.
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "ep/remote/support/scenarios.h"
#include "ep/support/routes.h"

enum { TOKENS = 60, HIDDEN = 256, TOPK = 6, DRAWS = 8, REPEATS = 3 };

// Rows flow in several pieces.
static struct setup small(void) {
  return (struct setup){
      .tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK, .experts = 2, .window = 25, .capacity = RANKS};
}

struct actor {
  struct rank *rank;
  struct draw draw;
  struct route_way way;
  weft_ep_route_t *route;
  struct brought first, second;
};

static bool actor_new(struct actor *actor, struct rank *rank) {
  *actor = (struct actor){.rank = rank, .way = {.layout = WEFT_EP_RANK_MAJOR, .dtype = WEFT_EP_BF16}};
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  if (weft_ep_route_create(rank->ep, &options, &actor->route) != 0)
    return rank_fail(rank, "route_create: %s", weft_last_error());
  brought_new(&actor->first, &rank->setup);
  brought_new(&actor->second, &rank->setup);
  return true;
}

static void actor_free(struct actor *actor) {
  weft_ep_route_free(actor->route);
  brought_free(&actor->first);
  brought_free(&actor->second);
}

// Opens the rank, and operates until all ranks know which windows the ranks of the other host read.
static bool get_ready(struct rank *rank) {
  static const int32_t all[RANKS] = {0, 1, 2, 3, 4, 5};
  if (!rank_open(rank, &rank->setup, rank->index, all, scenario->ranks) || !rank_activate(rank))
    return false;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (rank->info.mark < 1) {
    weft_ep_set_mark(rank->ep, knows_all(rank));
    if (!rank_operate(rank))
      return false;
    if (clock_passed(deadline))
      return rank_fail(rank, "not all ranks know which windows the ranks of the other host read");
  }
  return true;
}

static bool fill(struct actor *actor) {
  struct weft_ep_dispatch_args args = way_dispatch(actor->rank, &actor->draw, &actor->way, actor->rank->x);
  args.route = actor->route;
  return way_run(actor->rank, &actor->draw, &actor->way, &args, actor->draw.seed, &actor->first);
}

static bool go_by_route(struct actor *actor) {
  struct weft_ep_dispatch_args args = way_dispatch(actor->rank, &actor->draw, &actor->way, actor->rank->x);
  args.route = actor->route;
  args.topk_idx = NULL;
  args.topk_weights = NULL;
  return way_run(actor->rank, &actor->draw, &actor->way, &args, actor->draw.seed, &actor->second);
}

// --- what crosses ---

static bool is_chosen(const struct actor *actor, uint32_t token, int32_t rank) {
  const int64_t *chosen = actor->draw.topk_idx[actor->rank->index] + (size_t)token * actor->draw.topk;
  for (uint32_t k = 0; k < actor->draw.topk; k++)
    if (chosen[k] >= 0 && chosen[k] / actor->rank->setup.experts == rank)
      return true;
  return false;
}

// The rows of this rank that cross once, and the bytes of the dispatch: a row for each rank of this host, a row and a
// word for each rank of the other one for which the row crosses, a word for each of the others there.
static bool count(struct actor *actor) {
  struct rank *rank = actor->rank;
  uint64_t local = 0, words = 0, crossed = 0;
  for (uint32_t t = 0; t < actor->draw.tokens[rank->index]; t++) {
    uint64_t far = 0;
    for (int32_t r = 0; r < (int32_t)scenario->ranks; r++) {
      bool there = r != rank->index && is_chosen(actor, t, r);
      local += there && on_one_host(rank->index, r);
      far += there && !on_one_host(rank->index, r);
    }
    words += far;
    crossed += far > 0;
  }
  uint64_t row_bytes = actor->way.dtype == WEFT_EP_BF16 ? 2 * HIDDEN : HIDDEN + HIDDEN / 128 * 4;
  uint64_t bytes = (local + crossed) * row_bytes + words * sizeof(uint64_t);
  scenario->board->crossed[rank->index] += crossed;
  scenario->board->pairs[rank->index] += words;
  if (rows_posted != crossed)
    return rank_fail(rank, "%llu rows crossed, should be %llu", (unsigned long long)rows_posted,
                     (unsigned long long)crossed);
  if (actor->second.info.wire_bytes != bytes)
    return rank_fail(rank, "%llu bytes were sent, should be %llu", (unsigned long long)actor->second.info.wire_bytes,
                     (unsigned long long)bytes);
  return true;
}

// A dispatch that fills the route; then, in drawn layouts and types, the same rows without and with the route.
static bool compare(struct actor *actor, uint64_t drawn) {
  struct rank *rank = actor->rank;
  uint64_t state = random_mix(drawn);
  bool good = true;
  for (int i = 0; good && i <= REPEATS; i++) {
    actor->way.layout = (enum weft_ep_layout)(1 + random_next(&state) % 3);
    actor->way.dtype = random_next(&state) % 2 ? WEFT_EP_BF16 : WEFT_EP_FP8;
    actor->way.alignment = (uint32_t)(1 + random_next(&state) % 4);
    draw_x(&rank->setup, random_next(&state), rank->index, rank->x);
    struct weft_ep_dispatch_args args = way_dispatch(rank, &actor->draw, &actor->way, rank->x);
    good = i == 0 ? fill(actor) : way_run(rank, &actor->draw, &actor->way, &args, actor->draw.seed, &actor->first);
    rows_posted = 0;
    good = good && go_by_route(actor) && brought_equal(rank, &actor->first, &actor->second, "by the route") &&
           count(actor);
  }
  return good;
}

static bool measure(struct rank *rank, void *arg) {
  strikes_begin(arg, rank);
  struct actor actor;
  if (!get_ready(rank) || !actor_new(&actor, rank))
    return false;
  bool good = true;
  for (uint64_t drawn = 0; good && drawn < DRAWS; drawn++) {
    actor.draw = (struct draw){
        .seed = drawn + 1, .count = scenario->ranks, .topk = drawn % 3 ? TOPK : 2, .drop = (float)(drawn % 4) / 5};
    draw_make(&actor.draw, &rank->setup);
    good = compare(&actor, drawn);
    draw_free(&actor.draw);
  }
  actor_free(&actor);
  return good;
}

static void a_row_crosses_once_and_brings_the_same_bits(void **state) {
  (void)state;
  for (uint32_t ranks = 4; ranks <= RANKS; ranks++) {
    struct setup setup = small();
    struct scenario scene = {.ranks = ranks, .cannot_map = -1, .board = processes_share(sizeof *scene.board)};
    struct processes processes;
    uint64_t crossed = 0, pairs = 0;
    processes_start(&processes, ranks, &setup, measure, &scene);
    bool good = true;
    for (uint32_t i = 0; i < ranks; i++)
      good &= processes_expect(&processes, i, 0);
    for (uint32_t i = 0; i < ranks; i++) {
      crossed += scene.board->crossed[i];
      pairs += scene.board->pairs[i];
    }
    processes_end(&processes);
    assert_true(good);
    assert_true(crossed > 0 && pairs * 10 > crossed * 13);
  }
}

// --- losses ---

// Each row is the row with which the route was filled; or it is 0 because its source was lost. A rank that was stopped
// itself finds others lost.
static bool check_rows(struct actor *actor) {
  struct rank *rank = actor->rank;
  const struct brought *a = &actor->first, *b = &actor->second;
  static const uint8_t nothing[2 * HIDDEN];
  if (a->info.num_rows != b->info.num_rows)
    return rank_fail(rank, "%u rows, should be %u", b->info.num_rows, a->info.num_rows);
  for (size_t i = 0; i < a->info.num_rows; i++) {
    bool may_lack = a->src_rank[i] == scenario->victim || rank->index == scenario->victim;
    bool lacks = may_lack && b->src_token[i] == -1;
    if (b->src_rank[i] != a->src_rank[i] || b->src_token[i] != (lacks ? -1 : a->src_token[i]))
      return rank_fail(rank, "row %zu is token %d of rank %d, should be %d of %d", i, b->src_token[i], b->src_rank[i],
                       a->src_token[i], a->src_rank[i]);
    if (memcmp(b->x + i * 2 * HIDDEN, lacks ? nothing : a->x + i * 2 * HIDDEN, 2 * HIDDEN) != 0)
      return rank_fail(rank, "row %zu, of rank %d, has other values", i, a->src_rank[i]);
  }
  for (uint32_t i = 0; rank->index != scenario->victim && i < b->result.num_missing; i++)
    if (b->missing[i].expert / rank->setup.experts != scenario->victim)
      return rank_fail(rank, "expert %lld is missing", (long long)b->missing[i].expert);
  return true;
}

// Dispatches by the route until all have run STEPS_AFTER operations without the victim.
static bool go_on(struct actor *actor) {
  struct rank *rank = actor->rank;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  uint32_t after = 0;
  while (actor->second.info.mark < 2) {
    weft_ep_set_mark(rank->ep, after >= STEPS_AFTER ? 2 : 1);
    if (!go_by_route(actor)) {
      bool fenced = strstr(rank->error, "FENCED") != NULL;
      scenario->board->fenced += fenced;
      return fenced && rank->index == scenario->victim;
    }
    if (!check_rows(actor))
      return false;
    scenario->board->operations[rank->index]++;
    after += actor->second.info.num_ranks == scenario->ranks - 1;
    if (clock_passed(deadline))
      return rank_fail(rank, "the end did not come, %u operations after the view without rank %d", after,
                       scenario->victim);
  }
  return true;
}

static bool live(struct rank *rank, void *arg) {
  strikes_begin(arg, rank);
  struct actor actor;
  if (!get_ready(rank) || !actor_new(&actor, rank))
    return false;
  actor.draw = (struct draw){.seed = 7, .count = scenario->ranks, .topk = TOPK, .even = true};
  draw_make(&actor.draw, &rank->setup);
  draw_x(&rank->setup, 9, rank->index, rank->x);
  bool good = fill(&actor);
  armed = true;
  good = good && go_on(&actor);
  draw_free(&actor.draw);
  actor_free(&actor);
  return good;
}

static void run_scenario(struct scenario scene) {
  scenario_run(scene, 4, small(), live);
}

int main(void) {
  setenv("WEFT_TEST_HOSTS", "2", 0);
  setenv("WEFT_EP_TRANSPORT", "shm", 0);
  setenv("WEFT_ADDRESS", "127.0.0.1", 0);
  setenv("WEFT_TEST_WINDOW", "25", 0);
  scenario_of_test = run_scenario;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_crosses_once_and_brings_the_same_bits),
      SCENARIOS,
  };
  return cmocka_run_group_tests_name("ep_once_by_route", tests, NULL, NULL);
}
