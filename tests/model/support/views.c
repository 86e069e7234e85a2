// The model of the agreement on views, as the search (explore.h) drives it.
#include "model/support/views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/support/views_state.h"
#include <weft/err.h>

enum step {
  STEP_EXECUTE,
  STEP_ANSWER,
  STEP_DELIVER,
  STEP_DELIVER_ALL,
  STEP_RESUME,
  STEP_TIMER,
  STEP_HOLD,
  STEP_NOTICE,
  STEP_TTL,
  STEP_EXPIRE,
  STEP_LATE,
  STEP_LATE_LOST,
  STEP_START, // this step and the following ones need not happen
  STEP_LEAVE,
  STEP_WITHDRAW,
  STEP_GIVE_UP,
  STEP_DIE,
  STEP_LOSE_ANSWER,
  STEP_LOSE_REQUEST,
  STEP_LATE_REQUEST,
  STEP_CUT,
  STEP_BREAK,
  STEP_EXPIRE_ALIVE,
  STEP_EMPTY,
};

struct search {
  const struct views_options *o;
  struct explore *x;
  const struct world *from;
  bool progress;
};

static const char *const kinds[] = {"nothing", "read", "watch", "grant", "keepalive", "revoke", "transaction"};

static void describe(void *arg, uint32_t step, char *text, size_t size) {
  static const char *const names[] = {
      "request is carried out",
      "has its answer",
      "receives one event",
      "receives all events",
      "watches again",
      "short timer fires",
      "gives up waiting to see",
      "finds a lease expired",
      "grace ends",
      "lease runs out",
      "late request arrives",
      "late request is lost",
      "starts",
      "leaves",
      "takes its offer back",
      "gives the change up",
      "dies",
      "answer is lost",
      "request is lost",
      "request will be late",
      "watch is cut",
      "watch has to begin anew",
      "lease runs out, alive",
      "store comes back empty",
  };
  (void)arg;
  snprintf(text, size, "%u %s%s%u", step >> 16 & 255, names[step >> 24], step & 255 ? " " : " ", step & 255);
}

static void show(void *arg, const uint8_t *state, size_t size) {
  static const char *const lives[] = {"not started", "alive", "dead", "ended"};
  static const char *const standings[] = {"opening", "claimed", "left", "fenced"};
  const struct world *w = (const void *)state;
  (void)arg;
  (void)size;
  printf("  store: revision %d\n", w->store.revision);
  for (uint8_t key = 0; key < KEYS; key++)
    if (w->store.keys[key].create)
      printf("    %s (%d, %d, lease %d) %s\n", key_text(key), w->store.keys[key].create, w->store.keys[key].mod,
             w->store.keys[key].lease, value_text(w->store.keys[key].value));
  for (int i = 0; i < MEMBERS; i++) {
    const struct member *m = &w->m[i];
    const struct machine *s = &m->machine;
    printf("  %d %s %s rank %d, view %s, stored %s, lease %d, request %s, %s%s%s%s%sreceived %d of %d\n", i,
           lives[m->life], standings[s->standing], s->rank, s->view ? value_text(s->view) : "-",
           s->stored ? value_text(s->stored) : "-", s->lease, kinds[m->request.asked], s->holding ? "holding, " : "",
           s->retry ? "retry, " : "", s->grace ? "grace, " : "", s->closing ? "closing, " : "",
           s->synced ? "" : "not synced, ", m->at, w->store.num_events);
  }
}

static uint32_t code(enum step step, int member, uint32_t arg) {
  return (uint32_t)step << 24 | (uint32_t)member << 16 | arg;
}

static struct play begin(const struct search *s) {
  return (struct play){.w = *s->from, .o = s->o};
}

// Drops the events that no member has to receive any more.
static void forget_events(struct world *w) {
  num oldest = w->store.num_events;
  for (int i = 0; i < MEMBERS; i++)
    if (w->m[i].life == LIFE_ALIVE && (w->m[i].watch == WATCH_ON || w->m[i].watch == WATCH_CUT) && w->m[i].at < oldest)
      oldest = w->m[i].at;
  store_forget(&w->store, oldest);
  for (int i = 0; i < MEMBERS; i++)
    w->m[i].at = w->m[i].life == LIFE_ALIVE && (w->m[i].watch == WATCH_ON || w->m[i].watch == WATCH_CUT)
                     ? w->m[i].at - oldest
                     : 0;
}

