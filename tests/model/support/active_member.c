// The decisions of a rank's owner, as in dispatch_send.c, recv_headers.c, dispatch_recv.c, activate.c, operation.c and
// combine_recv.c of src/ep.
#include <stdio.h>
#include <string.h>

#include "model/support/active_state.h"

static struct ep_activation activation_of(const struct member *m) {
  return (struct ep_activation){
      .op = m->op, .epoch = {m->epoch[0], m->epoch[1]}, .lowest = m->lowest == 255 ? UINT64_MAX : m->lowest, .step = 1};
}

static void keep_activation(struct member *m, const struct ep_activation *a) {
  m->op = (uint8_t)a->op;
  m->epoch[0] = (uint8_t)a->epoch[0];
  m->epoch[1] = (uint8_t)a->epoch[1];
  m->lowest = a->lowest == UINT64_MAX ? 255 : (uint8_t)a->lowest;
}

static void adopt_epoch(struct member *m, uint8_t epoch) {
  struct ep_activation a = activation_of(m);
  ep_activation_adopt(&a, epoch);
  keep_activation(m, &a);
}

static void receive_ready(struct member *m, uint8_t ready) {
  struct ep_activation a = activation_of(m);
  ep_activation_receive(&a, ready);
  keep_activation(m, &a);
}

// Has to be called before each write that others can see. False: the member dies instead.
static bool writes(struct play *p) {
  if (p->writes_left == 0)
    p->died = true;
  else if (p->writes_left > 0)
    p->writes_left--;
  return !p->died;
}

void member_die(struct play *p, int i) {
  struct world *w = &p->w;
  memset(&w->m[i], 0, sizeof w->m[i]);
  w->m[i].dead = 1;
  w->crashes++;
  for (int j = 0; j < MEMBERS; j++) {
    memset(&w->way[j][i], 0, sizeof w->way[j][i]);
    memset(w->way[i][j].sent, 0, sizeof w->way[i][j].sent);
    memset(w->way[i][j].answer_sent, 0, sizeof w->way[i][j].answer_sent);
  }
}

static void send_start(struct play *p, int i, int to, uint8_t op, uint8_t epoch) {
  struct way *way = &p->w.way[i][to];
  if (!ep_activation_must_publish(way->start, op) || !writes(p) || p->w.m[to].dead)
    return;
  way->start = (uint8_t)(op + 1);
  way->start_epoch = epoch;
}

// Notifies each member of `next` that is not in `now`.
static void notify_joiners(struct play *p, int i, uint8_t now, uint8_t next, uint8_t op) {
  for (int j = 0; j < MEMBERS; j++)
    if (j != i && has(p->w.views[next], j) && !(now && has(p->w.views[now], j)) && !is_down(&p->w, i, j))
      send_start(p, i, j, op, next);
}

static void follow(struct play *p, int i) {
  struct member *m = &p->w.m[i];
  struct ep_activation a = activation_of(m);
  uint8_t newest = m->op + 1;
  uint8_t epoch = (uint8_t)ep_activation_epoch(&a, m->next_op < newest ? m->next_op : newest);
  uint8_t view = epoch > m->view ? find_view(m, epoch) : 0;
  if (view)
    m->view = view;
}

// --- send ---

static void set_view(struct play *p, int i, struct op *op, uint8_t view) {
  struct member *m = &p->w.m[i];
  uint8_t fresh = p->w.views[view] & ~op->members;
  op->view = view;
  op->members = p->w.views[view];
  op->sent &= op->members;
  op->lost &= op->members;
  op->rows &= op->members;
  op->linked &= op->members;
  for (int j = 0; j < MEMBERS; j++) {
    if (!has(fresh, j) || j == i)
      continue;
    const struct way *way = &p->w.way[i][j];
    uint8_t start_sent = way->start ? way->sent[(way->start - 1) % DEPTH] : 0;
    bool missed = ep_activation_missed(op->number, way->start, start_sent) && p->o->mutation != ACTIVE_NO_MISS;
    if (is_down(&p->w, i, j)) {
      op->lost |= 1u << j;
      continue;
    }
    op->lost |= missed ? 1u << j : 0;
    op->linked |= 1u << j;
    m->was_active |= 1u << j;
  }
  op->sent |= 1u << i;
}

