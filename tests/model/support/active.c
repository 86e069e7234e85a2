// The model of the activation rule, as the search (explore.h) drives it.
#include "model/support/active.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/support/active_state.h"

enum step {
  STEP_SEND,
  STEP_RECEIVE,
  STEP_ADOPT,
  STEP_PASS,
  STEP_COLLECT,
  STEP_ANSWER,
  STEP_END,
  STEP_BEGIN,
  STEP_CLOSE,
  STEP_LEARN,
  STEP_REMOVE,
  STEP_JOIN, // this step and the following ones need not happen
  STEP_LEAVE,
  STEP_LEARN_NEWEST,
  STEP_GIVE_UP,
  STEP_MARK,
  STEP_DIE,
};

struct search {
  const struct active_options *o;
  uint32_t ops;
  struct explore *x;
  const struct world *from;
  bool progress; // there was a step that is no fault
  bool settled;  // everything that can still happen has been searched
  uint32_t differ, apart;
};

static uint32_t code(enum step step, int member, uint32_t arg, uint32_t writes) {
  return (uint32_t)step << 24 | (uint32_t)member << 16 | arg << 8 | writes;
}

static void describe(void *arg, uint32_t step, char *text, size_t size) {
  static const char *const names[] = {
      "sends its next operation",
      "receives",
      "adopts the view of",
      "passes over",
      "collects and closes",
      "answers",
      "ends the operation in",
      "begins as a joiner",
      "closes its links",
      "learns view",
      "is removed from the view",
      "joins the view",
      "asks to leave",
      "reads the newest view only",
      "gives up whom it waits for",
      "sets its mark",
      "dies",
  };
  uint32_t kind = step >> 24, member = step >> 16 & 255, other = step >> 8 & 255, writes = step & 255;
  (void)arg;
  int n = snprintf(text, size, "%u %s", member, names[kind]);
  if (kind == STEP_ADOPT || kind == STEP_PASS)
    n += snprintf(text + n, size - (size_t)n, " %u", other);
  if (kind == STEP_END)
    n += snprintf(text + n, size - (size_t)n, " place %u", other);
  if (kind == STEP_LEARN)
    n += snprintf(text + n, size - (size_t)n, " %u", other);
  if (writes)
    snprintf(text + n, size - (size_t)n, ", and dies after %u writes", writes - 1);
}

static void show(void *arg, const uint8_t *state, size_t size) {
  static const char *const op_names[] = {"free",       "sending",   "sent",    "restarting",
                                         "collecting", "answering", "answered"};
  const struct world *w = (const void *)state;
  (void)arg;
  (void)size;
  printf("  views:");
  for (int e = 1; e <= w->newest; e++)
    printf(" %d:%x", e, w->views[e]);
  printf("\n");
  for (int i = 0; i < MEMBERS; i++) {
    const struct member *m = &w->m[i];
    printf(
        "  %d:%s%s knows %x, next op %d in view %d, closes op %d (views %d %d), links closed %x silent %x doubted %x",
        i,
        m->dead      ? " dead"
        : m->started ? ""
                     : " not started",
        m->out ? " out" : "", m->known, m->next_op, m->view, m->op, m->epoch[0], m->epoch[1], m->closed, m->silent,
        m->doubted);
    for (int s = 0; s < DEPTH; s++)
      if (m->ops[s].state)
        printf("; op %d %s in view %d sent %x lost %x", m->ops[s].number, op_names[m->ops[s].state], m->ops[s].view,
               m->ops[s].sent, m->ops[s].lost);
    printf("; closed in");
    for (int n = 0; n < OPS_MAX; n++)
      printf(" %d", m->closed_in[n]);
    printf("\n");
  }
}

// --- What must hold.

static bool runs(const struct member *m) {
  return m->started && !m->dead && !m->out;
}

// Compares the views of the operations that all members have closed, and forgets these views.
static void compare_closed(struct search *s, struct play *p) {
  struct world *w = &p->w;
  for (uint32_t op = 0; op < s->ops; op++) {
    uint8_t first = 0;
    bool all = true, any = false, differ = false;
    for (int i = 0; i < MEMBERS; i++) {
      const struct member *m = &w->m[i];
      bool may_come = !m->dead && !m->started && has(w->joined, i) && !m->out;
      for (int j = 0; may_come && j < MEMBERS; j++)
        all &= !w->way[j][i].start || w->way[j][i].start > op + 1;
      if (!runs(m))
        continue;
      all &= m->op > op;
      uint8_t epoch = m->closed_in[op];
      if (epoch == 0 || epoch == 255)
        continue;
      any = true;
      differ |= first && first != epoch && has(w->views[w->newest], i);
      first = first ? first : epoch;
    }
    if (!all)
      return;
    if (!any)
      continue;
    w->differ += differ;
    for (int i = 0; i < MEMBERS; i++)
      w->m[i].closed_in[op] = w->m[i].dead || !w->m[i].closed_in[op] ? 0 : 255;
  }
}

