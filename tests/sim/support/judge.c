// The invariants. The judge sees every change of the store at once, and every view that a member gets.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/support/state.h"
#include "store/local/local.h"
#include <weft/err.h>

enum { TICK_NS = 250000000 };
#define CLOSING_NS (10 * SIM_S) // a close takes a second and three late answers

// The longest time in which a member must notice that it was put out, and the longest time of a change, without faults.
static uint64_t fence_bound(const struct sim *sim) {
  return (sim->options.ttl_s + 5) * SIM_S;
}

static uint64_t change_bound(const struct sim *sim) {
  return (4 * sim->options.ttl_s + 20) * SIM_S;
}

static struct sim_member *find(const struct sim *sim, uint64_t incarnation) {
  struct sim_member *m;
  HASH_FIND(hh, sim->ever, &incarnation, sizeof incarnation, m);
  return m;
}

static void on_wake(struct core_watch *watch) {
  ((struct sim_judge *)((char *)watch - offsetof(struct sim_judge, watch)))->woken = true;
}

const struct group_view *sim_judge_newest(const struct sim *sim) {
  return sim->judge.log_count ? sim->judge.log[sim->judge.log_count - 1] : NULL;
}

// --- Writes to the store.

// A view must not put out a member that runs, reaches the store, and was not accused.
static void check_removals(struct sim *sim, const struct group_view *before, const struct group_view *view) {
  uint64_t hindrance = 2 * sim->options.ttl_s * SIM_S;
  bool lossy = sim->options.lose_requests || sim->options.lose_answers || sim->options.late_requests;
  if (lossy || sim->now < sim->trouble_until + hindrance)
    return;
  for (uint32_t i = 0; i < before->count; i++) {
    const struct group_member *member = &before->members[i];
    if (group_view_has(view, member->rank, member->incarnation))
      continue;
    const struct sim_member *m = find(sim, member->incarnation);
    if (!m->died && !m->leaving && !m->accused && (!m->trouble_until || sim->now > m->trouble_until + hindrance))
      sim_break(sim, "view %" PRIu64 " puts out rank %" PRId32 ", which had given no reason", view->epoch,
                member->rank);
  }
}

static void check_view(struct sim *sim, const struct group_view *view) {
  struct sim_judge *j = &sim->judge;
  const struct group_view *before = sim_judge_newest(sim);
  for (uint32_t i = 0; i < view->count; i++)
    if (!find(sim, view->members[i].incarnation))
      sim_break(sim, "view %" PRIu64 " has an incarnation at rank %" PRId32 " that never was", view->epoch,
                view->members[i].rank);
  if (view->epoch > j->top) {
    if (!j->forgetful && before && view->epoch != before->epoch + 1)
      sim_break(sim, "view %" PRIu64 " follows view %" PRIu64, view->epoch, before->epoch);
    if (!j->forgetful && before)
      check_removals(sim, before, view);
    j->top = view->epoch;
    j->forgetful = false;
  } else if (!j->forgetful) {
    sim_break(sim, "the store is given view %" PRIu64 " after view %" PRIu64 ", which it has not lost", view->epoch,
              before->epoch);
  }
}

static void view_put(struct sim *sim, const struct core_record *record) {
  struct sim_judge *j = &sim->judge;
  struct group_view *view;
  if (group_view_decode(core_record_value(record), record->value_size, sim->options.capacity, &view) != 0) {
    sim_break(sim, "the store is given a view that is none: %s", weft_last_error());
    return;
  }
  check_view(sim, view);
  if (j->log_count == j->log_room) {
    j->log_room = j->log_room ? 2 * j->log_room : 256;
    j->log = realloc(j->log, j->log_room * sizeof *j->log);
    if (!j->log)
      abort();
  }
  j->log[j->log_count++] = view;
  j->present = true;
  sim->counts.views++;
}

