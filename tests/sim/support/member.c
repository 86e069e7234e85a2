// One member's life: does what a driver and the layer above do with the machine.
#include <stdlib.h>

#include "sim/support/state.h"
#include "store/local/local.h"

enum {
  BATCH = 64,            // about how many events one delivery has
  THINKING_NS = 1000000, // the layer above takes up to that long to act on a view
  RECONNECT_NS = 100000000,
  CLOSE_NS = 1000000000,
};

static bool is_paused(const struct sim *sim, const struct sim_member *m) {
  return sim->now < m->paused_until;
}

// Whether the event's member is paused. If so, plans the event for the time when the member runs again.
static bool must_wait(struct sim *sim, const struct sim_event *event) {
  if (!is_paused(sim, event->member))
    return false;
  sim_at(sim, event->member->paused_until, *event);
  return true;
}

// --- Watches.

static void deliver(struct sim *sim, const struct sim_event *event);

static void plan_delivery(struct sim *sim, struct sim_member *m) {
  if (m->delivering)
    return;
  m->delivering = true;
  sim_at(sim, sim->now + sim_latency(sim),
         (struct sim_event){.happen = deliver, .member = m, .number = m->watch_number});
}

static struct sim *woken_sim; // core_watch has no place for it; one simulation runs at a time in a process

static void on_wake(struct core_watch *watch) {
  plan_delivery(woken_sim, (struct sim_member *)((char *)watch - offsetof(struct sim_member, watch)));
}

static void deliver_kind(struct sim *sim, struct sim_member *m, enum weft_store_event_kind kind) {
  group_machine_watch(m->machine, sim->now, &(struct weft_store_event){.kind = kind});
}

static void hand_over(struct sim *sim, struct sim_member *m, const struct core_event *event) {
  struct weft_store_kv kv = local_kv(event->now ? event->now : event->prev);
  struct weft_store_event out = {.kv = &kv, .revision = event->revision};
  out.kind = event->now ? WEFT_STORE_EVENT_PUT : WEFT_STORE_EVENT_DELETE;
  if (!event->now) {
    kv.mod_revision = event->revision;
    kv.value = NULL;
    kv.value_len = 0;
  }
  group_machine_watch(m->machine, sim->now, &out);
  m->watch_from = event->revision + 1;
  sim->counts.events++;
}

static void reset_watch(struct sim *sim, struct sim_member *m) {
  sim_watch_end(sim, m);
  deliver_kind(sim, m, WEFT_STORE_EVENT_RESET);
  sim_member_pump(sim, m);
}

static void deliver(struct sim *sim, const struct sim_event *event) {
  struct sim_member *m = event->member;
  if (!m->machine || event->number != m->watch_number || must_wait(sim, event))
    return;
  m->delivering = false;
  struct core_events events = {0};
  enum core_status status = core_watch_take(sim->server.core, &m->watch, BATCH, &events);
  for (size_t i = 0; i < events.count; i++)
    hand_over(sim, m, &events.items[i]);
  core_events_clear(&events);
  if (status != CORE_OK) {
    reset_watch(sim, m);
    return;
  }
  if (m->watch.pending)
    plan_delivery(sim, m);
  sim_member_pump(sim, m);
}

static void connect(struct sim *sim, const struct sim_event *event) {
  struct sim_member *m = event->member;
  if (!m->machine || event->number != m->watch_number || must_wait(sim, event))
    return;
  if (!sim_server_is_up(sim) || sim->now < m->cut_until) {
    if (!m->reported_lost)
      deliver_kind(sim, m, WEFT_STORE_EVENT_LOST);
    m->reported_lost = true;
    sim_at(sim, sim->now + RECONNECT_NS, *event);
    sim_member_pump(sim, m);
    return;
  }
  if (m->store_number != sim->server.number || m->watch_from < core_oldest_revision(sim->server.core)) {
    reset_watch(sim, m);
    return;
  }
  static char bounds[sizeof SIM_PREFIX];
  m->connected = true;
  m->reported_lost = false;
  m->watch = (struct core_watch){.range = local_range(SIM_PREFIX, true, bounds), .wake = on_wake};
  core_watch_add(sim->server.core, &m->watch, m->watch_from);
  deliver_kind(sim, m, WEFT_STORE_EVENT_RESUMED);
  if (m->watch.pending)
    plan_delivery(sim, m);
  sim_member_pump(sim, m);
}

static void begin_watch(struct sim *sim, struct sim_member *m, int64_t from) {
  sim_watch_end(sim, m);
  m->watching = true;
  m->watch_from = from;
  sim_at(sim, sim->now + sim_latency(sim),
         (struct sim_event){.happen = connect, .member = m, .number = m->watch_number});
}

static void disconnect(struct sim *sim, struct sim_member *m) {
  if (m->connected)
    core_watch_remove(sim->server.core, &m->watch);
  m->connected = m->delivering = false;
  m->watch_number++; // events that were under way for this watch are dropped
}