// Whether the peer has taken the earlier header in the operation's slot: 0 no, 1 yes, -1 the peer is gone.
static int slot_free(const struct play *p, int i, int j, uint8_t number) {
  const struct way *way = &p->w.way[i][j];
  uint32_t slot = number % DEPTH;
  if (way->taken[slot] >= way->sent[slot])
    return 1;
  return is_down(&p->w, i, j) ? -1 : 0;
}

static void raise(struct play *p, int i, int j, struct op *op, bool rows) {
  struct way *way = &p->w.way[i][j];
  uint32_t slot = op->number % DEPTH;
  if (!writes(p))
    return;
  op->sent |= 1u << j;
  if (p->w.m[j].dead)
    return;
  way->slot[slot] =
      (struct header){.flag = op->number + 1, .active = op->view, .ready = op->ready, .mark = op->mark, .rows = rows};
  way->sent[slot] = op->number + 1;
  op->rows |= rows ? 1u << j : 0;
}

static uint8_t count(uint8_t set) {
  return (uint8_t)__builtin_popcount(set);
}

// The order of sends: the members after this one, then the members before it.
static int in_turn(int i, uint8_t place) {
  return (i + place) % MEMBERS;
}

// Continues the sends, up to a peer whose slot is not free.
static bool go_on_sending(struct play *p, int i, struct op *op) {
  uint8_t from = op->next;
  for (; op->next < MEMBERS; op->next++) {
    int j = in_turn(i, op->next);
    if (!has(op->members, j) || has(op->lost, j))
      continue;
    int is_free = slot_free(p, i, j, op->number);
    if (is_free == 0)
      return op->next > from;
    if (is_free < 0)
      op->lost |= 1u << j;
    else
      raise(p, i, j, op, true);
    if (p->died)
      return true;
  }
  op->next = 0;
  op->state = OP_SENT;
  p->w.m[i].next_op++;
  return true;
}

// Whether this member knows that it was put out, and no member of its view has a link to it any more.
static bool is_fenced(const struct play *p, int i) {
  const struct member *m = &p->w.m[i];
  uint8_t newest = newest_known(m);
  if (m->leaver == 2 || has(p->w.views[newest], i) || m->view > newest)
    return false;
  for (int j = 0; j < MEMBERS; j++)
    if (j != i && has(p->w.views[m->view], j) && !is_down(&p->w, i, j))
      return false;
  return true;
}

// Once all members know everything, nothing more happens, and operations continue until all members must agree.
bool play_is_calm(const struct play *p) {
  const struct world *w = &p->w;
  for (int i = 0; i < MEMBERS; i++) {
    const struct member *m = &w->m[i];
    bool in = has(w->views[w->newest], i);
    if (in && m->dead && !p->o->down)
      return false;
    if (!m->dead && !m->out && (in || m->started) && newest_known(m) < w->newest)
      return false;
    for (int j = 0; in && j < MEMBERS; j++)
      if (j != i && has(w->views[w->newest], j) && is_down(w, i, j) && !has(m->doubted, j) && !p->o->down)
        return false; // this will be reported
  }
  return true;
}

bool member_send(struct play *p, int i) {
  struct member *m = &p->w.m[i];
  struct op *op = &m->ops[m->next_op % DEPTH];
  if (op->state == OP_SENDING)
    return go_on_sending(p, i, op);
  if (!m->started || m->out || op->state != OP_FREE || m->next_op >= p->ops)
    return false;
  if (p->o->one_by_one && m->ops[(m->next_op + 1) % DEPTH].state != OP_FREE)
    return false;
  if (m->next_op > p->o->last && !play_is_calm(p))
    return false;
  follow(p, i);
  if (!has(p->w.views[m->view], i) || is_fenced(p, i)) {
    m->out = 1;
    return true;
  }
  *op = (struct op){.state = OP_SENDING, .number = m->next_op, .ready = newest_known(m), .mark = m->mark, .next = 1};
  set_view(p, i, op, m->view);
  go_on_sending(p, i, op);
  return true;
}

// --- receive ---

