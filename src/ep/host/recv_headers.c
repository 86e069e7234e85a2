// Receives the headers of an operation, one from every member, and lays out the rows behind them. If a member runs in a
// newer view, this rank changes to that view.
#include <string.h>

#include "base/time/clock.h"
#include "ep/host/flow_wait.h"
#include "ep/host/host.h"
#include "ep/host/route/kept_route.h"
#include "ep/host/rows/rows.h"
#include "ep/view/views.h"
#include "group/view.h"

struct receiving {
  uint64_t deadline_ns;
  const struct weft_ep_recv_args *recv;
  uint32_t next;    // member whose rows are laid out next
  uint32_t pending; // members whose header has not come, and which are not lost
  uint64_t mark;
  uint32_t last; // member whose header arrived last
  bool interrupted;
  struct ep_pause pause;
};

static struct ep_dispatch_head *head_of(weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member) {
  return &ep_slot(&ep->layout, member->link->in.memory, ep_piece(&ep->layout, op->number, 0))->dispatch;
}

// Restarts receiving from this operation's first member.
static void restart(weft_ep_t *ep, struct ep_op *op, struct receiving *receiving) {
  receiving->next = 0;
  receiving->pending = 0;
  receiving->mark = op->mark;
  receiving->last = op->self;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    member->received = i == op->self;
    member->rows_in = i == op->self ? member->rows_out : 0;
    member->last_in = -1;
    member->pieces_in = member->rows_laid = member->rows_own = 0;
    member->wrong_count = false;
    if (!member->sent && !member->lost && !receiving->interrupted)
      receiving->interrupted = !ep_send_empty(ep, op, member, receiving->deadline_ns);
    receiving->pending += !member->received && !member->lost;
  }
  if (ep->layout.flows)
    ep_count_selections(ep, op, op->self, ep_places_left(ep, op->self));
  op->odd_member = -1;
  ep_activation_receive(&ep->activation, op->ready);
  ep_places_begin(ep, op, receiving->recv);
  if (receiving->recv && ep_op_keeps(op))
    ep_kept_place(ep, op, receiving->recv);
}

// Changes to `view` in the middle of the operation; headers that were received are received again.
static void adopt(weft_ep_t *ep, struct ep_op *op, const struct group_view *view, struct receiving *receiving) {
  ep_activation_adopt(&ep->activation, view->epoch);
  ep_op_set_view(ep, op, view);
  ep_emit(ep, WEFT_EP_EVENT_ACTIVATED, -1, 0, view->epoch, op->number, "adopted from a rank that runs in it");
  restart(ep, op, receiving);
}

// This operation was sent before the previous one adopted a newer view: it has to run in that view too. The joiners of
// that view wait for this rank's header, and may be the only ones that publish the view.
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

// The member's header has arrived, or will not. If it is received again, in a newer view, the wait is not counted
// again.
static void note_wait(struct ep_member *member, const struct receiving *receiving) {
  if (receiving->pause.since_ns == 0)
    return;
  uint64_t waited = clock_ns() - receiving->pause.since_ns;
  if (waited > member->wait_ns)
    member->wait_ns = waited;
}

static void lose(struct ep_member *member, struct receiving *receiving) {
  member->lost = true;
  note_wait(member, receiving);
  receiving->pending--;
}

// The peer takes no part in this operation although its link is up: it reads no row of it, and answers none.
static void pass_over(const weft_ep_t *ep, const struct ep_op *op, struct ep_member *member,
                      struct receiving *receiving) {
  uint64_t *sent = member->link->sent_dispatch, first = ep_piece(&ep->layout, op->number, 0);
  sent[first % EP_DEPTH] = 0;
  if (ep_flag_op(&ep->layout, sent[(first + 1) % EP_DEPTH]) == op->number + 1)
    sent[(first + 1) % EP_DEPTH] = 0;
  member->sent = false;
  lose(member, receiving);
}

// A peer that publishes an earlier start does so before it sends anything. So `start` is read again after the flag:
// otherwise an old start could be combined with a header that arrived after the new one.
static enum ep_look look_at(weft_ep_t *ep, const struct ep_op *op, const struct ep_member *member) {
  bool down = !ep_link_up(member->link); // read before the flags
  uint64_t start_flag = 0, flag = atomic_load_explicit(&head_of(ep, op, member)->flag, memory_order_acquire);
  uint64_t start = atomic_load_explicit(&ep_link_in(member->link)->start.op_plus_1, memory_order_acquire);
  if (start > op->number + 1) {
    const struct ep_slot_head *slot =
        ep_slot(&ep->layout, member->link->in.memory, ep_piece(&ep->layout, start - 1, 0));
    start_flag = atomic_load_explicit(&slot->dispatch.flag, memory_order_acquire);
    start = atomic_load_explicit(&ep_link_in(member->link)->start.op_plus_1, memory_order_acquire);
  }
  return ep_activation_look(op->number, down, ep_flag_op(&ep->layout, flag), start,
                            ep_flag_op(&ep->layout, start_flag));
}