void sim_watch_end(struct sim *sim, struct sim_member *m) {
  disconnect(sim, m);
  m->watching = m->reported_lost = false;
}

void sim_watch_cut(struct sim *sim, struct sim_member *m) {
  if (!m->watching)
    return;
  disconnect(sim, m);
  sim_at(sim, sim->now, (struct sim_event){.happen = connect, .member = m, .number = m->watch_number});
}

// --- Requests.

static void arrive(struct sim *sim, const struct sim_event *event) {
  sim_server_execute(sim, event->data);
  sim_request_drop(event->data);
}

static void answer(struct sim *sim, const struct sim_event *event) {
  struct sim_member *m = event->member;
  struct sim_request *request = event->data;
  if (m->request == request && must_wait(sim, event))
    return;
  if (m->request == request) {
    struct group_answer unknown = {.err = WEFT_ERR_TIMEOUT, .reason = "no answer in time"};
    m->request = NULL;
    if (request->executed && !request->answer.err && request->request.kind == GROUP_REQUEST_READ)
      m->store_number = request->store_number;
    group_machine_answer(m->machine, sim->now,
                         request->executed && !request->lost_answer ? &request->answer : &unknown);
    sim_member_pump(sim, m);
  }
  sim_request_drop(request);
}

static void send(struct sim *sim, struct sim_member *m, const struct group_request *asked) {
  struct sim_request *request = sim_request_new(asked);
  uint64_t arrives = sim->now + sim_latency(sim), answered = arrives + sim_latency(sim);
  const struct sim_options *o = &sim->options;
  uint64_t fate = sim_dice(sim, 10000);
  bool lost = fate < o->lose_requests;
  request->lost_answer = !lost && fate < o->lose_requests + o->lose_answers;
  bool late =
      fate >= o->lose_requests + o->lose_answers && fate < o->lose_requests + o->lose_answers + o->late_requests;
  if (lost || late || request->lost_answer)
    answered = arrives + 50 * SIM_MS + sim_dice(sim, 2 * SIM_S);
  if (late)
    arrives = answered + 1 + sim_dice(sim, 2 * SIM_S);
  sim->counts.requests++;
  sim->counts.read += asked->kind == GROUP_REQUEST_READ;
  m->request = request;
  if (!lost) {
    request->parties++;
    sim_at(sim, arrives, (struct sim_event){.happen = arrive, .data = request});
  }
  sim_at(sim, answered, (struct sim_event){.happen = answer, .member = m, .data = request});
}

// --- The layer above.

static void act(struct sim *sim, const struct sim_event *event) {
  struct sim_member *m = event->member;
  if (!m->machine || must_wait(sim, event))
    return;
  m->thinking = false;
  const struct group_view *view = group_machine_view(m->machine);
  if (view && !m->leaving && !m->closing) {
    m->wanted_base = view->epoch;
    group_machine_found(m->machine, false);
    group_machine_join(m->machine, view->epoch);
  }
  sim_member_pump(sim, m);
}

static void close_machine(struct sim *sim, struct sim_member *m) {
  m->leaving = m->closing = true;
  if (!m->since)
    m->since = sim->now;
  group_machine_close(m->machine, sim->now + CLOSE_NS);
}

void sim_member_refuse(struct sim *sim, struct sim_member *m) {
  close_machine(sim, m);
  sim_member_pump(sim, m);
}

// Withdraws the request of a call at its deadline. Half of the members that did not get into the view try again.
static void give_up(struct sim *sim, const struct sim_event *event) {
  struct sim_member *m = event->member;
  if (!m->machine || m->since != event->number || m->closing || must_wait(sim, event))
    return;
  sim->counts.refused++;
  m->refused = true;
  group_machine_found(m->machine, false);
  group_machine_join(m->machine, 0);
  if (m->leaving) {
    group_machine_remove_end(m->machine, m->rank, m->incarnation);
    close_machine(sim, m);
  } else if (sim_dice(sim, 2)) {
    close_machine(sim, m);
  } else {
    m->since = sim->now;
    m->wanted_base = 0;
    sim_member_limit(sim, m);
  }
  sim_member_pump(sim, m);
}

void sim_member_limit(struct sim *sim, struct sim_member *m) {
  if (sim->options.deadline_ns)
    sim_at(sim, sim->now + sim->options.deadline_ns,
           (struct sim_event){.happen = give_up, .member = m, .number = m->since});
}

static bool sees_itself(const struct sim_member *m) {
  int32_t rank = group_machine_rank(m->machine);
  return rank >= 0 && group_view_has(group_machine_view(m->machine), rank, m->incarnation);
}

