// Routes while the view changes: ranks that leave, die and join between the filling and the use.
//
// Ranks are processes that really die. In each case every rank uses the route of the first operation until a call
// reports a change.
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "ep/core/fault.h"
#include "ep/support/processes.h"
#include "ep/support/routes.h"
#include "support/sanitized.h"

enum {
  RANKS = 4,
  LAST = RANKS - 1, // the rank that leaves, dies or joins
  CAPACITY = 8,
  TOKENS = 12,
  HIDDEN = 256,
  TOPK = 3,
  EXPERTS = 2,
  AFTER = 10, // operations in the view that follows
  DEADLINE_MS = 60000,
};

enum ending { LEAVES, DIES_IN_FILL, DIES_IN_DISPATCH, DIES_BEFORE_COMBINE, JOINS };

// In shared memory.
struct board {
  _Atomic uint32_t founded;
  _Atomic uint64_t conflict[RANKS]; // the operation, plus one, in which a rank got the error for the joiner
  _Atomic uint32_t whole[RANKS];    // operations with all ranks, and without the last
  _Atomic uint32_t without[RANKS];
  _Atomic uint32_t in_the_middle; // ranks that got the error for the joiner in the middle of an operation
};

struct scenario {
  enum ending ending;
  enum weft_ep_layout layout;
  bool by_combine; // operations are combines by the route
  bool dies;       // JOINS: a founder dies when the view with the joiner is agreed on and not yet run in,
  int32_t victim;  // this one,
  uint64_t drawn;  // at a place that is drawn
  struct board *board;
};

// What a rank of a scenario works with.
struct actor {
  struct rank *rank;
  const struct scenario *scenario;
  struct draw draw;
  struct route_way way;
  weft_ep_route_t *route;
  struct brought first, second;
};

static void actor_new(struct actor *actor, struct rank *rank, const struct scenario *scenario) {
  *actor = (struct actor){.rank = rank, .scenario = scenario};
  actor->draw = (struct draw){.seed = 41, .count = RANKS, .topk = TOPK, .even = true};
  actor->way =
      (struct route_way){.layout = scenario->layout, .dtype = WEFT_EP_BF16, .renormalize = true, .keep_places = true};
  draw_make(&actor->draw, &rank->setup);
  brought_new(&actor->first, &rank->setup);
  brought_new(&actor->second, &rank->setup);
  draw_x(&rank->setup, 6, rank->index, rank->x);
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  if (weft_ep_route_create(rank->ep, &options, &actor->route) != 0)
    rank_fail(rank, "route_create: %s", weft_last_error());
}

static void actor_free(struct actor *actor) {
  weft_ep_route_free(actor->route);
  brought_free(&actor->first);
  brought_free(&actor->second);
  draw_free(&actor->draw);
}

static bool fill(struct actor *actor) {
  struct weft_ep_dispatch_args args = way_dispatch(actor->rank, &actor->draw, &actor->way, actor->rank->x);
  args.route = actor->route;
  return way_run(actor->rank, &actor->draw, &actor->way, &args, 8, &actor->first);
}

// One operation by the route. Returns its code.
static int go(struct actor *actor, uint64_t *op) {
  struct rank *rank = actor->rank;
  struct brought *brought = &actor->second;
  brought_poison(brought);
  way_recv(rank, &actor->way, brought);
  way_answers(rank, 8, brought);
  struct weft_ep_combine_args combine = way_combine(rank, &actor->draw, &actor->way, brought);
  if (actor->scenario->by_combine)
    return weft_ep_combine_route(rank->ep, actor->route, &combine, &brought->result, op);
  struct weft_ep_dispatch_args args = way_dispatch(rank, &actor->draw, &actor->way, rank->x);
  args.route = actor->route;
  args.topk_idx = NULL;
  args.topk_weights = NULL;
  int rc = weft_ep_dispatch(rank->ep, &args, &brought->recv, &brought->info, op);
  if (rc == 0 && actor->scenario->ending == DIES_BEFORE_COMBINE && rank->index == LAST)
    kill(getpid(), SIGKILL);
  return rc != 0 ? rc : weft_ep_combine(rank->ep, *op, &combine, &brought->result);
}

