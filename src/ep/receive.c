// dispatch_recv: hear every member, lay out its rows, decide what comes next.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/text.h"
#include "base/trace.h"
#include "ep/gpu.h"
#include "ep/remote.h"
#include "group/view.h"

struct hearing {
  uint64_t deadline_ns;
  const struct weft_ep_recv *recv;
  uint32_t next;    // member whose rows are laid out next
  uint32_t pending; // members not heard and not lost
  uint64_t mark;
  uint32_t last;       // member that was heard last
  uint32_t extensions; // of the deadline, for those who wait in turn
  struct ep_pause pause;
};

static struct ep_dispatch_head *head_of(weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member) {
  return &ep_slot(&ep->layout, member->link->in.memory, op->number)->dispatch;
}

int ep_check_recv(const weft_ep_t *ep, const struct weft_ep_recv *recv, const struct weft_ep_info *info) {
  if (!recv || recv->size != sizeof *recv)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: initialise the buffers with WEFT_EP_RECV_INIT");
  if (recv->layout != WEFT_EP_PER_EXPERT && recv->layout != WEFT_EP_RANK_MAJOR)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: layout %d is none", (int)recv->layout);
  if (!recv->counts || (recv->rows > 0 && !recv->x && !recv->rows_at))
    return fail(WEFT_ERR_INVALID, "dispatch_recv: %s is NULL", recv->counts ? "x" : "counts");
  if (recv->x && recv->rows_at)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: x and rows_at are both given: rows are either copied or in place");
  if (recv->x && recv->rows > 0 && ep->dtype != WEFT_EP_BF16 && !recv->scales)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: scales is NULL, and the group dispatches fp8");
  uint64_t parts = recv->layout == WEFT_EP_PER_EXPERT ? ep->experts_per_rank : 1;
  if (recv->rows * parts > INT32_MAX)
    return fail(WEFT_ERR_INVALID,
                "dispatch_recv: %u rows in each of %llu parts are more than the %d that can be numbered", recv->rows,
                (unsigned long long)parts, INT32_MAX);
  if (info && info->size != sizeof *info)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: initialise the info with WEFT_EP_INFO_INIT");
  return 0;
}

// Starts the hearing of this operation's members again, from the first.
static void restart(weft_ep_t *ep, struct ep_op *op, struct hearing *hearing) {
  hearing->next = 0;
  hearing->pending = 0;
  hearing->mark = op->mark;
  hearing->last = op->self;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    member->heard = i == op->self;
    member->rows_in = i == op->self ? member->rows_out : 0;
    if (!member->sent && !member->lost)
      ep_send_empty(ep, op, member, hearing->deadline_ns);
    hearing->pending += !member->heard && !member->lost;
  }
  ep_activation_hear(&ep->activation, op->ready);
  ep_expand_begin(ep, hearing->recv);
}

// Changes to `view` in the middle of the operation; those who were heard are heard again.
static void adopt(weft_ep_t *ep, struct ep_op *op, const struct group_view *view, struct hearing *hearing) {
  ep_activation_adopt(&ep->activation, view->epoch);
  ep_op_set_view(ep, op, view);
  ep_emit(ep, WEFT_EP_EVENT_ACTIVATED, -1, 0, view->epoch, op->number, "adopted from a rank that runs in it");
  restart(ep, op, hearing);
}

// An operation that was sent before the one before it adopted a newer view: it runs in that one too. Its joiners wait
// for this rank's header, and may be the only ones that would tell.
static void catch_up(weft_ep_t *ep, struct ep_op *op) {
  uint64_t epoch = ep_activation_epoch(&ep->activation, op->number);
  if (epoch <= op->view->epoch)
    return;
  const struct group_view *view = ep_views_find(ep, epoch);
  if (group_view_has(view, ep->rank, ep->incarnation)) {
    ep_activation_adopt(&ep->activation, view->epoch);
    ep_op_set_view(ep, op, view);
  }
  group_view_unref(view);
}

// The member's header is there, or will not come. Hearing it again, in a newer view, is no second wait.
static void note_wait(struct ep_member *member, const struct hearing *hearing) {
  if (hearing->pause.since_ns == 0)
    return;
  uint64_t waited = clock_ns() - hearing->pause.since_ns;
  if (waited > member->wait_ns)
    member->wait_ns = waited;
}

static void lose(struct ep_member *member, struct hearing *hearing) {
  member->lost = true;
  note_wait(member, hearing);
  hearing->pending--;
}

// The peer takes no part in this operation, though its link is up: it reads nothing of it, and answers nothing.
static void pass_over(const struct ep_op *op, struct ep_member *member, struct hearing *hearing) {
  member->link->sent_dispatch[op->number % WEFT_EP_DEPTH] = 0;
  member->sent = false;
  lose(member, hearing);
}

