// Converts a struct group_machine to the numbers of a state, and back.
#include <stdlib.h>
#include <string.h>

#include "model/support/views_state.h"

static struct group_machine *machines[MEMBERS];

struct group_machine *machine_of(int i) {
  return machines[i];
}

struct group_change the_change;
uint64_t the_removed[MEMBERS];

// The change takes in all joiners at once and, with `puts_out`, puts out the highest founder.
static void make_change(const struct views_options *o) {
  static int32_t add[MEMBERS], removed[MEMBERS];
  for (uint32_t i = 0; i < o->joiners; i++)
    add[i] = (int32_t)(o->founders + i);
  removed[0] = (int32_t)o->founders - 1;
  the_removed[0] = o->founders;
  the_change =
      (struct group_change){.add = add, .num_add = o->joiners, .remove = removed, .num_remove = o->puts_out ? 1 : 0};
}

static int32_t rank_of(const struct views_options *o, int i) {
  if (i < (int)o->founders)
    return i;
  return o->any_rank ? -1 : o->heir ? 0 : i;
}

void machines_open(const struct views_options *o) {
  static const int32_t founders[MEMBERS] = {0, 1, 2, 3};
  make_change(o);
  for (int i = 0; i < MEMBERS; i++) {
    const struct group_machine_options options = {.prefix = PREFIX,
                                                  .rank = rank_of(o, i),
                                                  .capacity = RANKS,
                                                  .founders = founders,
                                                  .num_founders = i < (int)o->founders ? o->founders : 0,
                                                  .lease_ttl_s = 10,
                                                  .address = "host socket",
                                                  .incarnation = (uint64_t)i + 1,
                                                  .seed = 1};
    if (group_machine_new(&machines[i], &options) != 0)
      abort();
    machines[i]->room_tickets = 16;
    machines[i]->tickets = calloc(16, sizeof *machines[i]->tickets);
  }
}

void machines_close(void) {
  for (int i = 0; i < MEMBERS; i++)
    group_machine_free(machines[i]);
}

static void set_view(const struct group_view **place, num value) {
  group_view_unref(*place);
  *place = group_view_ref(value_view(value));
}

enum { LATER_NS = 1000000000, RETRY_NS = 50000000, TURN_NS = 1000000 };

static void load_timers(struct group_machine *m, const struct machine *s) {
  m->now = NOW_NS;
  m->random = 1;
  m->failures = 0;
  m->retry_at = NOW_NS + (s->retry_runs ? RETRY_NS : 0);
  m->keepalive_at = s->keepalive == 0 ? NOW_NS : s->keepalive == 1 ? m->retry_at : NOW_NS + LATER_NS;
  m->view_keepalive_at = NOW_NS + LATER_NS;
  m->hold_until = NOW_NS + (s->hold_runs ? LATER_NS : 0);
  m->grace_until = NOW_NS + (s->grace ? LATER_NS : 0);
  m->view_grace_until = NOW_NS + (s->view_grace ? LATER_NS : 0);
  m->need_since = NOW_NS;
  m->need_delay = s->turn ? TURN_NS : 0;
  m->conflict_delay = s->backoff ? TURN_NS : 0;
  m->close_until = NOW_NS + LATER_NS;
}

static void load_tables(struct group_machine *m, const struct machine *s) {
  for (int r = 0; r < RANKS; r++) {
    free(m->claims[r].address);
    m->claims[r] = (struct group_claim){.incarnation = (uint64_t)s->claims[r].incarnation,
                                        .create_revision = s->claims[r].create,
                                        .mod_revision = s->claims[r].mod,
                                        .lease = s->claims[r].lease};
    m->removals[r] = (struct group_removal){.incarnation = (uint64_t)s->removals[r].incarnation,
                                            .removers = (uint32_t)s->removals[r].removers,
                                            .suspected = s->removals[r].suspected};
    m->offers[r] = (struct group_offer){.incarnation = (uint64_t)s->offers[r].incarnation,
                                        .create_revision = s->offers[r].create,
                                        .mod_revision = s->offers[r].mod,
                                        .lease = s->offers[r].lease,
                                        .stage = (enum group_offer_stage)s->offers[r].stage};
  }
  m->num_tickets = (uint32_t)s->num_tickets;
  for (int i = 0; i < s->num_tickets; i++)
    m->tickets[i] = (struct group_ticket){s->tickets[i].revision, (uint64_t)s->tickets[i].incarnation};
}

