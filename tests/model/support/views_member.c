// Does what a driver and the layer above do with a machine, and checks each change that is sent to the store.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/support/views_state.h"
#include <weft/err.h>

static bool in_view(num view, int i) {
  const struct group_view *v = value_view(view);
  for (uint32_t j = 0; v && j < v->count; j++)
    if (v->members[j].incarnation == (uint64_t)i + 1)
      return true;
  return false;
}

// --- The layer above.

static void take_view(struct play *p, int i, const struct group_view *view) {
  struct member *me = &p->w.m[i];
  if ((num)view->epoch <= me->newest)
    BREAK(p, "member %d gets view %d after view %d", i, (int)view->epoch, me->newest);
  me->newest = (num)view->epoch;
}

static void take_events(struct play *p, int i) {
  struct group_event event;
  while (group_machine_event(machine_of(i), &event)) {
    if (event.kind == GROUP_EVENT_VIEW)
      take_view(p, i, event.view);
    bool put_out = p->o->puts_out && i + 1 == (int)p->o->founders;
    if (event.kind == GROUP_EVENT_FENCED && p->w.m[i].leaves != 2 && !p->w.m[i].wronged && !put_out)
      BREAK(p, "member %d is put out, though it lives and holds its lease", i);
    p->w.m[i].fenced |= event.kind == GROUP_EVENT_FENCED;
    group_view_unref(event.view);
  }
}

static void wish_change(struct play *p, int i) {
  struct member *me = &p->w.m[i];
  struct group_machine *m = machine_of(i);
  if (me->changes == 0)
    group_machine_change(m, &the_change, the_removed);
  me->changes = me->changes == 0 ? 1 : me->changes;
  if (me->changes != 1 || !group_machine_changed(m))
    return;
  me->changes = 2;
  group_machine_change(m, NULL, NULL);
}

static void wish(struct play *p, int i) {
  struct member *me = &p->w.m[i];
  struct group_machine *m = machine_of(i);
  enum group_standing standing = group_machine_standing(m);
  if (m->closing)
    return;
  bool in = group_in_view(m, m->view);
  if (me->fenced || me->leaves == 2) {
    group_machine_close(m, m->close_until);
  } else if (in) {
    me->wanted = 0;
    group_machine_found(m, false);
    group_machine_join(m, 0);
    if (p->o->offers && i == 0)
      wish_change(p, i);
  } else if (p->o->offers && i >= (int)p->o->founders) {
    if (me->offers || standing != GROUP_CLAIMED || !m->view)
      return;
    me->offers = 1;
    group_machine_offer(m, GROUP_OFFER_COMING);
    group_machine_offer(m, GROUP_OFFER_READY);
  } else if (standing == GROUP_CLAIMED && group_machine_view_stands(m) && m->view &&
             me->wanted != (num)m->view->epoch) {
    me->wanted = (num)m->view->epoch;
    group_machine_found(m, false);
    group_machine_join(m, m->view->epoch);
  }
}

// --- Requests.

// Whether the mutation removes this comparison from a transaction.
static bool is_left_out(const struct play *p, const struct weft_store_compare *compare) {
  uint8_t key = key_of(compare->key);
  if (key == VIEW_KEY)
    return p->o->mutation == VIEWS_NO_VIEW_COMPARE;
  if (key >= OFFER_KEYS)
    return p->o->mutation == VIEWS_NO_OFFER_COMPARE;
  if (key >= TICKET_KEYS)
    return false;
  return p->o->mutation == (compare->number ? VIEWS_NO_CLAIM_COMPARE : VIEWS_NO_FREE_COMPARE);
}

static void copy_txn(const struct play *p, struct request *r, const struct weft_store_txn *txn) {
  if (txn->num_compares > COMPARES || txn->num_success > OPS || txn->num_failure > 0)
    abort();
  for (size_t c = 0; c < txn->num_compares; c++) {
    const struct weft_store_compare *compare = &txn->compares[c];
    if (is_left_out(p, compare))
      continue;
    if (compare->relation != WEFT_STORE_EQUAL ||
        (compare->target != WEFT_STORE_CREATE && compare->target != WEFT_STORE_MOD))
      abort();
    r->compares[r->num_compares].key = key_of(compare->key);
    r->compares[r->num_compares].target = compare->target == WEFT_STORE_CREATE ? STORE_CREATE : STORE_MOD;
    r->compares[r->num_compares++].number = (num)compare->number;
  }
  for (size_t o = 0; o < txn->num_success; o++) {
    const struct weft_store_op *op = &txn->success[o];
    r->ops[o].key = key_of(op->key);
    r->ops[o].put = op->kind == WEFT_STORE_PUT;
    r->ops[o].value = r->ops[o].put ? value_of(op->value, op->value_len) : 0;
    r->ops[o].lease = (num)op->lease;
  }
  r->num_ops = (uint8_t)txn->num_success;
}

static void begin_watch(struct play *p, int i, int64_t from) {
  struct member *me = &p->w.m[i];
  const struct store *s = &p->w.store;
  me->watch = WATCH_ON;
  for (me->at = 0; me->at < s->num_events && s->events[me->at].revision < from;)
    me->at++;
}