static bool restart(struct play *p, int i, struct op *op) {
  for (int j = 0; j < MEMBERS; j++) {
    if (j == i || !has(op->members, j) || has(op->sent | op->lost, j))
      continue;
    int is_free = slot_free(p, i, j, op->number);
    if (is_free == 0)
      return false;
    if (is_free < 0) {
      op->lost |= 1u << j;
      continue;
    }
    if (p->o->mutation != ACTIVE_NO_NOTIFY)
      send_start(p, i, j, op->number, op->view);
    raise(p, i, j, op, false);
    if (p->died)
      return true;
  }
  op->state = OP_COLLECTING;
  return true;
}

static struct op *receiving(struct play *p, int i) {
  struct member *m = &p->w.m[i];
  return m->started && m->op < p->ops ? &m->ops[m->op % DEPTH] : NULL;
}

bool member_receive(struct play *p, int i) {
  struct member *m = &p->w.m[i];
  struct op *op = receiving(p, i);
  if (!op || op->number != m->op || (op->state != OP_SENT && op->state != OP_RESTARTING))
    return false;
  struct op before = *op;
  struct ep_activation a = activation_of(m);
  uint8_t epoch = (uint8_t)ep_activation_epoch(&a, op->number);
  if (op->state == OP_SENT && epoch > op->view && p->o->mutation != ACTIVE_NO_CATCH_UP) {
    uint8_t view = find_view(m, epoch);
    if (view && has(p->w.views[view], i)) {
      adopt_epoch(m, view);
      set_view(p, i, op, view);
    }
  }
  op->state = OP_RESTARTING;
  receive_ready(m, op->ready);
  restart(p, i, op);
  return p->died || memcmp(&before, op, sizeof before) != 0;
}

static enum ep_look look_at(struct play *p, int i, int from, const struct op *op) {
  const struct way *way = &p->w.way[from][i];
  uint8_t flag = way->slot[op->number % DEPTH].flag;
  uint8_t start_flag = way->start ? way->slot[(way->start - 1) % DEPTH].flag : 0;
  enum ep_look look = ep_activation_look(op->number, is_down(&p->w, i, from), flag, way->start, start_flag);
  if (look == EP_LOOK_RECEIVE && flag != op->number + 1)
    snprintf(p->broken, sizeof p->broken, "member %d finds the header of operation %d of member %d overwritten", i,
             op->number, from);
  if (look == EP_LOOK_PASS && p->o->mutation == ACTIVE_NO_PASS)
    return flag > op->number ? EP_LOOK_RECEIVE : is_down(&p->w, i, from) ? EP_LOOK_LOSE : EP_LOOK_WAIT;
  return look;
}

static bool is_awaited(const struct op *op, int i, int j) {
  return j != i && has(op->members, j) && !has(op->lost, j);
}

static bool is_newer(const struct play *p, int i, int from, const struct op *op) {
  return p->o->mutation != ACTIVE_NO_ADOPTION && p->w.way[from][i].slot[op->number % DEPTH].active > op->view;
}

static void pass_over(struct play *p, int i, int j, struct op *op) {
  p->w.way[i][j].sent[op->number % DEPTH] = 0;
  op->sent &= ~(1u << j);
  op->rows &= ~(1u << j);
  op->lost |= 1u << j;
}

bool member_adopt(struct play *p, int i, int from) {
  struct member *m = &p->w.m[i];
  struct op *op = receiving(p, i);
  if (!op || op->state != OP_COLLECTING || !is_awaited(op, i, from) || look_at(p, i, from, op) != EP_LOOK_RECEIVE ||
      !is_newer(p, i, from, op))
    return false;
  uint8_t view = find_view(m, p->w.way[from][i].slot[op->number % DEPTH].active);
  if (!view)
    return false; // waits until the store sends the view
  adopt_epoch(m, view);
  receive_ready(m, op->ready);
  if (!has(p->w.views[view], i)) {
    pass_over(p, i, from, op);
    return true;
  }
  set_view(p, i, op, view);
  op->state = OP_RESTARTING;
  restart(p, i, op);
  return true;
}

bool member_pass(struct play *p, int i, int from) {
  struct op *op = receiving(p, i);
  if (!op || op->state != OP_COLLECTING || !is_awaited(op, i, from) || look_at(p, i, from, op) != EP_LOOK_PASS)
    return false;
  pass_over(p, i, from, op);
  return true;
}