void machine_load(const struct world *w, int i) {
  const struct machine *s = &w->m[i].machine;
  struct group_machine *m = machines[i];
  m->synced = s->synced;
  m->watching = s->watching;
  m->revision = s->revision;
  set_view(&m->stored, s->stored);
  m->stored_mod = s->stored_mod;
  m->stored_lease = s->stored_lease;
  m->stored_seen = s->stored_seen;
  m->damage[0] = '\0';
  m->late_ticket = s->late_ticket;
  m->standing = (enum group_standing)s->standing;
  m->rank = s->rank;
  set_view(&m->view, s->view);
  m->join_epoch = (uint64_t)s->join_epoch;
  m->founding = s->founding;
  m->leaving = s->leaving;
  m->closing = s->closing;
  m->closed = s->closed;
  m->lease = s->lease;
  m->spare_lease = s->spare_lease;
  m->busy = s->busy;
  m->asked_lease = w->m[i].request.lease;
  m->kind = (enum group_request_kind)s->kind;
  m->of_view_lease = s->of_view_lease;
  m->sent_revision = s->sent_revision;
  m->retry = s->retry;
  m->conflicts = s->conflicts;
  m->holding = s->holding;
  m->hold_revision = s->hold_revision;
  m->need_mod = s->need_mod;
  m->requests_fail = s->requests_fail;
  m->lost = s->lost;
  m->watch_lost = s->watch_lost;
  m->builder.lease = s->builder_lease;
  m->builder.of_view = s->builder_of_view;
  m->offering = (enum group_offer_stage)s->offering;
  m->offered = s->offered;
  m->withdraw = -1;
  m->wanted = (struct group_wanted){.change = s->wanted ? &the_change : NULL,
                                    .removed = the_removed,
                                    .sent = s->sent,
                                    .unknown = s->unknown,
                                    .leaves = s->leaves};
  m->builder.of_change = s->sent;
  load_timers(m, s);
  load_tables(m, s);
}

static void save_timers(const struct group_machine *m, struct machine *s) {
  s->retry_runs = m->retry && m->retry_at > NOW_NS;
  s->keepalive = m->keepalive_at <= NOW_NS ? 0 : m->retry && m->keepalive_at == m->retry_at ? 1 : 2;
  s->hold_runs = m->holding && m->hold_until > NOW_NS;
  s->grace = m->grace_until > NOW_NS;
  s->view_grace = m->view_grace_until > NOW_NS;
  bool needed = m->need_mod == m->stored_mod;
  s->need_mod = (num)(needed ? m->need_mod : -1);
  s->turn = needed && m->need_delay > 0;
  s->backoff = needed && m->conflict_delay > 0;
}

// Revisions before the newest one become 0, since the machine compares them with no new event any more.
static num fresh(const struct group_machine *m, int64_t revision) {
  return (num)(revision >= m->revision ? revision : 0);
}

static void save_tables(const struct group_machine *m, struct machine *s) {
  for (int r = 0; r < RANKS; r++) {
    const struct group_claim *claim = &m->claims[r];
    bool own = claim->incarnation == m->incarnation;
    s->claims[r].incarnation = (num)claim->incarnation;
    s->claims[r].create = (num)claim->create_revision;
    s->claims[r].mod = fresh(m, claim->mod_revision);
    s->claims[r].lease = own && claim->create_revision ? (num)claim->lease : 0;
    s->removals[r].incarnation = (num)m->removals[r].incarnation;
    s->removals[r].removers = (num)m->removals[r].removers;
    s->removals[r].suspected = m->removals[r].suspected;
    const struct group_offer *offer = &m->offers[r];
    s->offers[r].incarnation = (num)offer->incarnation;
    s->offers[r].create = (num)offer->create_revision;
    s->offers[r].mod = offer->create_revision ? (num)offer->mod_revision : fresh(m, offer->mod_revision);
    s->offers[r].lease = (num)offer->lease;
    s->offers[r].stage = (num)offer->stage;
  }
  s->num_tickets = (num)m->num_tickets;
  for (uint32_t i = 0; i < m->num_tickets; i++) {
    s->tickets[i].revision = (num)m->tickets[i].revision;
    s->tickets[i].incarnation = (num)m->tickets[i].incarnation;
  }
}

void machine_save(struct world *w, int i) {
  struct machine *s = &w->m[i].machine;
  const struct group_machine *m = machines[i];
  bool txn = m->busy && m->kind == GROUP_REQUEST_TXN;
  memset(s, 0, sizeof *s);
  s->synced = m->synced;
  s->watching = m->watching;
  s->revision = (num)m->revision;
  s->stored = value_of_view(m->stored);
  s->stored_mod = (num)m->stored_mod;
  s->stored_lease = (num)m->stored_lease;
  s->stored_seen = fresh(m, m->stored_seen);
  s->late_ticket = m->late_ticket;
  s->standing = (uint8_t)m->standing;
  s->rank = (num)m->rank;
  s->view = value_of_view(m->view);
  s->join_epoch = (num)m->join_epoch;
  s->founding = m->founding;
  s->leaving = m->leaving;
  s->closing = m->closing;
  s->closed = m->closed;
  s->lease = (num)m->lease;
  s->spare_lease = (num)m->spare_lease;
  s->busy = m->busy;
  s->kind = m->busy ? (uint8_t)m->kind : 0;
  s->of_view_lease = m->busy && m->of_view_lease;
  s->sent_revision = (num)(txn ? m->sent_revision : 0);
  s->retry = m->retry;
  s->conflicts = m->conflicts > 0;
  s->holding = m->holding;
  s->hold_revision = (num)(m->holding ? m->hold_revision : 0);
  s->requests_fail = m->requests_fail;
  s->lost = m->lost;
  s->watch_lost = m->watch_lost;
  s->builder_lease = (num)(txn ? m->builder.lease : 0);
  s->builder_of_view = txn && m->builder.of_view;
  s->offering = (uint8_t)m->offering;
  s->offered = m->offered;
  s->wanted = m->wanted.change != NULL;
  s->sent = m->wanted.sent;
  s->unknown = m->wanted.unknown;
  s->leaves = m->wanted.leaves;
  save_timers(m, s);
  save_tables(m, s);
}