static void clear_gone(struct world *w) {
  for (int i = 0; i < MEMBERS; i++) {
    struct member *m = &w->m[i];
    if (m->life == LIFE_ALIVE || m->life == LIFE_NONE)
      continue;
    uint8_t life = m->life, was_in = m->was_in;
    memset(m, 0, sizeof *m);
    m->life = life;
    m->was_in = was_in;
  }
}

static void report(struct search *s, struct play *p, uint32_t step) {
  bool fault = step >> 24 >= STEP_START;
  clear_gone(&p->w);
  forget_events(&p->w);
  world_renumber(&p->w);
  s->progress |= !fault;
  explore_step(s->x, step, fault, (const uint8_t *)&p->w, sizeof p->w, p->broken[0] ? p->broken : NULL);
}

// --- The steps of a member.

static bool own_lease_is_gone(const struct world *w, int i) {
  const struct machine *m = &w->m[i].machine;
  return m->lease && !store_has_lease(&w->store, m->lease);
}

// Whether all live members of the view hold their ranks, and this member knows everything in the store. Only then has
// the time of a lease passed, since all this takes less time.
static bool ttl_may_pass(const struct world *w, int i) {
  if (w->m[i].watch != WATCH_ON || w->m[i].at < w->store.num_events || w->m[i].request.asked)
    return false;
  for (int j = 0; j < MEMBERS; j++) {
    const struct member *m = &w->m[j];
    const struct group_view *view = value_view(m->machine.view);
    bool in = m->life == LIFE_ALIVE && m->machine.standing == GROUP_CLAIMED && !m->machine.closing && view &&
              m->machine.rank >= 0 && group_view_has(view, m->machine.rank, (uint64_t)j + 1);
    if (!in || j == i)
      continue;
    const struct kv *claim = &w->store.keys[CLAIM_KEYS + m->machine.rank];
    if (!claim->create || !store_has_lease(&w->store, claim->lease) || !w->store.keys[VIEW_KEY].create)
      return false;
  }
  return true;
}

static bool timer_runs(const struct machine *m) {
  return m->retry_runs || ((m->turn || m->backoff) && m->need_mod >= 0);
}

static bool is_due(const struct search *s, enum step step, int i) {
  const struct world *w = s->from;
  const struct member *m = &w->m[i];
  const struct machine *g = &m->machine;
  bool asked = m->request.asked, more = m->watch == WATCH_ON && m->at < w->store.num_events;
  switch (step) {
  case STEP_EXECUTE:
    return asked && !m->request.executed;
  case STEP_ANSWER:
    return asked && m->request.executed;
  case STEP_DELIVER:
    return more;
  case STEP_DELIVER_ALL:
    return more && m->at + 1 < w->store.num_events;
  case STEP_RESUME:
    return m->watch == WATCH_CUT || m->watch == WATCH_BROKEN;
  case STEP_TIMER:
    return !asked && timer_runs(g);
  case STEP_HOLD:
    return !asked && g->holding && g->hold_runs && !more && m->watch == WATCH_ON;
  case STEP_NOTICE:
    return !asked && !g->retry && g->keepalive == 2 && g->standing != GROUP_LEFT && g->standing != GROUP_FENCED &&
           !g->closing && own_lease_is_gone(w, i);
  case STEP_TTL:
    return (g->grace || g->view_grace) && ttl_may_pass(w, i);
  case STEP_LEAVE:
    return m->leaves == 1;
  case STEP_WITHDRAW:
    return w->withdrawals < s->o->withdrawals && m->offers && g->offering != GROUP_OFFER_NONE;
  case STEP_GIVE_UP: // not while the proposal has no answer
    return s->o->gives_up && m->changes == 1 && !g->sent;
  case STEP_DIE:
    return w->crashes < s->o->crashes;
  case STEP_LOSE_ANSWER:
    return w->losses < s->o->losses && asked && m->request.executed;
  case STEP_LOSE_REQUEST:
    return w->losses < s->o->losses && asked && !m->request.executed;
  case STEP_LATE_REQUEST:
    return w->losses < s->o->losses && m->request.asked == GROUP_REQUEST_TXN + 1 && !m->request.executed &&
           !w->late.asked;
  case STEP_CUT:
    return w->cuts < s->o->cuts && m->watch == WATCH_ON;
  case STEP_BREAK:
    return w->cuts < s->o->cuts && m->watch == WATCH_ON && more;
  default:
    return false;
  }
}