// A peer that tells an earlier start does so before it sends anything: `start` is read again after the flag, so that an
// old one is not taken with a header that came after the new one.
static enum ep_look look_at(weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member) {
  bool down = !ep_link_up(member->link); // before the flags
  uint64_t start_flag = 0, flag = atomic_load_explicit(&head_of(ep, op, member)->flag, memory_order_acquire);
  uint64_t start = atomic_load_explicit(&ep_link_in(member->link)->start.op_plus_1, memory_order_acquire);
  if (start > op->number + 1) {
    const struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, start - 1);
    start_flag = atomic_load_explicit(&slot->dispatch.flag, memory_order_acquire);
    start = atomic_load_explicit(&ep_link_in(member->link)->start.op_plus_1, memory_order_acquire);
  }
  return ep_activation_look(op->number, down, flag, start, start_flag);
}

// A header has come from a rank that runs in a newer view than we. True: everything has begun anew.
static bool follow_newer(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t epoch,
                         struct hearing *hearing) {
  const struct group_view *view = ep_await_view(ep, epoch, hearing->deadline_ns);
  bool in = group_view_has(view, ep->rank, ep->incarnation);
  if (in) {
    adopt(ep, op, view, hearing);
  } else if (view) { // it goes on without us: the next operation finds this rank out of the view
    ep_activation_adopt(&ep->activation, view->epoch);
    ep_activation_hear(&ep->activation, op->ready);
    pass_over(op, member, hearing);
  } else { // the peer's word against our news of the store: that is no ground to have the peer put out
    ep_link_down(ep, member->link, EP_LINK_DOUBTED, "it runs in a view that has not come here by the deadline");
    lose(member, hearing);
  }
  group_view_unref(view);
  return in;
}

// The member's header is there. True: everything has begun anew.
static bool hear(weft_ep_t *ep, struct ep_op *op, uint32_t index, struct hearing *hearing) {
  struct ep_member *member = &op->members[index];
  const volatile struct ep_dispatch_head *shared = head_of(ep, op, member);
  // Read once: the peer could change it between the check and the use.
  struct ep_dispatch_head head = {.active = shared->active,
                                  .ready = shared->ready,
                                  .mark = shared->mark,
                                  .count = shared->count,
                                  .kind = shared->kind,
                                  .has_weights = shared->has_weights};
  if (head.count > ep->layout.max_tokens || atomic_load(&shared->flag) != op->number + 1) {
    ep_link_down(ep, member->link, EP_LINK_BROKEN, "it wrote a header that is none");
    lose(member, hearing);
    return false;
  }
  if (head.active > op->view->epoch && follow_newer(ep, op, member, head.active, hearing))
    return true;
  if (member->lost)
    return false;
  member->heard = true;
  note_wait(member, hearing);
  member->rows_in = head.count;
  member->late_weights = !head.has_weights;
  member->kind = head.kind;
  hearing->pending--;
  hearing->last = index;
  if (head.mark < hearing->mark)
    hearing->mark = head.mark;
  ep_activation_hear(&ep->activation, head.ready);
  return false;
}

// One look at everybody who is still to come. True: somebody came or was lost.
static bool listen_once(weft_ep_t *ep, struct ep_op *op, struct hearing *hearing) {
  bool news = false;
  for (uint32_t i = 0; i < op->num_members && hearing->pending > 0; i++) {
    struct ep_member *member = &op->members[i];
    if (member->heard || member->lost)
      continue;
    enum ep_look look = look_at(ep, op, member);
    news |= look != EP_LOOK_WAIT;
    if (look == EP_LOOK_PASS)
      pass_over(op, member, hearing);
    else if (look == EP_LOOK_LOSE)
      lose(member, hearing);
    else if (look == EP_LOOK_HEAR && hear(ep, op, i, hearing))
      return true;
  }
  return news;
}

// Lays out the rows of the members that follow in order and have come. True: did some.
static bool lay_out(weft_ep_t *ep, struct ep_op *op, struct hearing *hearing) {
  uint32_t first = hearing->next;
  for (; hearing->next < op->num_members; hearing->next++) {
    struct ep_member *member = &op->members[hearing->next];
    if (!member->heard && !member->lost)
      break;
    if (!member->heard || !hearing->recv)
      continue;
    if (ep_expand(ep, op, hearing->next, hearing->recv) != 0) {
      member->heard = false;
      member->rows_in = 0;
      member->lost = true;
      if (member->link)
        ep_link_down(ep, member->link, EP_LINK_BROKEN, weft_last_error());
    }
  }
  return hearing->next > first;
}