// Forgets the operations that members closed before they were out, and compares the others.
static void tidy(struct search *s, struct play *p) {
  for (int i = 0; i < MEMBERS; i++)
    if (p->w.m[i].out)
      memset(p->w.m[i].closed_in, 0, sizeof p->w.m[i].closed_in);
  compare_closed(s, p);
}

static const char *check_end(struct search *s) {
  const struct world *w = s->from;
  static char why[160];
  uint8_t low = 255, high = 0;
  bool any = false;
  for (int i = 0; i < MEMBERS; i++)
    any |= runs(&w->m[i]);
  for (int i = 0; i < MEMBERS; i++) {
    const struct member *m = &w->m[i];
    bool in = has(w->views[w->newest], i);
    if (any && in && !m->dead && !m->started) {
      snprintf(why, sizeof why, "member %d is in the view and is never sent its first operation", i);
      return why;
    }
    if (!runs(m))
      continue;
    if (m->op < s->ops && !s->settled) {
      snprintf(why, sizeof why, "member %d waits for ever in operation %d", i, m->op);
      return why;
    }
    if (m->view != w->newest || !in) {
      snprintf(why, sizeof why, "member %d ends in view %d, and the newest is %d", i, m->view, w->newest);
      return why;
    }
    low = m->learned < low ? m->learned : low;
    high = m->learned > high ? m->learned : high;
  }
  if (w->differ > s->differ)
    s->differ = w->differ;
  if (low != 255 && low && high - low > (int)s->apart)
    s->apart = high - low;
  int apart = low != 255 && low ? high - low : 0;
  if (s->o->marks && !w->gives_up && apart > (w->crashes > 0)) {
    snprintf(why, sizeof why, "members learn the mark %d operations apart, after %d deaths", apart, w->crashes);
    return why;
  }
  if (w->differ > s->o->differ) {
    snprintf(why, sizeof why, "%d operations ended in different views, after %d deaths and %d deadlines", w->differ,
             w->crashes, w->gives_up);
    return why;
  }
  return NULL;
}

// --- Steps.

static void report(struct search *s, struct play *p, uint32_t step) {
  bool fault = step >> 24 >= STEP_JOIN || (step & 255);
  if (!p->broken[0])
    tidy(s, p);
  s->progress |= !fault;
  explore_step(s->x, step, fault, (const uint8_t *)&p->w, sizeof p->w, p->broken[0] ? p->broken : NULL);
}

static struct play begin(const struct search *s) {
  return (struct play){.w = *s->from, .o = s->o, .ops = s->ops, .writes_left = -1};
}

static bool may_fault(const struct search *s) {
  for (int i = 0; i < MEMBERS; i++)
    if (s->from->m[i].next_op > s->o->last)
      return false;
  return true;
}

static bool may_die(const struct search *s, int i) {
  return s->from->crashes < s->o->crashes && may_fault(s) && (!s->o->mortal || has(s->o->mortal, i));
}

static bool act(struct play *p, enum step step, int i, uint32_t arg) {
  switch (step) {
  case STEP_SEND:
    return member_send(p, i);
  case STEP_RECEIVE:
    return member_receive(p, i);
  case STEP_ADOPT:
    return member_adopt(p, i, (int)arg);
  case STEP_PASS:
    return member_pass(p, i, (int)arg);
  case STEP_COLLECT:
    return member_collect(p, i);
  case STEP_ANSWER:
    return member_answer(p, i);
  case STEP_END:
    return member_end(p, i, arg);
  case STEP_BEGIN:
    return member_begin(p, i);
  case STEP_GIVE_UP:
    p->w.gives_up++;
    return member_give_up(p, i);
  default:
    return false;
  }
}

// Whether this step of `i` is the only one that the search has to take now: only `i` reads its effect, or it only lets
// members continue that would wait for it, and no step that others take before it changes its effect.
static bool is_first(const struct search *s, const struct play *after, enum step step, int i) {
  const struct member *was = &s->from->m[i], *is = &after->w.m[i];
  const struct op *op = &was->ops[was->op % DEPTH];
  if (after->broken[0])
    return false;
  if (step == STEP_END)
    return was->closed == is->closed;
  if (step == STEP_RECEIVE)
    return op->state == OP_SENT && is->ops[was->op % DEPTH].state == OP_COLLECTING &&
           op->sent == is->ops[was->op % DEPTH].sent && op->view == is->ops[was->op % DEPTH].view;
  if (s->from->gives_up < s->o->gives_up && may_fault(s))
    return false; // a member that waits for this step may give up first
  return step == STEP_ANSWER || (step == STEP_COLLECT && was->op + 1 == is->op && after->all_came);
}