// A header has arrived from a rank that runs in a newer view than this rank. True: receiving starts again.
static bool follow_newer(weft_ep_t *ep, struct ep_op *op, struct ep_member *member, uint64_t epoch,
                         struct receiving *receiving) {
  const struct group_view *view = ep_await_view(ep, epoch, receiving->deadline_ns, &receiving->interrupted);
  bool in = group_view_has(view, ep->rank, ep->incarnation);
  if (in) {
    adopt(ep, op, view, receiving);
  } else if (view) { // the group continues without this rank: the next operation finds this rank out of the view
    ep_activation_adopt(&ep->activation, view->epoch);
    ep_activation_receive(&ep->activation, op->ready);
    pass_over(ep, op, member, receiving);
  } else if (!receiving->interrupted) { // only the peer says so, and not the store: this is no reason to remove the
                                        // peer from the group
    ep_link_down(ep, member->link, EP_LINK_DOUBTED, "it runs in a view that has not arrived here by the deadline");
    lose(member, receiving);
  }
  group_view_unref(view);
  return in;
}

// Whether a member's operation differs from this rank's: in its type, or in its route. A barrier reports that itself.
static bool is_odd(const struct ep_op *op, const struct ep_dispatch_head *head) {
  if (head->kind == EP_KIND_BARRIER || op->kind == EP_KIND_BARRIER)
    return false;
  if (head->kind != (uint8_t)op->kind || head->route != op->route_number || head->topk != op->topk)
    return true;
  return op->kind == EP_KIND_DISPATCH &&
         (head->dtype != (uint8_t)op->form.dtype || head->row_bytes != op->form.value_bytes ||
          head->scale_bytes != op->form.scale_bytes);
}

// THROUGHPUT: reads how many selections of each local expert the member's rows bring into places.left. With a route
// this is known already. False: the counts are impossible.
static bool take_counts(weft_ep_t *ep, const struct ep_op *op, uint32_t index, const struct ep_dispatch_head *head) {
  uint32_t rows = head->count;
  if (!ep->layout.flows || ep_op_keeps(op) || head->route != 0)
    return true;
  const char *slot =
      (const char *)ep_slot(&ep->layout, op->members[index].link->in.memory, ep_piece(&ep->layout, op->number, 0));
  uint32_t *counts = ep_places_left(ep, index);
  uint64_t selections = 0;
  if (rows == 0)
    memset(counts, 0, ep->layout.counts_bytes);
  else
    memcpy(counts, slot + ep->layout.counts, ep->layout.counts_bytes);
  for (uint32_t e = 0; e < ep->experts_per_rank; e++)
    selections += counts[e];
  return selections >= rows && selections <= (uint64_t)rows * ep->layout.topk;
}

// The member's header has arrived. True: receiving starts again.
static bool receive_from(weft_ep_t *ep, struct ep_op *op, uint32_t index, struct receiving *receiving) {
  struct ep_member *member = &op->members[index];
  const volatile struct ep_dispatch_head *shared = head_of(ep, op, member);
  // Read once: the peer could change it between the check and the use.
  struct ep_dispatch_head head = {.active = shared->active,
                                  .ready = shared->ready,
                                  .mark = shared->mark,
                                  .count = shared->count,
                                  .kind = shared->kind,
                                  .traits = shared->traits,
                                  .dtype = shared->dtype,
                                  .topk = shared->topk,
                                  .row_bytes = shared->row_bytes,
                                  .scale_bytes = shared->scale_bytes,
                                  .route = shared->route,
                                  .route_rows = shared->route_rows};
  bool whole = head.traits & EP_TRAIT_WHOLE, once = head.traits & EP_TRAIT_ONCE;
  uint32_t most = whole ? ep->layout.window_rows : ep->layout.max_tokens;
  if (head.count > most || atomic_load(&shared->flag) != ep_piece(&ep->layout, op->number, 0) + 1 ||
      (once && (!ep->layout.flows || whole || head.kind != EP_KIND_DISPATCH)) || !take_counts(ep, op, index, &head)) {
    ep_link_down(ep, member->link, EP_LINK_BROKEN, "it wrote a malformed header");
    lose(member, receiving);
    return false;
  }
  if (head.active > op->view->epoch && follow_newer(ep, op, member, head.active, receiving))
    return true;
  if (member->lost || receiving->interrupted)
    return false;
  member->received = true;
  note_wait(member, receiving);
  member->rows_in = head.count;
  member->route_rows = head.route_rows;
  if (ep_op_keeps(op))
    ep_kept_announced(ep, op, member, head.count);
  member->whole_in = whole;
  member->once_in = once;
  member->late_weights = !(head.traits & EP_TRAIT_WEIGHTS);
  member->kind = head.kind;
  if (op->odd_member < 0 && is_odd(op, &head))
    op->odd_member = (int32_t)index;
  receiving->pending--;
  receiving->last = index;
  if (head.mark < receiving->mark)
    receiving->mark = head.mark;
  ep_activation_receive(&ep->activation, head.ready);
  return false;
}