static void claim_put(struct sim *sim, int32_t rank, const struct core_record *record) {
  uint64_t incarnation;
  char *address;
  if (group_claim_decode(core_record_value(record), record->value_size, &incarnation, &address) != 0) {
    sim_break(sim, "the claim of rank %" PRId32 " is none: %s", rank, weft_last_error());
    return;
  }
  free(address);
  if (sim->judge.claims[rank])
    sim_break(sim, "rank %" PRId32 " is claimed by %016" PRIx64 " while %016" PRIx64 " holds it", rank, incarnation,
              sim->judge.claims[rank]);
  for (uint32_t r = 0; r < sim->options.capacity; r++)
    if (sim->judge.claims[r] == incarnation)
      sim_break(sim, "incarnation %016" PRIx64 " claims rank %" PRId32 " and holds rank %u", incarnation, rank, r);
  sim->judge.claims[rank] = incarnation;
}

static void look_at(struct sim *sim, const struct core_event *event) {
  const struct core_record *record = event->now ? event->now : event->prev;
  struct group_key key = group_key_parse(SIM_PREFIX, sim->options.capacity, record->data);
  if (key.kind == GROUP_KEY_OTHER)
    sim_break(sim, "the store is given a key that is not the group's: %s", record->data);
  else if (key.kind == GROUP_KEY_VIEW && event->now)
    view_put(sim, record);
  else if (key.kind == GROUP_KEY_VIEW)
    sim->judge.present = !(sim->judge.forgetful = true);
  else if (key.kind == GROUP_KEY_CLAIM && event->now)
    claim_put(sim, key.rank, record);
  else if (key.kind == GROUP_KEY_CLAIM)
    sim->judge.claims[key.rank] = 0;
  else if (key.kind == GROUP_KEY_OFFER && event->now)
    sim_grow_look(sim, key.rank, record);
}

void sim_judge_look(struct sim *sim) {
  struct core_events events = {0};
  sim->judge.woken = false;
  if (core_watch_take(sim->server.core, &sim->judge.watch, SIZE_MAX, &events) != CORE_OK)
    abort();
  for (size_t i = 0; i < events.count; i++)
    look_at(sim, &events.items[i]);
  core_events_clear(&events);
  sim_grow_judge(sim);
}

// --- Views that members get. All views have one order: a member gets some of them in this order, and none twice.

void sim_judge_view(struct sim *sim, struct sim_member *m, const struct group_view *view) {
  const struct sim_judge *j = &sim->judge;
  if (m->log_position && view->epoch <= j->log[m->log_position - 1]->epoch)
    sim_break(sim, "rank %" PRId32 " gets view %" PRIu64 " after view %" PRIu64, m->rank, view->epoch,
              j->log[m->log_position - 1]->epoch);
  for (size_t i = m->log_position; i < j->log_count; i++)
    if (group_view_equal(j->log[i], view)) {
      m->log_position = i + 1;
      return;
    }
  sim_break(sim, "rank %" PRId32 " gets a view %" PRIu64 " that the store was not given in that order", m->rank,
            view->epoch);
}

// --- Wrong states that must not last.