// --- Renumbering.

typedef void visit(num *number, void *arg);

static void visit_request(struct request *r, visit *revision, visit *lease, void *arg) {
  lease(&r->lease, arg);
  revision(&r->revision, arg);
  for (int i = 0; i < r->num_compares; i++)
    revision(&r->compares[i].number, arg);
  for (int i = 0; i < r->num_ops; i++)
    lease(&r->ops[i].lease, arg);
}

static void visit_kv(struct kv *kv, visit *revision, visit *lease, void *arg) {
  revision(&kv->create, arg);
  revision(&kv->mod, arg);
  lease(&kv->lease, arg);
}

static void visit_machine(struct machine *m, visit *revision, visit *lease, void *arg) {
  revision(&m->revision, arg);
  revision(&m->stored_mod, arg);
  revision(&m->stored_seen, arg);
  revision(&m->sent_revision, arg);
  revision(&m->hold_revision, arg);
  revision(&m->need_mod, arg);
  lease(&m->stored_lease, arg);
  lease(&m->lease, arg);
  lease(&m->spare_lease, arg);
  lease(&m->builder_lease, arg);
  for (int r = 0; r < RANKS; r++) {
    revision(&m->claims[r].create, arg);
    revision(&m->claims[r].mod, arg);
    lease(&m->claims[r].lease, arg);
    revision(&m->offers[r].create, arg);
    revision(&m->offers[r].mod, arg);
    lease(&m->offers[r].lease, arg);
  }
  for (int t = 0; t < m->num_tickets; t++)
    revision(&m->tickets[t].revision, arg);
}

static void visit_world(struct world *w, visit *revision, visit *lease, void *arg) {
  revision(&w->store.revision, arg);
  for (int k = 0; k < KEYS; k++)
    visit_kv(&w->store.keys[k], revision, lease, arg);
  for (int l = 0; l < LEASES; l++)
    lease(&w->store.leases[l].id, arg);
  for (int e = 0; e < w->store.num_events; e++) {
    revision(&w->store.events[e].revision, arg);
    visit_kv(&w->store.events[e].kv, revision, lease, arg);
  }
  visit_request(&w->late, revision, lease, arg);
  for (int i = 0; i < MEMBERS; i++) {
    visit_request(&w->m[i].request, revision, lease, arg);
    visit_machine(&w->m[i].machine, revision, lease, arg);
  }
}

enum { NUMBERS = 128 };

struct numbers {
  uint8_t revisions[NUMBERS], leases[NUMBERS];
};

static void mark(uint8_t *set, num number) {
  if (number >= NUMBERS)
    abort();
  if (number > 0)
    set[number] = 1;
}

static void mark_revision(num *number, void *arg) {
  mark(((struct numbers *)arg)->revisions, *number);
}

static void mark_lease(num *number, void *arg) {
  mark(((struct numbers *)arg)->leases, *number);
}

static void raise_to(num *number, void *arg) {
  num *highest = arg;
  *highest = *number > *highest ? *number : *highest;
}

static void ignore(num *number, void *arg) {
  (void)number;
  (void)arg;
}

num world_highest_lease(const struct world *w) {
  struct world copy = *w;
  num highest = 0;
  visit_world(&copy, ignore, raise_to, &highest);
  return highest;
}

static void rank_numbers(uint8_t *set) {
  uint8_t rank = 0;
  for (int i = 1; i < NUMBERS; i++)
    if (set[i])
      set[i] = ++rank;
}

static void map_revision(num *number, void *arg) {
  if (*number > 0)
    *number = ((struct numbers *)arg)->revisions[*number];
}

static void map_lease(num *number, void *arg) {
  if (*number > 0)
    *number = ((struct numbers *)arg)->leases[*number];
}

void world_renumber(struct world *w) {
  static struct numbers numbers;
  memset(&numbers, 0, sizeof numbers);
  visit_world(w, mark_revision, mark_lease, &numbers);
  rank_numbers(numbers.revisions);
  rank_numbers(numbers.leases);
  visit_world(w, map_revision, map_lease, &numbers);
  // Sorts the leases by their numbers.
  struct lease leases[LEASES] = {{0}};
  int count = 0;
  for (int l = 0; l < LEASES; l++) {
    int at = w->store.leases[l].id ? count++ : -1;
    for (; at > 0 && leases[at - 1].id > w->store.leases[l].id; at--)
      leases[at] = leases[at - 1];
    if (at >= 0)
      leases[at] = w->store.leases[l];
  }
  memcpy(w->store.leases, leases, sizeof leases);
}