// Reads all headers of members of the view that have arrived. Returns these members.
static uint8_t receive_all(struct play *p, int i, struct op *op) {
  struct member *m = &p->w.m[i];
  uint8_t received = 0, mark = op->mark;
  p->all_came = true;
  for (int j = 0; j < MEMBERS; j++) {
    if (!is_awaited(op, i, j))
      continue;
    struct way *way = &p->w.way[j][i];
    const struct header *head = &way->slot[op->number % DEPTH];
    if (look_at(p, i, j, op) != EP_LOOK_RECEIVE) {
      p->all_came = false;
      op->lost |= 1u << j;
      continue;
    }
    received |= 1u << j;
    receive_ready(m, head->ready);
    mark = head->mark < mark ? head->mark : mark;
    way->taken[op->number % DEPTH] = op->number + 1;
    op->answers |= head->rows ? 1u << j : 0;
  }
  if (mark && !m->learned)
    m->learned = op->number + 1;
  return received;
}

static void check_step(struct play *p, int i, const struct op *op) {
  struct member *m = &p->w.m[i];
  if (op->number % p->o->step != 0 && m->before && m->before != op->view && !p->broken[0])
    snprintf(p->broken, sizeof p->broken,
             "member %d ends operation %d in view %d, and the one before, of this step, in %d", i, op->number, op->view,
             m->before);
  m->before = op->view;
}

static void close_op(struct play *p, int i, struct op *op) {
  struct member *m = &p->w.m[i];
  struct ep_activation a = activation_of(m);
  if (p->o->step) {
    check_step(p, i, op);
    a.step = p->o->step;
  }
  m->closed_in[op->number] = op->view;
  uint8_t decided = (uint8_t)ep_activation_close(&a);
  keep_activation(m, &a);
  uint8_t next = decided ? find_view(m, decided) : 0;
  bool takes_effect = next && (next == decided || has(p->w.views[next], i) || p->o->mutation == ACTIVE_NOTIFY_ANY);
  if (takes_effect)
    notify_joiners(p, i, m->view, next, op->number + EP_ACTIVATION_LEAD);
  follow(p, i);
}

bool member_collect(struct play *p, int i) {
  struct op *op = receiving(p, i);
  if (!op || op->state != OP_COLLECTING)
    return false;
  for (int j = 0; j < MEMBERS; j++) {
    if (!is_awaited(op, i, j))
      continue;
    enum ep_look look = look_at(p, i, j, op);
    bool waits = look == EP_LOOK_WAIT && p->o->mutation != ACTIVE_EARLY_CLOSE;
    if (waits || look == EP_LOOK_PASS || (look == EP_LOOK_RECEIVE && is_newer(p, i, j, op)))
      return false;
  }
  receive_all(p, i, op);
  close_op(p, i, op);
  op->state = OP_ANSWERING;
  if (!p->died)
    member_answer(p, i);
  return true;
}

// --- combine ---

bool member_answer(struct play *p, int i) {
  bool did = false;
  for (uint32_t s = 0; s < DEPTH; s++) {
    struct op *op = &p->w.m[i].ops[s];
    if (op->state != OP_ANSWERING)
      continue;
    for (int j = 0; j < MEMBERS; j++) {
      struct way *way = &p->w.way[i][j];
      if (!has(op->answers, j))
        continue;
      if (way->answer_taken[s] < way->answer_sent[s] && !is_down(&p->w, i, j))
        return did;
      did = true;
      op->answers &= ~(1u << j);
      if (!writes(p))
        return true;
      if (p->w.m[j].dead)
        continue;
      way->answer[s] = way->answer_sent[s] = op->number + 1;
    }
    op->state = OP_ANSWERED;
    did = true;
  }
  return did;
}

static bool uses(const struct member *m, int j) {
  for (uint32_t s = 0; s < DEPTH; s++)
    if (m->ops[s].state != OP_FREE && has(m->ops[s].linked, j))
      return true;
  return false;
}

static void sweep(struct play *p, int i) {
  struct member *m = &p->w.m[i];
  for (int j = 0; j < MEMBERS; j++) {
    bool needless = is_down(&p->w, i, j) || (has(m->was_active, j) && !has(p->w.views[m->view], j));
    if (j != i && needless && !uses(m, j))
      m->closed |= 1u << j;
  }
}