static uint64_t latest(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

// Whether a `wrong` state of a member lasts too long. `*since`: when it began; 0: the state is not wrong.
static bool lasts(const struct sim *sim, const struct sim_member *m, bool wrong, uint64_t *since) {
  if (!wrong)
    *since = 0;
  else if (*since == 0)
    *since = sim->now;
  return wrong && sim->now > latest(latest(*since, m->trouble_until), sim->trouble_until) + fence_bound(sim);
}

// Whether a member waits for a rank that another running member holds: its claim is refused at its deadline.
static bool is_refused(const struct sim *sim, const struct sim_member *m) {
  int32_t rank = group_machine_rank(m->machine);
  const struct sim_member *holder = rank >= 0 ? find(sim, sim->judge.claims[rank]) : NULL;
  return group_machine_standing(m->machine) == GROUP_OPENING && holder && holder != m && !holder->died && !m->closing;
}

static void check_member(struct sim *sim, struct sim_member *m) {
  const struct group_view *newest = sim_judge_newest(sim);
  int32_t rank = group_machine_rank(m->machine);
  bool at_work = group_machine_standing(m->machine) == GROUP_CLAIMED && rank >= 0 && !m->closing;
  bool believes = at_work && group_view_has(group_machine_view(m->machine), rank, m->incarnation);
  bool outside = believes && sim->judge.present && !group_view_has(newest, rank, m->incarnation);
  if (lasts(sim, m, outside, &m->outside_since))
    sim_break(sim, "rank %" PRId32 " has not noticed in time that view %" PRIu64 " is without it", rank, newest->epoch);
  if (lasts(sim, m, at_work && sim->judge.claims[rank] != m->incarnation, &m->unclaimed_since))
    sim_break(sim, "rank %" PRId32 " goes on without its claim", rank);
  if (m->since == 0 || sim->now <= latest(latest(m->since, m->trouble_until), sim->trouble_until) + change_bound(sim))
    return;
  if (is_refused(sim, m))
    sim_member_refuse(sim, m);
  else
    sim_break(sim,
              "rank %" PRId32 " has not %s in time: standing %d, its newest view %" PRIu64 ", the store's %" PRIu64,
              rank, m->leaving ? "left" : "joined", (int)group_machine_standing(m->machine),
              group_machine_view(m->machine) ? group_machine_view(m->machine)->epoch : 0, newest ? newest->epoch : 0);
}

// By its deadline a call must have ended or been refused, whatever the store does, unless its member is paused. A
// refused member closes, within CLOSING_NS.
static void check_deadline(struct sim *sim, const struct sim_member *m) {
  if (sim->options.deadline_ns && m->since &&
      sim->now > latest(m->since + sim->options.deadline_ns, m->paused_until) + CLOSING_NS)
    sim_break(sim, "rank %" PRId32 " has neither %s nor was it refused by its deadline", m->rank,
              m->leaving ? "left" : "joined");
}

static void check_dead(struct sim *sim) {
  const struct group_view *newest = sim_judge_newest(sim);
  for (uint32_t i = 0; newest && i < newest->count && sim->num_live > 0; i++) {
    const struct sim_member *m = find(sim, newest->members[i].incarnation);
    if (m && m->died && sim->now > latest(m->died, sim->trouble_until) + change_bound(sim))
      sim_break(sim, "rank %" PRId32 " is dead, and view %" PRIu64 " still has it", m->rank, newest->epoch);
  }
}

void sim_judge_tick(struct sim *sim, const struct sim_event *event) {
  (void)event;
  for (uint32_t i = 0; i < sim->num_live; i++)
    check_deadline(sim, sim->live[i]);
  if (sim_server_is_up(sim)) {
    for (uint32_t i = sim->num_live; i-- > 0;) // a member may end
      if (sim->now >= sim->live[i]->trouble_until)
        check_member(sim, sim->live[i]);
    check_dead(sim);
  }
  sim_at(sim, sim->now + TICK_NS, (struct sim_event){.happen = sim_judge_tick});
}

// --- Life.

void sim_judge_open(struct sim *sim) {
  sim->judge.claims = calloc(sim->options.capacity, sizeof *sim->judge.claims);
  if (!sim->judge.claims)
    abort();
  sim_at(sim, TICK_NS, (struct sim_event){.happen = sim_judge_tick});
}

void sim_judge_watch(struct sim *sim, bool on) {
  struct sim_judge *j = &sim->judge;
  static char bounds[sizeof SIM_PREFIX];
  if (!on) {
    core_watch_remove(sim->server.core, &j->watch);
    memset(j->claims, 0, sim->options.capacity * sizeof *j->claims);
    j->present = false;
    j->forgetful = true;
    return;
  }
  j->watch = (struct core_watch){.range = local_range(SIM_PREFIX, true, bounds), .wake = on_wake};
  core_watch_add(sim->server.core, &j->watch, 1);
  j->forgetful = j->log_count > 0;
}

void sim_judge_close(struct sim *sim) {
  for (size_t i = 0; i < sim->judge.log_count; i++)
    group_view_unref(sim->judge.log[i]);
  free(sim->judge.log);
  free(sim->judge.claims);
}