static void fire_timers(struct group_machine *m) {
  if (m->retry && m->keepalive_at == m->retry_at)
    m->keepalive_at = NOW_NS;
  m->retry_at = NOW_NS;
  m->need_delay = m->conflict_delay = 0;
}

// Keeps a member's transaction as the late request, for which nobody waits any more.
static void make_late(struct world *w, int i) {
  if (w->m[i].request.asked != GROUP_REQUEST_TXN + 1 || w->m[i].request.executed || w->late.asked)
    return;
  w->late = w->m[i].request;
  w->late_from = (uint8_t)i;
}

// Carries out a request, and answers it at once unless it is a transaction.
static void execute(struct play *p, int i) {
  member_execute(p, i);
  if (p->w.m[i].request.asked != GROUP_REQUEST_TXN + 1)
    member_answer(p, i, 0);
}

static void act(struct play *p, enum step step, int i) {
  struct group_machine *m = machine_of(i);
  struct member *me = &p->w.m[i];
  switch (step) {
  case STEP_EXECUTE:
    execute(p, i);
    break;
  case STEP_ANSWER:
    member_answer(p, i, 0);
    break;
  case STEP_DELIVER:
  case STEP_DELIVER_ALL:
    member_deliver(p, i, step == STEP_DELIVER_ALL);
    break;
  case STEP_RESUME:
    member_resume(p, i);
    break;
  case STEP_TIMER:
    fire_timers(m);
    break;
  case STEP_HOLD:
    m->hold_until = NOW_NS;
    break;
  case STEP_NOTICE:
    m->keepalive_at = NOW_NS;
    break;
  case STEP_TTL:
    m->grace_until = m->view_grace_until = NOW_NS;
    break;
  case STEP_LEAVE:
    me->leaves = 2;
    break;
  case STEP_WITHDRAW:
    p->w.withdrawals++;
    group_machine_offer(m, GROUP_OFFER_NONE);
    break;
  case STEP_GIVE_UP:
    me->changes = 2;
    p->w.gave_up = !group_machine_change_unknown(m);
    group_machine_change(m, NULL, NULL);
    break;
  case STEP_LOSE_ANSWER:
  case STEP_LOSE_REQUEST:
  case STEP_LATE_REQUEST:
    p->w.losses++;
    if (step == STEP_LATE_REQUEST)
      make_late(&p->w, i);
    member_answer(p, i, WEFT_ERR_TIMEOUT);
    break;
  case STEP_CUT:
    p->w.cuts++;
    member_lose_watch(p, i);
    break;
  case STEP_BREAK:
    p->w.cuts++;
    me->watch = WATCH_BROKEN;
    break;
  default:
    break;
  }
}

static void try_step(struct search *s, enum step step, int i) {
  if (!is_due(s, step, i))
    return;
  struct play p = begin(s);
  if (step == STEP_DIE) {
    p.w.crashes++;
    make_late(&p.w, i);
    p.w.m[i].life = LIFE_DEAD;
    report(s, &p, code(step, i, 0));
    return;
  }
  uint32_t asked = s->from->m[i].request.asked;
  machine_load(&p.w, i);
  act(&p, step, i);
  member_pump(&p, i);
  machine_save(&p.w, i);
  report(s, &p, code(step, i, step == STEP_EXECUTE ? asked : 0));
}

// --- The steps of the store.

static bool view_is_kept(const struct world *w, num lease) {
  for (int i = 0; i < MEMBERS; i++)
    if (w->m[i].life == LIFE_ALIVE && w->m[i].machine.standing == GROUP_CLAIMED &&
        (w->m[i].machine.stored_lease == lease || w->m[i].machine.spare_lease == lease || w->m[i].request.asked))
      return true;
  return false;
}