// --- judging ---

// Rows of the last rank are 0 in their places, or, if it died in the middle of them, those behind some that came; all
// else is as when the route was filled.
static bool check_rows(struct actor *actor, bool absent, bool some_came) {
  struct rank *rank = actor->rank;
  const struct brought *a = &actor->first, *b = &actor->second;
  bool ranks = actor->way.layout == WEFT_EP_RANK_MAJOR;
  static const uint8_t nothing[2 * HIDDEN];
  uint32_t rows = 0;
  if (memcmp(a->counts, b->counts, EXPERTS * sizeof *a->counts) != 0 || a->info.num_rows != b->info.num_rows)
    return rank_fail(rank, "the counts are others");
  if (memcmp(a->range, b->range, (size_t)(ranks ? 1 : EXPERTS) * CAPACITY * sizeof *a->range) != 0)
    return rank_fail(rank, "the ranges are others");
  for (uint32_t e = 0; e < (ranks ? 1 : EXPERTS); e++) {
    uint32_t count = ranks ? a->info.num_rows : (uint32_t)a->counts[e];
    for (size_t i = (size_t)e * a->recv.rows; count-- > 0; i++, rows++) {
      bool gone = absent && a->src_rank[i] == LAST && !(some_came && b->src_token[i] >= 0);
      if (b->src_rank[i] != a->src_rank[i] || b->src_token[i] != (gone ? -1 : a->src_token[i]))
        return rank_fail(rank, "row %zu is token %d of rank %d, and was %d of %d", i, b->src_token[i], b->src_rank[i],
                         a->src_token[i], a->src_rank[i]);
      if (memcmp(b->x + i * HIDDEN * 2, gone ? nothing : a->x + i * HIDDEN * 2, HIDDEN * 2) != 0)
        return rank_fail(rank, "row %zu, of rank %d, has other values", i, a->src_rank[i]);
      for (uint32_t k = 0; ranks && k < TOPK; k++) {
        size_t at = i * TOPK + k;
        if (b->local_expert[at] != (gone ? -1 : a->local_expert[at]) || b->weights[at] != (gone ? 0 : a->weights[at]))
          return rank_fail(rank, "row %zu has other selections", i);
      }
    }
  }
  return rows > 0 ? true : rank_fail(rank, "no row came");
}

// Missing is what was selected of the last rank, and nothing else; or nothing.
static bool check_missing(struct actor *actor, bool absent) {
  struct rank *rank = actor->rank;
  const struct brought *b = &actor->second;
  uint32_t next = 0;
  for (uint32_t i = 0; i < TOKENS * TOPK && absent; i++) {
    int64_t expert = actor->draw.topk_idx[rank->index][i];
    if (expert < 0 || expert / EXPERTS != LAST)
      continue;
    if (next >= b->result.num_missing || b->missing[next].token != (int32_t)(i / TOPK) ||
        b->missing[next].k != (int32_t)(i % TOPK) || b->missing[next].expert != expert)
      return rank_fail(rank, "selection %u of token %u is not listed as missing", i % TOPK, i / TOPK);
    next++;
  }
  if (b->result.num_missing != next)
    return rank_fail(rank, "%u selections are missing, should be %u", b->result.num_missing, next);
  // What is not missing brings what it brought.
  for (uint32_t t = 0; t < TOKENS; t++) {
    bool whole = true;
    for (uint32_t k = 0; k < TOPK; k++)
      whole &= !absent || actor->draw.topk_idx[rank->index][t * TOPK + k] / EXPERTS != LAST;
    if (whole && memcmp(b->out + t * HIDDEN, actor->first.out + t * HIDDEN, HIDDEN * 2) != 0)
      return rank_fail(rank, "the sum of token %u is another", t);
  }
  return true;
}