void member_pump(struct play *p, int i) {
  struct member *me = &p->w.m[i];
  struct group_machine *m = machine_of(i);
  struct group_request asked;
  uint64_t wake_ns;
  for (;;) {
    if (p->o->mutation == VIEWS_NO_GRACE)
      m->grace_until = 0;
    take_events(p, i);
    wish(p, i);
    if (!group_machine_request(m, NOW_NS, &asked, &wake_ns))
      break;
    if (asked.kind == GROUP_REQUEST_WATCH) {
      begin_watch(p, i, asked.revision);
      group_machine_answer(m, NOW_NS, &(struct group_answer){0});
      continue;
    }
    if (asked.kind == GROUP_REQUEST_READ)
      me->watch = WATCH_NONE;
    me->request =
        (struct request){.asked = (uint8_t)(asked.kind + 1), .lease = (num)asked.lease, .of_view = m->of_view_lease};
    if (asked.kind == GROUP_REQUEST_TXN) {
      me->request.of_view = m->builder.of_view;
      copy_txn(p, &me->request, asked.txn);
    }
  }
  if (group_machine_closed(m)) {
    me->life = LIFE_ENDED;
    me->watch = WATCH_NONE;
  }
}

static void read_list(const struct store *s, struct weft_store_list *list, struct weft_store_kv *kvs) {
  for (uint8_t key = 0; key < KEYS; key++) {
    const struct kv *kv = &s->keys[key];
    if (!kv->create)
      continue;
    const char *text = value_text(kv->value);
    list->kvs[list->count] = &kvs[list->count];
    kvs[list->count++] = (struct weft_store_kv){.key = (char *)key_text(key),
                                                .value = (char *)text,
                                                .value_len = strlen(text),
                                                .create_revision = kv->create,
                                                .mod_revision = kv->mod,
                                                .lease = kv->lease};
  }
  list->total = list->count;
  list->revision = s->revision;
}

void member_answer(struct play *p, int i, int err) {
  struct request r = p->w.m[i].request;
  struct weft_store_kv kvs[KEYS], *places[KEYS];
  struct weft_store_list list = {.kvs = places};
  struct group_answer answer = {.err = err ? err : r.err,
                                .reason = "no answer",
                                .lease = r.lease,
                                .succeeded = r.succeeded,
                                .revision = r.revision};
  if (r.asked == GROUP_REQUEST_READ + 1) {
    read_list(&p->w.store, &list, kvs);
    answer.list = &list;
  }
  p->w.m[i].request = (struct request){0};
  group_machine_answer(machine_of(i), NOW_NS, &answer);
}

// --- The watch.

void member_deliver(struct play *p, int i, bool all) {
  struct member *me = &p->w.m[i];
  do {
    const struct event *event = &p->w.store.events[me->at++];
    const char *text = event->put ? value_text(event->kv.value) : NULL;
    struct weft_store_event out = {.kind = event->put ? WEFT_STORE_EVENT_PUT : WEFT_STORE_EVENT_DELETE,
                                   .kv = &(struct weft_store_kv){.key = (char *)key_text(event->key),
                                                                 .value = (char *)text,
                                                                 .value_len = text ? strlen(text) : 0,
                                                                 .create_revision = event->kv.create,
                                                                 .mod_revision = event->revision,
                                                                 .lease = event->kv.lease},
                                   .revision = event->revision};
    group_machine_watch(machine_of(i), NOW_NS, &out);
  } while (all && me->at < p->w.store.num_events);
}

void member_lose_watch(struct play *p, int i) {
  p->w.m[i].watch = WATCH_CUT;
  group_machine_watch(machine_of(i), NOW_NS, &(struct weft_store_event){.kind = WEFT_STORE_EVENT_LOST});
}

void member_resume(struct play *p, int i) {
  bool broken = p->w.m[i].watch == WATCH_BROKEN;
  p->w.m[i].watch = broken ? WATCH_NONE : WATCH_ON;
  struct weft_store_event event = {.kind = WEFT_STORE_EVENT_LOST};
  if (broken)
    group_machine_watch(machine_of(i), NOW_NS, &event);
  event.kind = broken ? WEFT_STORE_EVENT_RESET : WEFT_STORE_EVENT_RESUMED;
  group_machine_watch(machine_of(i), NOW_NS, &event);
}

// --- What must hold.

static bool has_reason(const struct play *p, int i) {
  const struct world *w = &p->w;
  const struct member *m = &w->m[i];
  if (p->o->puts_out && i + 1 == (int)p->o->founders)
    return true;
  return m->life != LIFE_ALIVE || m->leaves == 2 || m->wronged || m->fenced || w->emptied;
}