static void try_leases(struct search *s) {
  const struct world *w = s->from;
  for (int l = 0; l < LEASES && w->store.leases[l].id; l++) {
    const struct lease *lease = &w->store.leases[l];
    const struct member *owner = &w->m[lease->owner];
    struct play p = begin(s);
    bool kept = lease->of_view ? view_is_kept(w, lease->id) : owner->life == LIFE_ALIVE;
    bool known = owner->machine.lease == lease->id; // otherwise the grant was not answered, and nobody keeps it alive
    if (!lease->of_view && kept && !known && !owner->request.asked)
      kept = false;
    if (kept && (lease->of_view || !known || w->expiries >= s->o->expiries))
      continue;
    if (kept) {
      p.w.expiries++;
      p.w.m[lease->owner].wronged = 1;
    }
    if (p.w.store.keys[VIEW_KEY].create && p.w.store.keys[VIEW_KEY].lease == lease->id)
      p.w.forgetful = 1;
    store_expire(&p.w.store, lease->id);
    report(s, &p, code(kept ? STEP_EXPIRE_ALIVE : STEP_EXPIRE, lease->owner, (uint32_t)lease->id));
  }
}

static void try_late(struct search *s) {
  if (!s->from->late.asked)
    return;
  struct play p = begin(s);
  late_execute(&p);
  report(s, &p, code(STEP_LATE, s->from->late_from, 0));
  p = begin(s);
  p.w.late = (struct request){0};
  p.w.late_from = 0;
  report(s, &p, code(STEP_LATE_LOST, s->from->late_from, 0));
}

static void try_empty(struct search *s) {
  if (s->from->empties >= s->o->empties)
    return;
  struct play p = begin(s);
  p.w.store = (struct store){.revision = 1};
  p.w.empties++;
  p.w.forgetful = p.w.emptied = 1;
  for (int i = 0; i < MEMBERS; i++)
    if (p.w.m[i].watch != WATCH_NONE)
      p.w.m[i].watch = WATCH_BROKEN;
  report(s, &p, code(STEP_EMPTY, 0, 0));
}

static void try_start(struct search *s, int i) {
  if (s->from->m[i].life != LIFE_NONE || i >= (int)(s->o->founders + s->o->joiners))
    return;
  struct play p = begin(s);
  p.w.m[i].life = LIFE_ALIVE;
  machine_load(&p.w, i);
  member_pump(&p, i);
  machine_save(&p.w, i);
  report(s, &p, code(STEP_START, i, 0));
}

// --- The end.

// Whether the change has to take effect: the member that requests it lives, and all members to take in are ready.
static bool is_to_come(const struct views_options *o, const struct world *w) {
  bool to_come = w->m[0].life == LIFE_ALIVE && w->m[0].changes == 1 && !w->m[0].fenced;
  for (int i = (int)o->founders; i < (int)(o->founders + o->joiners); i++) {
    const struct kv *offer = &w->store.keys[OFFER_KEYS + i];
    to_come &= w->m[i].life == LIFE_ALIVE && offer->create && strstr(value_text(offer->value), "ready");
  }
  return to_come;
}

static const char *check_member(const struct views_options *o, const struct world *w, int i, num view) {
  const struct member *m = &w->m[i];
  const struct machine *g = &m->machine;
  static char why[200];
  const struct group_view *v = value_view(view);
  bool in = v && g->rank >= 0 && group_view_has(v, g->rank, (uint64_t)i + 1);
  if (m->request.asked) {
    snprintf(why, sizeof why, "member %d waits for an answer for ever", i);
    return why;
  }
  if (m->life != LIFE_ALIVE) {
    for (uint32_t j = 0; v && j < v->count; j++)
      if (v->members[j].incarnation == (uint64_t)i + 1) {
        snprintf(why, sizeof why, "member %d is gone, and the view still has it", i);
        return why;
      }
    return NULL;
  }
  if (m->leaves == 2 || m->fenced)
    snprintf(why, sizeof why, "member %d has not ended", i);
  else if (g->standing == GROUP_CLAIMED && m->was_in && !in)
    snprintf(why, sizeof why, "member %d goes on and is not in the view", i);
  else if (g->standing == GROUP_OPENING && g->rank >= 0 && w->store.keys[CLAIM_KEYS + g->rank].create)
    return NULL; // a live member holds the rank that it claims
  else if (!in && !m->wronged && (!o->offers || i < (int)o->founders || is_to_come(o, w)))
    snprintf(why, sizeof why, "member %d is not in the view", i);
  else if (o->offers && i >= (int)o->founders && !view)
    return NULL; // the group has ended: all its members have gone
  else if (g->view != view)
    snprintf(why, sizeof why, "member %d knows another view than the store's", i);
  else
    return NULL;
  return why;
}