// The arrays of the route are those of the receive that filled it, also for rows that were lost.
static bool check_arrays(struct actor *actor) {
  struct rank *rank = actor->rank;
  const struct brought *first = &actor->first;
  struct weft_ep_route_arrays arrays = WEFT_EP_ROUTE_ARRAYS_INIT;
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  int32_t expert_rows[EXPERTS];
  info.expert_rows = expert_rows;
  info.expert_cap = EXPERTS;
  if (weft_ep_route_get_arrays(actor->route, &arrays) != 0 || weft_ep_route_await(actor->route, &info, 0) != 0)
    return rank_fail(rank, "the route: %s", weft_last_error());
  if (info.num_lost != first->info.num_lost)
    return rank_fail(rank, "the route lacks %u ranks, and the receive %u", info.num_lost, first->info.num_lost);
  if (memcmp(expert_rows, first->counts, sizeof expert_rows) != 0)
    return rank_fail(rank, "the experts of the route have other rows");
  size_t rows = info.num_rows;
  if (actor->way.layout == WEFT_EP_RANK_MAJOR &&
      (rows != first->info.num_rows || memcmp(arrays.src_rank, first->src_rank, rows * sizeof(int32_t)) != 0 ||
       memcmp(arrays.src_token, first->src_token, rows * sizeof(int32_t)) != 0))
    return rank_fail(rank, "the rows of the route come from other tokens");
  if (actor->way.layout == WEFT_EP_PACKED &&
      (memcmp(arrays.slot, first->slot, rows * TOPK * sizeof(int32_t)) != 0 ||
       memcmp(arrays.expert_end, first->expert_end, EXPERTS * sizeof(int32_t)) != 0))
    return rank_fail(rank, "the slots of the route are not those of the receive");
  return true;
}

// --- scenarios ---

// Uses the route until AFTER operations without the last rank have ended; each operation has to be whole, or to report
// that nothing came from that rank.
static bool go_on_without(struct actor *actor) {
  struct rank *rank = actor->rank;
  const struct scenario *scenario = actor->scenario;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t after = 0; after < AFTER;) {
    int32_t view[CAPACITY];
    uint32_t count;
    weft_ep_view(rank->ep, NULL, view, CAPACITY, &count);
    uint64_t op;
    int rc = go(actor, &op);
    if (rc != 0)
      return rank_fail(rank, "by the route: %s: %s", weft_err_name(rc), weft_last_error());
    // An operation may adopt a newer view than it began with: it reports the one in which it ran.
    bool out = (scenario->by_combine ? count : actor->second.info.num_ranks) == LAST;
    bool rows_lost = out || actor->second.info.num_lost > 0;
    if (!scenario->by_combine && !check_rows(actor, rows_lost, way_flows() && !out))
      return false;
    if (actor->second.info.num_lost > 0 && actor->second.lost[0] != LAST)
      return rank_fail(rank, "rank %d was lost", actor->second.lost[0]);
    if (!check_missing(actor, out || actor->second.result.num_missing > 0))
      return false;
    after += out;
    atomic_fetch_add(out ? &scenario->board->without[rank->index] : &scenario->board->whole[rank->index], 1);
    if (clock_passed(deadline))
      return rank_fail(rank, "the view without rank %d did not come", LAST);
  }
  return true;
}

static bool leave(struct actor *actor) {
  struct rank *rank = actor->rank;
  for (int i = 0; i < 3; i++) {
    uint64_t op;
    if (go(actor, &op) != 0)
      return rank_fail(rank, "by the route: %s", weft_last_error());
  }
  if (weft_ep_disconnect(rank->ep, &rank->index, 1, DEADLINE_MS) != 0)
    return rank_fail(rank, "disconnect: %s", weft_last_error());
  while (weft_ep_is_active(rank->ep)) {
    uint64_t op;
    int rc = go(actor, &op);
    if (rc != 0)
      return rank_fail(rank, "leaving: %s: %s", weft_err_name(rc), weft_last_error());
  }
  uint64_t op;
  return go(actor, &op) == WEFT_ERR_FENCED ? true : rank_fail(rank, "one that has left could go by its route");
}

// When one of its peers has all of its rows, and another one has not; at the latest after 16 rows, since peers of one
// host get their last rows together.
static void die(void *arg, uint32_t rows_written, uint32_t peers_done) {
  (void)arg;
  if ((peers_done == 1 && rows_written % 4 == 2) || rows_written == 16)
    kill(getpid(), SIGKILL);
}