static bool awaited(const struct ep_member *member) {
  return !member->heard && !member->lost;
}

// The deadline has passed. Who waits for somebody else in turn gets more time; who is silent is lost. But when most of
// the view is silent, this rank is more likely astray than they are, and must not have them put out: it only lets go of
// them, and they will put it out.
static void give_up(weft_ep_t *ep, struct ep_op *op, struct hearing *hearing) {
  bool patient = hearing->extensions++ < EP_EXTENSIONS;
  uint32_t waiting = 0;
  for (uint32_t i = 0; i < op->num_members; i++)
    waiting += patient && awaited(&op->members[i]) && ep_link_waits(ep, op->members[i].link);
  bool astray = ep_activation_astray(hearing->pending - waiting, op->num_members);
  enum ep_link_state state = astray ? EP_LINK_DOUBTED : EP_LINK_SILENT;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!awaited(member) || (patient && ep_link_waits(ep, member->link)))
      continue;
    ep_link_down(ep, member->link, state, "its dispatch did not come by the deadline");
    lose(member, hearing);
  }
  hearing->deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
}

static void hear_all(weft_ep_t *ep, struct ep_op *op, struct hearing *hearing) {
  catch_up(ep, op);
  restart(ep, op, hearing);
  while (hearing->next < op->num_members) {
    bool news = listen_once(ep, op, hearing);
    if (lay_out(ep, op, hearing) || news)
      continue;
    if (!ep_pause(ep, &hearing->pause, hearing->deadline_ns))
      give_up(ep, op, hearing);
  }
  uint64_t waited = ep_pause_end(ep, &hearing->pause);
  struct ep_link *last = op->members[hearing->last].link;
  if (last)
    last->wait_ns += waited;
}

void ep_release_rows(weft_ep_t *ep, struct ep_op *op) {
  op->in_place = false;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!member->heard || !member->link)
      continue;
    struct ep_slot_head *slot = ep_slot(&ep->layout, member->link->in.memory, op->number);
    atomic_store_explicit(&slot->taken.dispatch, op->number + 1, memory_order_release);
    if (member->link->remote)
      ep_remote_tell(member->link->remote);
    else
      ep_doorbell_ring(ep_link_bell(member->link));
  }
  ep_remote_hand_over(ep);
}

static void count_bytes(const weft_ep_t *ep, struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (member->heard && member->link)
      member->link->received_bytes += ep_layout_dispatch_bytes(&ep->layout, member->rows_in);
  }
}

static void add_waits(const struct ep_op *op, const struct weft_ep_recv *recv) {
  for (uint32_t i = 0; i < op->num_members; i++)
    recv->wait_ns[op->members[i].rank] += (int64_t)op->members[i].wait_ns;
}

uint64_t ep_logical_bytes(const weft_ep_t *ep, uint64_t selections) {
  uint64_t value =
      ep->dtype == WEFT_EP_BF16 ? 2 * (uint64_t)ep->layout.hidden : ep->layout.value_bytes + ep->layout.scale_bytes;
  return selections * (value + 16);
}

void ep_tell_info(const weft_ep_t *ep, const struct ep_op *op, struct weft_ep_info *info) {
  const struct ep_told *told = &op->told;
  info->op = op->number;
  info->epoch = told->epoch;
  info->num_ranks = told->members;
  info->num_rows = told->rows;
  info->mark = told->mark;
  info->wire_bytes = op->dispatch_wire_bytes;
  info->logical_bytes = ep_logical_bytes(ep, op->logical_selections);
  info->num_lost = 0;
  for (uint32_t i = 0; i < told->members; i++) {
    if (op->members[i].heard)
      continue;
    if (info->lost && info->num_lost < info->lost_cap)
      info->lost[info->num_lost] = op->members[i].rank;
    info->num_lost++;
  }
}