static const char *check_end(const struct views_options *o, const struct world *w) {
  bool any = false, never = w->top == 0 && w->crashes > 0; // all wait for a founder that died before the first view
  for (int i = 0; i < MEMBERS; i++)
    any |= w->m[i].life == LIFE_ALIVE && !never;
  num view = w->store.keys[VIEW_KEY].create ? w->store.keys[VIEW_KEY].value : 0;
  for (int i = 0; any && i < MEMBERS; i++) {
    const char *why = check_member(o, w, i, view);
    if (why)
      return why;
  }
  return NULL;
}

static void expand(struct explore *x, void *arg, const uint8_t *state, size_t size) {
  struct search *s = arg;
  struct world from;
  memcpy(&from, state, size < sizeof from ? size : sizeof from);
  s->x = x;
  s->from = &from;
  s->progress = false;
  for (int i = 0; i < MEMBERS; i++) {
    try_start(s, i);
    if (from.m[i].life != LIFE_ALIVE)
      continue;
    for (enum step step = STEP_EXECUTE; step <= STEP_BREAK; step++)
      try_step(s, step, i);
  }
  try_leases(s);
  try_late(s);
  try_empty(s);
  if (s->progress)
    return;
  const char *why = check_end(s->o, &from);
  if (why)
    explore_broken(x, why);
  explore_end(x);
}

// --- The start: founders in their first view, or before it.

static void begin_members(const struct views_options *o, struct world *w) {
  struct play p = {.w = *w, .o = o};
  for (uint32_t i = 0; i < o->founders; i++) {
    struct member *m = &p.w.m[i];
    m->life = LIFE_ALIVE;
    machine_load(&p.w, (int)i);
    group_machine_found(machine_of((int)i), true);
    member_pump(&p, (int)i);
    machine_save(&p.w, (int)i);
  }
  world_renumber(&p.w);
  *w = p.w;
}

// Takes the first possible step, until none is possible.
static struct world settle(const struct views_options *o, struct world w) {
  for (int done = 0; !done;) {
    struct search s = {.o = o, .from = &w};
    done = 1;
    for (int i = 0; i < (int)o->founders && done; i++)
      for (enum step step = STEP_EXECUTE; step < STEP_EXPIRE && done; step++) {
        if (!is_due(&s, step, i))
          continue;
        struct play p = begin(&s);
        machine_load(&p.w, i);
        act(&p, step, i);
        member_pump(&p, i);
        machine_save(&p.w, i);
        forget_events(&p.w);
        world_renumber(&p.w);
        w = p.w;
        done = 0;
      }
  }
  return w;
}

struct explore_result views_run(const struct views_options *options) {
  struct search s = {.o = options};
  struct explore_model model = {
      .name = "views", .arg = &s, .expand = expand, .describe = describe, .show = show, .ends = true};
  static struct world start;
  memset(&start, 0, sizeof start);
  start.store.revision = 1;
  machines_open(options);
  for (int i = 0; i < MEMBERS; i++)
    machine_save(&start, i);
  begin_members(options, &start);
  if (!options->founding)
    start = settle(options, start);
  for (uint32_t i = 0; i < options->founders; i++)
    start.m[i].leaves = i + options->leavers >= options->founders;
  struct explore_result result = explore_run(&model, (const uint8_t *)&start, sizeof start,
                                             (struct explore_limits){.states = options->states}, options->quiet);
  machines_close();
  return result;
}