static void die_early(void *arg, uint32_t rows_written, uint32_t peers_done) {
  (void)arg, (void)peers_done;
  if (rows_written == 11)
    kill(getpid(), SIGKILL);
}

static bool end_well(struct actor *actor) {
  struct rank *rank = actor->rank;
  bool last = rank->index == LAST;
  if (last && actor->scenario->ending == LEAVES)
    return leave(actor);
  if (last && actor->scenario->ending == DIES_IN_DISPATCH && actor->scenario->by_combine)
    kill(getpid(), SIGKILL); // a combine by a route writes no row in its dispatch
  if (last && actor->scenario->ending == DIES_IN_DISPATCH)
    ep_fault_set(rank->ep, die, NULL);
  if (last) {
    uint64_t op;
    go(actor, &op);
    return rank_fail(rank, "it lives");
  }
  return go_on_without(actor);
}

static bool act(struct rank *rank, void *arg) {
  const struct scenario *scenario = arg;
  static const int32_t founders[RANKS] = {0, 1, 2, 3};
  struct actor actor;
  if (!rank_open(rank, &rank->setup, rank->index, founders, RANKS) || !rank_activate(rank))
    return false;
  actor_new(&actor, rank, scenario);
  atomic_fetch_add(&scenario->board->founded, 1); // a rank that dies does so when all are there
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (atomic_load(&scenario->board->founded) < RANKS && !clock_passed(deadline))
    sched_yield();
  bool good = !rank->error[0] && fill(&actor) && check_arrays(&actor);
  if (good && scenario->ending == DIES_IN_FILL) {
    if (rank->index == LAST)
      ep_fault_set(rank->ep, die_early, NULL);
    good = fill(&actor) && check_arrays(&actor); // nothing of the first time remains
  }
  good = good && end_well(&actor);
  actor_free(&actor);
  return good;
}

static struct setup small(void) {
  return (struct setup){
      .capacity = CAPACITY, .tokens = TOKENS, .hidden = HIDDEN, .topk = TOPK, .experts = EXPERTS, .timeout_ms = 5000};
}

static void run_scenario(struct scenario scenario) {
  scenario.board = processes_share(sizeof *scenario.board);
  struct processes processes;
  struct setup setup = small();
  processes_start(&processes, RANKS, &setup, act, &scenario);
  bool good = true;
  for (uint32_t i = 0; i < RANKS; i++)
    good &= processes_expect(&processes, i, i == LAST && scenario.ending != LEAVES ? SIGKILL : 0);
  processes_end(&processes);
  assert_true(good);
  for (uint32_t i = 0; i < LAST; i++)
    assert_int_equal(scenario.board->without[i], AFTER);
  munmap(scenario.board, sizeof *scenario.board);
}

static void a_rank_leaves(void **state) {
  (void)state;
  run_scenario((struct scenario){.ending = LEAVES, .layout = WEFT_EP_RANK_MAJOR});
  run_scenario((struct scenario){.ending = LEAVES, .layout = WEFT_EP_PER_EXPERT});
  run_scenario((struct scenario){.ending = LEAVES, .layout = WEFT_EP_PER_EXPERT, .by_combine = true});
}

static void a_rank_dies_in_a_dispatch(void **state) {
  (void)state;
  run_scenario((struct scenario){.ending = DIES_IN_DISPATCH, .layout = WEFT_EP_RANK_MAJOR});
  run_scenario((struct scenario){.ending = DIES_IN_DISPATCH, .layout = WEFT_EP_PER_EXPERT});
  run_scenario((struct scenario){.ending = DIES_IN_DISPATCH, .layout = WEFT_EP_RANK_MAJOR, .by_combine = true});
}

// What had come of its rows by then has places in the route, and what had not has none, or places too.
static void a_rank_dies_in_the_dispatch_that_fills(void **state) {
  (void)state;
  run_scenario((struct scenario){.ending = DIES_IN_FILL, .layout = WEFT_EP_RANK_MAJOR});
  run_scenario((struct scenario){.ending = DIES_IN_FILL, .layout = WEFT_EP_PER_EXPERT});
  run_scenario((struct scenario){.ending = DIES_IN_FILL, .layout = WEFT_EP_RANK_MAJOR, .by_combine = true});
  run_scenario((struct scenario){.ending = DIES_IN_FILL, .layout = WEFT_EP_PACKED, .by_combine = true});
}