static void wish(struct sim *sim, struct sim_member *m) {
  enum group_standing standing = group_machine_standing(m->machine);
  m->rank = group_machine_rank(m->machine);
  if (m->closing)
    return;
  bool refused = standing == GROUP_OPENING && m->rank < 0 && group_machine_full(m->machine);
  if (m->fenced || refused || (m->leaving && !sees_itself(m))) {
    close_machine(sim, m);
  } else if (!m->leaving && sees_itself(m)) {
    sim->counts.ended += m->since != 0;
    m->since = 0;
    m->wanted_base = 0;
    group_machine_found(m->machine, false);
    group_machine_join(m->machine, 0);
    sim_grow_wish(sim, m);
  } else if (!m->leaving && standing == GROUP_CLAIMED && group_machine_view_stands(m->machine) &&
             sim_grow_wish(sim, m) && !m->thinking && m->wanted_base != group_machine_view(m->machine)->epoch) {
    m->thinking = true;
    sim_at(sim, sim->now + sim_dice(sim, THINKING_NS), (struct sim_event){.happen = act, .member = m});
  }
}

static void take_events(struct sim *sim, struct sim_member *m) {
  struct group_event event;
  while (group_machine_event(m->machine, &event)) {
    if (event.kind == GROUP_EVENT_VIEW)
      sim_judge_view(sim, m, event.view);
    m->fenced |= event.kind == GROUP_EVENT_FENCED;
    group_view_unref(event.view);
  }
}

static void wake(struct sim *sim, const struct sim_event *event) {
  struct sim_member *m = event->member;
  if (!m->machine || event->at_ns != m->wake_at || must_wait(sim, event))
    return;
  m->wake_at = UINT64_MAX;
  sim_member_pump(sim, m);
}

void sim_member_pump(struct sim *sim, struct sim_member *m) {
  if (is_paused(sim, m))
    return; // everything that waits for it happens when it runs again
  struct group_request request;
  uint64_t wake_ns;
  for (;;) {
    take_events(sim, m);
    wish(sim, m);
    if (!group_machine_request(m->machine, sim->now, &request, &wake_ns))
      break;
    if (request.kind != GROUP_REQUEST_WATCH) {
      if (request.kind == GROUP_REQUEST_READ)
        sim_watch_end(sim, m);
      send(sim, m, &request);
      continue;
    }
    begin_watch(sim, m, request.revision);
    group_machine_answer(m->machine, sim->now, &(struct group_answer){0}); // a watch begins without a request
  }
  if (group_machine_closed(m->machine)) {
    sim->counts.ended += m->leaving && !m->refused;
    sim_member_end(sim, m);
  } else if (wake_ns != UINT64_MAX && (wake_ns < m->wake_at || m->wake_at < sim->now)) {
    m->wake_at = wake_ns > sim->now ? wake_ns : sim->now;
    sim_at(sim, m->wake_at, (struct sim_event){.happen = wake, .member = m});
  }
}

// --- Life.

struct sim_member *sim_member_new(struct sim *sim, int32_t rank, uint32_t founders) {
  struct sim_member *m = calloc(1, sizeof *m);
  int32_t *ranks = calloc(founders + 1u, sizeof *ranks);
  if (!m || !ranks)
    abort();
  woken_sim = sim;
  for (uint32_t i = 0; i < founders; i++)
    ranks[i] = (int32_t)i;
  m->incarnation = random_next(&sim->random) | 1;
  m->rank = rank;
  m->founder = founders > 0;
  m->since = sim->now;
  m->wake_at = UINT64_MAX;
  const struct group_machine_options options = {.prefix = SIM_PREFIX,
                                                .rank = rank,
                                                .capacity = sim->options.capacity,
                                                .founders = ranks,
                                                .num_founders = founders,
                                                .join_only = founders == 0,
                                                .lease_ttl_s = sim->options.ttl_s,
                                                .address = "host/socket",
                                                .incarnation = m->incarnation,
                                                .seed = random_next(&sim->random)};
  if (group_machine_new(&m->machine, &options) != 0)
    abort();
  free(ranks);
  if (sim->num_live == sim->room_live) {
    sim->room_live = sim->room_live ? 2 * sim->room_live : 64;
    sim->live = realloc(sim->live, sim->room_live * sizeof *sim->live);
    if (!sim->live)
      abort();
  }
  m->index = sim->num_live;
  sim->live[sim->num_live++] = m;
  HASH_ADD(hh, sim->ever, incarnation, sizeof m->incarnation, m);
  if (m->founder)
    group_machine_found(m->machine, true);
  sim_member_limit(sim, m);
  return m;
}

void sim_member_end(struct sim *sim, struct sim_member *m) {
  sim_watch_end(sim, m);
  group_machine_free(m->machine);
  m->machine = NULL;
  m->request = NULL; // its answer is dropped
  m->died = sim->now;
  sim->live[m->index] = sim->live[--sim->num_live];
  sim->live[m->index]->index = m->index;
}