// Takes a step of a member, and the same step with the member's death before each write. A death before the first write
// equals a death before the step, which is tried separately unless `only_first`.
static bool try_step(struct search *s, enum step step, int i, uint32_t arg, bool only_first) {
  struct play p = begin(s);
  bool did = act(&p, step, i, arg);
  if ((!did && !p.broken[0]) || (only_first && !is_first(s, &p, step, i)))
    return false;
  report(s, &p, code(step, i, arg, 0));
  for (int writes = !only_first; did && may_die(s, i) && step != STEP_GIVE_UP; writes++) {
    p = begin(s);
    p.writes_left = writes;
    act(&p, step, i, arg);
    if (!p.died)
      break;
    member_die(&p, i);
    report(s, &p, code(step, i, arg, (uint32_t)writes + 1));
  }
  return true;
}

static void commit(struct world *w, uint8_t members) {
  w->views[++w->newest] = members;
}

// Whether a member of the newest view has reason to report `j`.
static bool is_suspect(const struct world *w, int j) {
  if (w->m[j].dead)
    return true;
  for (int i = 0; i < MEMBERS; i++)
    if (i != j && !w->m[i].dead && !w->m[i].out && has(w->views[w->newest], i) &&
        (has(w->m[j].closed, i) || has(w->m[i].silent, j)))
      return true;
  return false;
}

static void try_store(struct search *s, int i) {
  const struct world *w = s->from;
  struct play p = begin(s);
  uint8_t now = w->views[w->newest];
  if (w->newest + 1 >= VIEWS || s->o->down)
    return;
  if (has(now, i) && is_suspect(w, i)) {
    commit(&p.w, now & ~(1u << i));
    report(s, &p, code(STEP_REMOVE, i, 0, 0));
    return;
  }
  if (!may_fault(s) || w->newest + 3 >= VIEWS)
    return;
  if (i >= (int)s->o->founders && i < (int)(s->o->founders + s->o->joiners) && !has(w->joined, i) && !w->m[i].dead &&
      now) {
    commit(&p.w, now | 1u << i);
    p.w.joined |= 1u << i;
    p.w.m[i].known = 1u << w->newest;
    report(s, &p, code(STEP_JOIN, i, 0, 0));
  }
  if (w->m[i].leaver == 1 && runs(&w->m[i]) && has(now, i)) {
    commit(&p.w, now & ~(1u << i));
    p.w.m[i].leaver = 2;
    report(s, &p, code(STEP_LEAVE, i, 0, 0));
  }
}

static void try_news(struct search *s, int i) {
  const struct world *w = s->from;
  const struct member *m = &w->m[i];
  uint8_t known = newest_known(m);
  if (m->dead || m->out || !has(w->joined, i) || known >= w->newest)
    return;
  struct play p = begin(s);
  p.w.m[i].known |= 1u << (known + 1);
  report(s, &p, code(STEP_LEARN, i, known + 1u, 0));
  if (known + 1 >= w->newest || w->gaps >= s->o->gaps || !may_fault(s))
    return;
  p = begin(s);
  p.w.m[i].known |= 1u << w->newest;
  p.w.gaps++;
  report(s, &p, code(STEP_LEARN_NEWEST, i, 0, 0));
}

// Ends a joiner that was put out before it began, or a member that is out.
static void try_close(struct search *s, int i) {
  const struct member *m = &s->from->m[i];
  struct play p = begin(s);
  bool never = !m->started && !m->dead && !m->out && has(s->from->joined, i) && newest_known(m) == s->from->newest &&
               !has(s->from->views[s->from->newest], i);
  if (never)
    p.w.m[i].out = 1;
  else if (!m->out || m->closed == 0xf)
    return;
  else
    p.w.m[i].closed = 0xf;
  for (uint32_t o = 0; o < DEPTH; o++)
    p.w.m[i].ops[o] = (struct op){0};
  report(s, &p, code(STEP_CLOSE, i, 0, 0));
}

static void try_faults(struct search *s, int i) {
  const struct member *m = &s->from->m[i];
  struct play p = begin(s);
  if (!runs(m) && !(has(s->from->joined, i) && !m->dead && !m->out))
    return;
  if (may_die(s, i)) {
    member_die(&p, i);
    report(s, &p, code(STEP_DIE, i, 0, 0));
  }
  if (s->from->gives_up < s->o->gives_up && may_fault(s) && runs(m))
    try_step(s, STEP_GIVE_UP, i, 0, false);
  p = begin(s);
  if (s->o->marks && !m->mark && runs(m)) {
    p.w.m[i].mark = 1;
    report(s, &p, code(STEP_MARK, i, 0, 0));
  }
}