static void a_rank_dies_before_its_combine(void **state) {
  (void)state;
  run_scenario((struct scenario){.ending = DIES_BEFORE_COMBINE, .layout = WEFT_EP_RANK_MAJOR});
  run_scenario((struct scenario){.ending = DIES_BEFORE_COMBINE, .layout = WEFT_EP_PER_EXPERT});
}

// --- a joiner ---

static bool is_final(const struct scenario *scenario, const int32_t *view, uint32_t count) {
  bool joined = count > 0 && view[count - 1] == LAST;
  for (uint32_t i = 0; i < count && scenario->dies; i++)
    joined &= view[i] != scenario->victim;
  return joined;
}

static void die_at(void *arg, uint32_t rows_written, uint32_t peers_done) {
  const struct scenario *scenario = arg;
  bool there = peers_done == scenario->drawn % 3 && rows_written >= 1 + 2 * peers_done + scenario->drawn / 3 % 4;
  if (there || rows_written == 16) // in case the drawn place does not come
    kill(getpid(), SIGKILL);
}

// The victim goes on until the joiner has connected, or until the view with it is agreed on, and then for up to three
// operations.
static void maybe_die(const struct actor *actor, uint32_t *left) {
  const struct scenario *scenario = actor->scenario;
  int32_t view[CAPACITY];
  uint32_t count;
  if (!scenario->dies || actor->rank->index != scenario->victim)
    return;
  weft_ep_committed_view(actor->rank->ep, NULL, view, CAPACITY, &count);
  enum weft_ep_rank_state states[RANKS];
  weft_ep_states(actor->rank->ep, states, RANKS, NULL);
  bool comes = scenario->drawn / 4096 % 2 ? states[LAST] != WEFT_EP_ABSENT : count > 0 && view[count - 1] == LAST;
  if (!comes || (*left)-- > 0)
    return;
  if (scenario->by_combine || scenario->drawn / 64 % 4 == 0)
    kill(getpid(), SIGKILL);
  ep_fault_set(actor->rank->ep, die_at, (void *)scenario);
  *left = 0;
}

// Fills the route, uses it, and fills it again whenever a call returns an error. So ranks that get the error in the
// same operation, or at its end, fill it in the same next one. Ends after AFTER operations by a route with all ranks.
static bool fill_and_go(struct actor *actor, uint32_t *refused) {
  struct rank *rank = actor->rank;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  bool filled = false;
  uint32_t left = (uint32_t)(actor->scenario->drawn / 256 % 4);
  for (uint32_t after = 0; after < AFTER;) {
    maybe_die(actor, &left);
    uint64_t op = weft_ep_next_op(rank->ep);
    int rc;
    if (filled) {
      rc = go(actor, &op);
    } else {
      struct weft_ep_dispatch_args args = way_dispatch(rank, &actor->draw, &actor->way, rank->x);
      args.route = actor->route;
      way_recv(rank, &actor->way, &actor->first);
      rc = weft_ep_dispatch(rank->ep, &args, &actor->first.recv, NULL, &op);
      if (rc == 0) {
        way_answers(rank, 8, &actor->first);
        struct weft_ep_combine_args combine = way_combine(rank, &actor->draw, &actor->way, &actor->first);
        rc = weft_ep_combine(rank->ep, op, &combine, NULL);
      }
    }
    if (rc != 0 && rc != WEFT_ERR_CONFLICT && rc != WEFT_ERR_PROTOCOL)
      return rank_fail(rank, "operation %llu: %s: %s", (unsigned long long)op, weft_err_name(rc), weft_last_error());
    if (rc == WEFT_ERR_CONFLICT)
      atomic_store(&actor->scenario->board->conflict[rank->index], op + 1);
    if (rc == WEFT_ERR_CONFLICT && strstr(weft_last_error(), "joined in the middle"))
      atomic_fetch_add(&actor->scenario->board->in_the_middle, 1);
    *refused += rc != 0;
    int32_t view[CAPACITY];
    uint32_t count;
    weft_ep_view(rank->ep, NULL, view, CAPACITY, &count);
    after += rc == 0 && filled && is_final(actor->scenario, view, count);
    filled = rc == 0;
    if (clock_passed(deadline))
      return rank_fail(rank, "a view of all ranks did not come");
  }
  return true;
}

