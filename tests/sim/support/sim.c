// The simulation of a group in one thread and in virtual time.
#include "sim/support/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/support/state.h"

enum {
  NOTICE_NS = 5000000,
  GLANCE_NS = 200000, // how often a condition is checked
};

uint64_t sim_now(const struct sim *sim) {
  return sim->now;
}
struct sim_counts sim_counts(const struct sim *sim) {
  return sim->counts;
}
uint32_t sim_live(const struct sim *sim) {
  return sim->num_live;
}
struct sim_member *sim_live_at(const struct sim *sim, uint32_t index) {
  return sim->live[index];
}
uint64_t sim_dice(struct sim *sim, uint64_t sides) {
  return random_next(&sim->random) % sides;
}
const char *sim_broken(const struct sim *sim) {
  return sim->broken[0] ? sim->broken : NULL;
}

void sim_break(struct sim *sim, const char *format, ...) {
  if (sim->broken[0])
    return;
  int length = snprintf(sim->broken, sizeof sim->broken, "at %.6f s: ", (double)sim->now / 1e9);
  va_list args;
  va_start(args, format);
  vsnprintf(sim->broken + length, sizeof sim->broken - (size_t)length, format, args);
  va_end(args);
}

// Mostly 0.1 to 1 ms; one in a hundred takes up to 30 ms.
uint64_t sim_latency(struct sim *sim) {
  return 100000 + (sim_dice(sim, 100) == 0 ? sim_dice(sim, 30 * SIM_MS) : sim_dice(sim, 900000));
}

struct sim *sim_new(const struct sim_options *options) {
  struct sim *sim = calloc(1, sizeof *sim);
  if (!sim)
    abort();
  sim->options = *options;
  sim->random = options->seed;
  sim->now = SIM_S;
  sim->server.limits = CORE_LIMITS_DEFAULT;
  if (options->history)
    sim->server.limits.events = options->history;
  sim_judge_open(sim);
  sim_server_open(sim);
  return sim;
}

void sim_free(struct sim *sim) {
  while (sim->num_live > 0)
    sim_member_end(sim, sim->live[0]);
  struct sim_event event;
  while (sim_queue_take(&sim->queue, &event))
    if (event.data && !event.number) // a request on its way; other events with data have a number
      sim_request_drop(event.data);
  sim_queue_free(&sim->queue);
  if (sim->server.core)
    sim_server_close(sim);
  sim_judge_close(sim);
  sim_grows_free(sim);
  struct sim_member *m, *next;
  HASH_ITER(hh, sim->ever, m, next) {
    HASH_DEL(sim->ever, m);
    free(m);
  }
  free(sim->live);
  free(sim);
}

// Takes the next event, unless it is after `end_ns`.
static bool step(struct sim *sim, uint64_t end_ns) {
  struct sim_event event;
  if (sim->broken[0] || sim->queue.heap[0].at_ns > end_ns) // the judge's tick is always there
    return false;
  sim_queue_take(&sim->queue, &event);
  sim->now = event.at_ns;
  event.happen(sim, &event);
  return true;
}

void sim_run(struct sim *sim, uint64_t ns) {
  uint64_t end = sim->now + ns;
  while (step(sim, end))
    ;
  if (!sim->broken[0])
    sim->now = end;
}

bool sim_until(struct sim *sim, bool (*condition)(struct sim *sim), uint64_t ns) {
  uint64_t end = sim->now + ns;
  while (!sim->broken[0] && !condition(sim)) {
    uint64_t next = sim->queue.heap[0].at_ns + GLANCE_NS;
    if (sim->now >= end || !step(sim, end))
      return false;
    while (step(sim, next < end ? next : end))
      ;
  }
  return !sim->broken[0];
}

// --- Members.

void sim_found(struct sim *sim, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    sim_member_pump(sim, sim_member_new(sim, (int32_t)i, count));
}

struct sim_member *sim_join(struct sim *sim, int32_t rank) {
  struct sim_member *m = sim_member_new(sim, rank, 0);
  sim_member_pump(sim, m);
  return m;
}

void sim_leave(struct sim *sim, struct sim_member *m, bool at_once) {
  if (m->leaving)
    return;
  m->leaving = true;
  m->since = sim->now;
  sim_member_limit(sim, m);
  if (at_once || group_machine_rank(m->machine) < 0 || !group_machine_remove(m->machine, m->rank)) {
    m->closing = true;
    group_machine_close(m->machine, sim->now + SIM_S);
  }
  sim_member_pump(sim, m);
}