static void check_members(struct play *p, num before, num after) {
  const struct world *w = &p->w;
  for (int i = 0; i < MEMBERS; i++) {
    bool was = in_view(before, i), is = in_view(after, i);
    if (was && !is && !has_reason(p, i))
      BREAK(p, "view %d puts out member %d, which has given no reason", (int)value_view(after)->epoch, i);
    if (was || !is)
      continue;
    bool claimed = false;
    for (int r = 0; r < RANKS; r++) {
      const struct kv *claim = &w->store.keys[CLAIM_KEYS + r];
      uint64_t incarnation = 0;
      char *address = NULL;
      if (claim->create &&
          group_claim_decode(value_text(claim->value), strlen(value_text(claim->value)), &incarnation, &address) == 0)
        free(address);
      claimed |= incarnation == (uint64_t)i + 1 && group_view_has(value_view(after), r, incarnation);
    }
    if (!claimed && before) // the first view lists members by claims, which may have ended since
      BREAK(p, "view %d takes in member %d, whose rank it does not hold", (int)value_view(after)->epoch, i);
  }
}

// Checks a view that was written to the store.
static void check_view(struct play *p, num view) {
  struct world *w = &p->w;
  num epoch = (num)value_view(view)->epoch;
  if (epoch > w->top) {
    if (!w->forgetful && w->top && epoch != w->top + 1)
      BREAK(p, "view %d follows view %d", epoch, w->top);
    if (!w->forgetful)
      check_members(p, w->last, view);
    w->top = epoch;
    w->forgetful = 0;
  } else if (!w->forgetful) {
    BREAK(p, "the store is given view %d after view %d, which it has not lost", epoch, w->top);
  }
  w->last = view;
  for (int i = 0; i < MEMBERS; i++)
    w->m[i].was_in |= in_view(view, i);
}

static void check_claims(struct play *p) {
  num holder[RANKS];
  for (int r = 0; r < RANKS; r++) {
    holder[r] = p->w.store.keys[CLAIM_KEYS + r].create ? p->w.store.keys[CLAIM_KEYS + r].value : 0;
    for (int before = 0; before < r; before++)
      if (holder[r] && holder[before] == holder[r])
        BREAK(p, "one incarnation holds ranks %d and %d", before, r);
  }
}

// Checks that each member that was taken in had offered itself as READY, that all other members of the change were
// taken in with it, and that the change had not been given up.
static void check_taken(struct play *p, const struct kv *before, const struct kv *now) {
  const struct views_options *o = p->o;
  num was = before[VIEW_KEY].create ? before[VIEW_KEY].value : 0, is = now[VIEW_KEY].value;
  for (int i = (int)o->founders; i < (int)(o->founders + o->joiners); i++) {
    if (in_view(was, i) || !in_view(is, i))
      continue;
    uint64_t incarnation = 0;
    enum group_offer_stage stage = GROUP_OFFER_NONE;
    const struct kv *offer = &before[OFFER_KEYS + i];
    const char *text = offer->create ? value_text(offer->value) : "";
    if (!offer->create || group_offer_decode(text, strlen(text), &incarnation, &stage) != 0 ||
        stage != GROUP_OFFER_READY)
      BREAK(p, "member %d is taken in, and its offer is \"%s\"", i, text);
    for (int j = (int)o->founders; j < (int)(o->founders + o->joiners); j++)
      if (!in_view(is, j))
        BREAK(p, "member %d is taken in without member %d", i, j);
    if (o->puts_out && in_view(is, (int)o->founders - 1))
      BREAK(p, "members are taken in, and the one that was to go stays");
    if (p->w.gave_up)
      BREAK(p, "member %d is taken in after the change was given up", i);
  }
}

// Carries out a request of member `from`, and checks its effect.
static void execute(struct play *p, struct request *r, int from) {
  struct world *w = &p->w;
  struct kv before[KEYS];
  memcpy(before, w->store.keys, sizeof before);
  if (r->asked == GROUP_REQUEST_GRANT + 1)
    r->lease = world_highest_lease(w);
  store_execute(&w->store, r, (uint8_t)from);
  const struct kv *now = w->store.keys;
  bool changed = now[VIEW_KEY].mod != before[VIEW_KEY].mod;
  if (changed && before[VIEW_KEY].create && now[VIEW_KEY].create && w->m[from].was_in && !w->emptied &&
      !in_view(before[VIEW_KEY].value, from))
    BREAK(p, "member %d changes the view, in which it is no more", from);
  for (int r2 = 0; r2 < RANKS; r2++) {
    const struct kv *was = &before[CLAIM_KEYS + r2], *is = &now[CLAIM_KEYS + r2];
    if (was->create && is->create && was->value != is->value)
      BREAK(p, "rank %d is claimed while somebody else holds it", r2);
  }
  if (changed && now[VIEW_KEY].create && p->o->offers)
    check_taken(p, before, now);
  if (changed && now[VIEW_KEY].create)
    check_view(p, now[VIEW_KEY].value);
  else if (changed)
    w->forgetful = 1;
  check_claims(p);
}

void member_execute(struct play *p, int i) {
  execute(p, &p->w.m[i].request, i);
}

void late_execute(struct play *p) {
  struct request r = p->w.late;
  int from = p->w.late_from;
  p->w.late = (struct request){0};
  p->w.late_from = 0;
  execute(p, &r, from);
}