static bool join(struct rank *rank, void *arg) {
  const struct scenario *scenario = arg;
  static const int32_t founders[LAST] = {0, 1, 2};
  bool founder = rank->index != LAST;
  struct actor actor;
  uint32_t refused = 0;
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS);
  while (!founder && atomic_load(&scenario->board->founded) < LAST && !clock_passed(deadline))
    sched_yield();
  if (!rank_open(rank, &rank->setup, rank->index, founder ? founders : NULL, founder ? LAST : 0) ||
      !rank_activate(rank))
    return false;
  atomic_fetch_add(&scenario->board->founded, founder);
  actor_new(&actor, rank, scenario);
  bool good = !rank->error[0] && fill_and_go(&actor, &refused);
  if (good && founder && refused != 1 && !scenario->dies)
    good = rank_fail(rank, "%u calls were refused", refused);
  actor_free(&actor);
  return good;
}

// All ranks get the error before the same operation, none waits, and a new route serves all.
static void a_rank_joins(void **state) {
  (void)state;
  struct scenario scenario = {.ending = JOINS, .layout = WEFT_EP_RANK_MAJOR};
  for (int by_combine = 0; by_combine < 2; by_combine++) {
    scenario.by_combine = by_combine;
    scenario.board = processes_share(sizeof *scenario.board);
    struct processes processes;
    struct setup setup = small();
    processes_start(&processes, RANKS, &setup, join, &scenario);
    bool good = true;
    for (uint32_t i = 0; i < RANKS; i++)
      good &= processes_expect(&processes, i, 0);
    processes_end(&processes);
    assert_true(good);
    for (uint32_t i = 1; i < LAST; i++)
      assert_int_equal(scenario.board->conflict[i], scenario.board->conflict[0]);
    assert_true(scenario.board->conflict[0] > 0);
    assert_int_equal(scenario.board->conflict[LAST], 0);
    munmap(scenario.board, sizeof *scenario.board);
  }
}

// A founder dies meanwhile: some ranks may find out in mid-operation that another has joined. However that ends, nobody
// else is lost, and all come to a route that serves all.
static void a_rank_joins_while_another_dies(void **state) {
  (void)state;
  const uint64_t rounds = support_slowed() ? 12 : 40;
  uint32_t in_the_middle = 0;
  for (uint64_t round = 0; round < rounds; round++) {
    struct scenario scenario = {.ending = JOINS,
                                .layout = WEFT_EP_PER_EXPERT,
                                .by_combine = round % 4 == 3,
                                .dies = true,
                                .victim = (int32_t)(round % LAST),
                                .drawn = random_mix(round),
                                .board = processes_share(sizeof *scenario.board)};
    struct processes processes;
    struct setup setup = small();
    processes_start(&processes, RANKS, &setup, join, &scenario);
    bool good = true;
    for (uint32_t i = 0; i < RANKS; i++)
      good &= processes_expect(&processes, i, (int32_t)i == scenario.victim ? SIGKILL : 0);
    processes_end(&processes);
    if (!good)
      fail_msg("round %d", (int)round);
    in_the_middle += scenario.board->in_the_middle;
    munmap(scenario.board, sizeof *scenario.board);
  }
  print_message("%u ranks got the error for a joiner in the middle of an operation\n", in_the_middle);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rank_leaves),
      cmocka_unit_test(a_rank_dies_in_a_dispatch),
      cmocka_unit_test(a_rank_dies_in_the_dispatch_that_fills),
      cmocka_unit_test(a_rank_dies_before_its_combine),
      cmocka_unit_test(a_rank_joins),
      cmocka_unit_test(a_rank_joins_while_another_dies),
  };
  return cmocka_run_group_tests_name("ep_route_views", tests, NULL, NULL);
}