static void try_member(struct search *s, int i) {
  if (s->from->m[i].dead || !has(s->from->joined, i))
    return;
  bool out = s->from->m[i].out;
  for (enum step step = STEP_SEND; step <= STEP_BEGIN && !out; step++) {
    uint32_t args = step == STEP_ADOPT || step == STEP_PASS ? MEMBERS : step == STEP_END ? DEPTH : 1;
    for (uint32_t arg = 0; arg < args; arg++)
      try_step(s, step, i, arg, false);
  }
  try_close(s, i);
}

// Takes a step that makes all other steps from this state needless. False: there is none.
static bool try_first(struct search *s) {
  for (int i = 0; i < MEMBERS; i++) {
    if (s->from->m[i].dead || s->from->m[i].out)
      continue;
    for (uint32_t slot = 0; slot < DEPTH; slot++)
      if (try_step(s, STEP_END, i, slot, true))
        return true;
    if (try_step(s, STEP_RECEIVE, i, 0, true) || try_step(s, STEP_ANSWER, i, 0, true) ||
        try_step(s, STEP_COLLECT, i, 0, true))
      return true;
  }
  return false;
}

// Whether all running members have set their marks, and some have not learnt that yet.
static bool mark_is_coming(const struct world *w) {
  bool all = true, some = false;
  for (int i = 0; i < MEMBERS; i++) {
    all &= !runs(&w->m[i]) || w->m[i].mark;
    some |= runs(&w->m[i]) && !w->m[i].learned;
  }
  return all && some;
}

// Whether all members run in the newest view, their views cannot differ any more, and no member waits for anything that
// does not arrive. The rest is then the scenario without faults, which is searched separately.
static bool is_settled(const struct search *s) {
  const struct world *w = s->from;
  struct play p = begin(s);
  if (s->o->whole || may_fault(s) || !play_is_calm(&p) || mark_is_coming(w))
    return false;
  for (int i = 0; i < MEMBERS; i++) {
    const struct member *m = &w->m[i];
    if (has(w->joined, i) && !m->dead && !m->out && !has(w->views[w->newest], i))
      return false;
    if (m->dead || m->out || !has(w->joined, i))
      continue;
    if (!m->started || m->view != w->newest || m->epoch[0] != w->newest || m->epoch[1] != w->newest)
      return false;
    for (int o = 0; o < DEPTH; o++)
      if (m->ops[o].state != OP_FREE && m->ops[o].view != w->newest)
        return false;
    for (int j = 0; j < MEMBERS; j++)
      for (int o = 0; j != i && has(w->views[w->newest], j) && o < DEPTH; o++)
        if ((w->way[i][j].sent[o] > w->way[i][j].taken[o] && w->way[i][j].sent[o] <= w->m[j].op && !w->m[j].dead) ||
            (is_down(w, i, j) && !s->o->down))
          return false;
  }
  return true;
}

static void expand(struct explore *x, void *arg, const uint8_t *state, size_t size) {
  struct search *s = arg;
  struct world from;
  memcpy(&from, state, size < sizeof from ? size : sizeof from);
  s->x = x;
  s->from = &from;
  s->progress = s->settled = false;
  if (is_settled(s))
    s->settled = true;
  else if (try_first(s))
    return;
  for (int i = 0; i < MEMBERS && !s->settled; i++) {
    try_member(s, i);
    try_store(s, i);
    try_news(s, i);
    try_faults(s, i);
  }
  if (s->progress)
    return;
  const char *why = check_end(s);
  if (why)
    explore_broken(x, why);
  explore_end(x);
}

struct active_result active_run(const struct active_options *options) {
  struct search s = {.o = options, .ops = options->last + CALM};
  struct explore_model model = {.name = "activation", .arg = &s, .expand = expand, .describe = describe, .show = show};
  struct world start;
  memset(&start, 0, sizeof start);
  start.newest = 1;
  start.views[1] = start.joined = (uint8_t)((1u << options->founders) - 1);
  for (uint32_t i = 0; i < options->founders; i++) {
    struct member *m = &start.m[i];
    m->started = m->view = m->epoch[0] = m->epoch[1] = 1;
    m->known = 1u << 1;
    m->lowest = 255;
    m->leaver = i + options->leavers >= options->founders;
  }
  if (options->early) {
    start.views[++start.newest] = start.joined = (uint8_t)((1u << (options->founders + options->joiners)) - 1);
    for (uint32_t i = 0; i < options->joiners; i++)
      start.m[options->founders + i].known = 1u << 2;
  }
  struct explore_result result = explore_run(&model, (const uint8_t *)&start, sizeof start,
                                             (struct explore_limits){.states = options->states}, options->quiet);
  return (struct active_result){.explore = result, .differ = s.differ, .apart = s.apart};
}