int ep_receive(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv *recv, struct weft_ep_info *info) {
  if (op->number != ep->activation.op)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: operation %llu comes before %llu",
                (unsigned long long)ep->activation.op, (unsigned long long)op->number);
  struct hearing hearing = {.deadline_ns = clock_deadline_ms(ep->op_timeout_ms), .recv = recv};
  hear_all(ep, op, &hearing);
  if (recv && ep_expand_needed(ep, recv) > recv->rows) // nothing is taken yet: the caller may try again with more room
    return fail(WEFT_ERR_LIMIT, "dispatch_recv: the buffer has %u rows%s, and %u came: call again with more",
                recv->rows, recv->layout == WEFT_EP_PER_EXPERT ? " for each expert" : "", ep_expand_needed(ep, recv));
  uint32_t rows = recv ? ep_expand_end(ep, recv) : 0;
  count_bytes(ep, op);
  if (recv && recv->wait_ns)
    add_waits(op, recv);
  op->in_place = recv && recv->rows_at;
  if (!op->in_place)
    ep_release_rows(ep, op);
  ep_activate_next(ep);
  if (recv) {
    op->layout = recv->layout;
    op->recv_rows = recv->rows;
  }
  ep_remote_hand_over(ep);
  op->state = EP_OP_RECEIVED;
  op->told = (struct ep_told){
      .heard = true, .members = op->num_members, .rows = rows, .epoch = op->view->epoch, .mark = hearing.mark};
  ep->stats.dispatch_wire_bytes += op->dispatch_wire_bytes;
  ep->stats.dispatch_logical_bytes += ep_logical_bytes(ep, op->logical_selections);
  if (info)
    ep_tell_info(ep, op, info);
  return 0;
}

int weft_ep_dispatch_recv(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv *recv, struct weft_ep_info *info) {
  TRACE_BLOCK("dispatch_recv");
  if (!ep)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: ep is NULL");
  if (ep->gpu)
    return ep_gpu_receive(ep, number, recv, info);
  struct ep_op *op;
  int rc = ep_op_find(ep, number, EP_OP_SENT, "dispatch_recv", &op);
  if (rc == 0)
    rc = ep_check_recv(ep, recv, info);
  return rc != 0 ? rc : ep_receive(ep, op, recv, info);
}

int weft_ep_dispatch(weft_ep_t *ep, const struct weft_ep_dispatch *args, const struct weft_ep_recv *recv,
                     struct weft_ep_info *info, uint64_t *number) {
  TRACE_BLOCK("dispatch");
  if (!ep || !number)
    return fail(WEFT_ERR_INVALID, "dispatch: %s is NULL", ep ? "op" : "ep");
  if (ep->gpu)
    return ep_gpu_dispatch(ep, args, recv, info, number);
  int rc = ep_check_recv(ep, recv, info); // before anything is sent
  if (rc != 0)
    return rc;
  ep->holds = true; // to hand the network over between the two would wake the net thread for nothing
  rc = ep_send(ep, args, EP_KIND_DISPATCH, true, number);
  if (rc == 0)
    rc = weft_ep_dispatch_recv(ep, *number, recv, info);
  ep->holds = false;
  ep_remote_hand_over(ep);
  return rc;
}

int weft_ep_finish(weft_ep_t *ep, uint64_t number) {
  struct ep_op *op;
  if (!ep)
    return fail(WEFT_ERR_INVALID, "finish: ep is NULL");
  if (ep->gpu)
    return ep_gpu_finish(ep, number);
  int rc = ep_op_find(ep, number, EP_OP_RECEIVED, "finish", &op);
  if (rc == 0)
    ep_op_end(ep, op);
  return rc;
}

// Who is missing in an operation, for an error.
static int name_lost(const struct ep_op *op, uint64_t number) {
  struct text names = {0};
  for (uint32_t i = 0; i < op->num_members; i++)
    if (!op->members[i].heard)
      text_add(&names, "%s%d", names.size ? ", " : "", op->members[i].rank);
  if (names.size == 0)
    return 0;
  int rc = fail(WEFT_ERR_PEER_LOST, "barrier: operation %llu went on without rank %s", (unsigned long long)number,
                names.data ? names.data : "?");
  text_free(&names);
  return rc;
}

// Whether somebody dispatched tokens in this operation, which is a barrier to us.
static int check_barrier(const struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    const struct ep_member *member = &op->members[i];
    if (member->link && member->heard && member->kind != EP_KIND_BARRIER)
      return fail(WEFT_ERR_PROTOCOL,
                  "barrier: rank %d dispatches %u rows in operation %llu, where this rank has a barrier", member->rank,
                  member->rows_in, (unsigned long long)op->number);
  }
  return 0;
}

int weft_ep_barrier(weft_ep_t *ep) {
  if (!ep)
    return fail(WEFT_ERR_INVALID, "barrier: ep is NULL");
  if (ep->gpu)
    return ep_gpu_barrier(ep);
  struct weft_ep_dispatch none = WEFT_EP_DISPATCH_INIT;
  uint64_t number;
  int rc = ep_send(ep, &none, EP_KIND_BARRIER, true, &number);
  if (rc != 0)
    return rc;
  struct ep_op *op = &ep->ops[number % WEFT_EP_DEPTH];
  rc = ep_receive(ep, op, NULL, NULL);
  if (rc != 0)
    return rc;
  rc = check_barrier(op);
  if (rc == 0)
    rc = name_lost(op, number);
  ep_op_end(ep, op);
  return rc;
}