// Polls once all members whose header is missing. True: a header arrived or a member was lost.
static bool listen_once(weft_ep_t *ep, struct ep_op *op, struct receiving *receiving) {
  bool news = false;
  for (uint32_t i = 0; i < op->num_members && receiving->pending > 0 && !receiving->interrupted; i++) {
    struct ep_member *member = &op->members[i];
    if (member->received || member->lost)
      continue;
    enum ep_look look = look_at(ep, op, member);
    news |= look != EP_LOOK_WAIT;
    if (look == EP_LOOK_PASS)
      pass_over(ep, op, member, receiving);
    else if (look == EP_LOOK_LOSE)
      lose(member, receiving);
    else if (look == EP_LOOK_RECEIVE && receive_from(ep, op, i, receiving))
      return true;
  }
  return news;
}

// Lays out the rows of one member behind those of the members before it; PACKED: counts them. PROTOCOL: nothing is laid
// out.
static int lay_out_member(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct weft_ep_recv_args *recv) {
  struct ep_batch all = {.number = op->number, .first = 0, .count = op->members[index].rows_in};
  if (ep_op_keeps(op))
    return ep_kept_lay(ep, op, index, &all, recv);
  int rc = ep_rows_check(ep, op, index, &all);
  if (rc != 0)
    return rc;
  ep_places_add(ep, op, index, ep->host->places.tally, recv);
  if (recv->layout != WEFT_EP_PACKED)
    ep_rows_lay(ep, op, index, &all, recv); // succeeds: no rows cross once
  return 0;
}

// Lays out the rows of the next members in order, as far as they have arrived. True: it did some.
static bool lay_out(weft_ep_t *ep, struct ep_op *op, struct receiving *receiving) {
  uint32_t first = receiving->next;
  for (; receiving->next < op->num_members; receiving->next++) {
    struct ep_member *member = &op->members[receiving->next];
    if (!member->received && !member->lost)
      break;
    if (!member->received || !receiving->recv || op->odd_member >= 0 || ep->layout.flows)
      continue; // rows that flow are laid out when all headers have arrived: flow_dispatch.c
    if (lay_out_member(ep, op, receiving->next, receiving->recv) != 0)
      ep_rows_refuse(ep, member);
  }
  return receiving->next > first;
}

static bool awaited(const struct ep_member *member) {
  return !member->received && !member->lost;
}

// The deadline has passed. A peer that itself waits for a third rank gets more time; a silent peer is lost. But if most
// of the view is silent, it is more likely that this rank is isolated, so it must not get the others removed. It only
// takes its links to them down, and they will remove it.
static void give_up(weft_ep_t *ep, struct ep_op *op, struct receiving *receiving) {
  bool patient = ep->interrupt.extensions++ < EP_EXTENSIONS;
  uint32_t silent = 0;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    member->silent = awaited(member) && !(patient && ep_link_waits(ep, member->link));
    silent += member->silent;
  }
  bool isolated = ep_activation_isolated(silent, op->num_members);
  enum ep_link_state state = isolated ? EP_LINK_DOUBTED : EP_LINK_SILENT;
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!member->silent)
      continue;
    ep_link_down(ep, member->link, state, "its dispatch did not arrive by the deadline");
    lose(member, receiving);
  }
  receiving->deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
}

bool ep_receive_headers(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv, uint64_t *mark) {
  struct receiving receiving = {
      .deadline_ns = clock_deadline_ms(ep->op_timeout_ms), .recv = recv, .pause = {.limited = true}};
  catch_up(ep, op);
  restart(ep, op, &receiving);
  while (receiving.next < op->num_members && !receiving.interrupted) {
    bool news = listen_once(ep, op, &receiving);
    if (ep->layout.flows)
      news |= ep_flow_send(ep, op);
    if (lay_out(ep, op, &receiving) || news)
      continue;
    if (ep_pause(ep, &receiving.pause, receiving.deadline_ns))
      continue;
    receiving.interrupted |= receiving.pause.interrupted;
    if (!receiving.interrupted)
      give_up(ep, op, &receiving);
  }
  receiving.pause.interrupted = receiving.interrupted;
  uint64_t waited = ep_pause_end(ep, &receiving.pause);
  struct ep_link *last = op->members[receiving.last].link;
  if (last)
    last->wait_ns += waited;
  bool all = recv && op->odd_member < 0 && !receiving.interrupted;
  if (all && ep_op_keeps(op))
    ep_kept_lay_absent(ep, op, recv);
  else if (all && recv->layout == WEFT_EP_PACKED && !ep->layout.flows)
    ep_packed_lay(ep, op, recv);
  *mark = receiving.mark;
  return !receiving.interrupted;
}