bool member_end(struct play *p, int i, uint32_t s) {
  struct op *op = &p->w.m[i].ops[s];
  if (op->state != OP_ANSWERED)
    return false;
  for (int j = 0; j < MEMBERS; j++) {
    const struct way *way = &p->w.way[j][i];
    if (j != i && has(op->rows & op->sent, j) && way->answer[s] < op->number + 1 && !is_down(&p->w, i, j))
      return false;
  }
  for (int j = 0; j < MEMBERS; j++)
    if (j != i && has(op->rows & op->sent, j) && p->w.way[j][i].answer[s] == op->number + 1)
      p->w.way[j][i].answer_taken[s] = op->number + 1;
  *op = (struct op){0};
  sweep(p, i);
  return true;
}

// --- a joiner; a deadline ---

bool member_begin(struct play *p, int i) {
  struct member *m = &p->w.m[i];
  uint8_t first = 255, epoch = 0;
  if (m->dead || m->started || m->out || !has(p->w.joined, i))
    return false;
  for (int j = 0; j < MEMBERS; j++) {
    const struct way *way = &p->w.way[j][i];
    if (j == i || is_down(&p->w, i, j) || !way->start || way->start > first)
      continue;
    first = way->start;
    epoch = way->start_epoch;
  }
  uint8_t view = first == 255 ? 0 : find_view(m, epoch);
  if (!view || first > p->ops)
    return false;
  struct ep_activation a;
  ep_activation_init(&a, first - 1u, view, 1);
  keep_activation(m, &a);
  m->started = 1;
  m->next_op = first - 1;
  m->view = view;
  for (int e = 1; e < view && p->o->mutation != ACTIVE_KEEP_LINKS; e++)
    m->was_active |= has(m->known, e) ? p->w.views[e] & ~(1u << i) : 0;
  if (p->o->mutation != ACTIVE_NO_NOTIFY)
    notify_joiners(p, i, 0, view, first - 1);
  return true;
}

static bool give_up_collecting(struct play *p, int i, struct op *op) {
  struct member *m = &p->w.m[i];
  uint8_t silent = 0, unknown = 0;
  for (int j = 0; j < MEMBERS; j++) {
    if (!is_awaited(op, i, j))
      continue;
    enum ep_look look = look_at(p, i, j, op);
    silent |= look == EP_LOOK_WAIT ? 1u << j : 0;
    unknown |= look == EP_LOOK_RECEIVE && is_newer(p, i, j, op) ? 1u << j : 0;
  }
  if (!silent && !unknown)
    return false;
  if (ep_activation_isolated(count(silent), count(op->members)))
    m->doubted |= silent;
  else
    m->silent |= silent;
  m->doubted |= unknown;
  op->lost |= silent | unknown;
  return true;
}

static bool give_up_answer(struct play *p, int i) {
  struct member *m = &p->w.m[i];
  for (uint32_t s = 0; s < DEPTH; s++)
    for (int j = 0; j < MEMBERS; j++) {
      const struct op *op = &m->ops[s];
      bool awaits = op->state == OP_ANSWERED && j != i && has(op->rows & op->sent, j) &&
                    p->w.way[j][i].answer[s] < op->number + 1 && !is_down(&p->w, i, j);
      if (awaits) {
        m->silent |= 1u << j;
        return true;
      }
    }
  return false;
}

bool member_give_up(struct play *p, int i) {
  struct member *m = &p->w.m[i];
  for (uint32_t s = 0; s < DEPTH; s++) {
    struct op *op = &m->ops[s];
    if (op->state == OP_SENDING) {
      int j = in_turn(i, op->next);
      m->silent |= 1u << j;
      return true;
    }
    if (op->state == OP_RESTARTING) {
      for (int j = 0; j < MEMBERS; j++)
        if (is_awaited(op, i, j) && !has(op->sent, j)) {
          m->silent |= 1u << j;
          return true;
        }
    }
    if (op->state == OP_COLLECTING && give_up_collecting(p, i, op))
      return true;
  }
  return give_up_answer(p, i);
}