static void notice_death(struct sim *sim, const struct sim_event *event) {
  const struct sim_member *gone = event->data;
  if (!event->member->machine)
    return;
  if (sim->now < event->member->paused_until) {
    sim_at(sim, event->member->paused_until, *event);
    return;
  }
  if (gone->rank >= 0)
    group_machine_suspect(event->member->machine, gone->rank, gone->incarnation);
  sim_member_pump(sim, event->member);
}

static void notify_of_death(struct sim *sim, struct sim_member *notified, struct sim_member *gone) {
  sim_at(sim, sim->now + 200000 + sim_dice(sim, NOTICE_NS),
         (struct sim_event){.happen = notice_death, .member = notified, .data = gone, .number = 1});
}

void sim_crash(struct sim *sim, struct sim_member *m, bool noticed) {
  sim_member_end(sim, m);
  for (uint32_t i = 0; noticed && i < sim->num_live; i++)
    notify_of_death(sim, sim->live[i], m);
}

void sim_accuse(struct sim *sim, struct sim_member *accuser, struct sim_member *accused) {
  accused->accused = true;
  notify_of_death(sim, accuser, accused);
}

static void extend(uint64_t *until, uint64_t at_ns) {
  if (*until < at_ns)
    *until = at_ns;
}

// Fires the timers that were due meanwhile, and sends the requests that the machine makes at the new time.
static void run_again(struct sim *sim, const struct sim_event *event) {
  if (event->member->machine)
    sim_member_pump(sim, event->member);
}

void sim_pause(struct sim *sim, struct sim_member *m, uint64_t ns) {
  extend(&m->paused_until, sim->now + ns);
  extend(&m->trouble_until, m->paused_until);
  sim_at(sim, m->paused_until, (struct sim_event){.happen = run_again, .member = m});
}

void sim_cut(struct sim *sim, struct sim_member *m, uint64_t ns) {
  extend(&m->cut_until, sim->now + ns);
  extend(&m->trouble_until, m->cut_until);
  sim_watch_cut(sim, m);
}

bool sim_is_leaving(const struct sim_member *m) {
  return m->leaving;
}
bool sim_is_paused(const struct sim *sim, const struct sim_member *m) {
  return sim->now < m->paused_until;
}

// --- The store.

static void come_back(struct sim *sim, const struct sim_event *event) {
  if (event->at_ns != sim->server.down_until)
    return; // the outage was made longer
  sim->server.down_until = 0;
  sim->server.stopped = false;
  if (!sim->server.core)
    sim_server_open(sim);
  sim_server_expire(sim);
}

void sim_outage(struct sim *sim, uint64_t ns, bool stopped) {
  extend(&sim->server.down_until, sim->now + ns);
  extend(&sim->trouble_until, sim->server.down_until);
  sim->server.stopped |= stopped;
  for (uint32_t i = 0; i < sim->num_live; i++)
    sim_watch_cut(sim, sim->live[i]);
  sim_at(sim, sim->server.down_until, (struct sim_event){.happen = come_back});
}

void sim_restart_empty(struct sim *sim, uint64_t ns) {
  sim_outage(sim, ns, false);
  if (sim->server.core)
    sim_server_close(sim);
}

void sim_clear(struct sim *sim) {
  sim->options.lose_requests = sim->options.lose_answers = sim->options.late_requests = 0;
  extend(&sim->trouble_until, sim->now + 5 * SIM_S); // until requests on their way have arrived or timed out
}

bool sim_store_is_empty(const struct sim *sim) {
  return sim->server.core && core_count(sim->server.core) == 0 && core_lease_count(sim->server.core) == 0;
}

// --- Conditions.

bool sim_agreed(struct sim *sim) {
  const struct group_view *newest = sim_judge_newest(sim);
  if (!newest || !sim->judge.present || newest->count != sim->num_live)
    return false;
  for (uint32_t i = 0; i < sim->num_live; i++) {
    const struct sim_member *m = sim->live[i];
    if (m->leaving || m->since || !group_view_equal(group_machine_view(m->machine), newest) ||
        !group_view_has(newest, m->rank, m->incarnation) || sim->judge.claims[m->rank] != m->incarnation)
      return false;
  }
  return true;
}

bool sim_all_gone(struct sim *sim) {
  return sim->num_live == 0;
}
