// Routes on host memory: what a dispatch stores in a route, and what an operation that uses a route reads from it.
// routing/kept.h has the memory, combine_route.c the calls of a combine, and docs/design/routes.md the whole design.
//
// An operation holds its route from its beginning until it has been received. The combine later works with what the
// operation has copied.
#include <string.h>

#include "base/fail.h"
#include "ep/host/host.h"
#include "ep/host/route/kept_route.h"
#include "ep/host/rows/rows.h"
#include "ep/view/views.h"

int ep_kept_create(weft_ep_t *ep, const struct weft_ep_route_options *options, weft_ep_route_t *route) {
  return ep_kept_new(ep, options, &route->kept);
}

void ep_kept_destroy(weft_ep_route_t *route) {
  ep_kept_free(route->kept);
}

// --- before an operation begins ---

// Checks that operations can use the route. INVALID, ROOM.
int ep_kept_check_filled(const struct ep_kept *kept, const char *call) {
  if (kept->state == EP_KEPT_FILLED)
    return 0;
  if (kept->state == EP_KEPT_SHORT)
    return fail(WEFT_ERR_ROOM, "%s: operation %llu brought %u rows, and the route has room for %u: give max_rows", call,
                (unsigned long long)kept->op, kept->num_rows, kept->max_rows);
  if (kept->state == EP_KEPT_FILLING)
    return fail(WEFT_ERR_INVALID, "%s: operation %llu, which fills the route, has not been received", call,
                (unsigned long long)kept->op);
  return fail(WEFT_ERR_INVALID,
              "%s: no dispatch has filled the route: one with the route and topk_idx does (topk_idx is not NULL then, "
              "for 0 tokens either)",
              call);
}

static int check_newcomers(const struct ep_kept *kept, const struct group_view *view, const char *call) {
  int32_t rank = ep_kept_newcomer(kept, view);
  if (rank < 0)
    return 0;
  return fail(WEFT_ERR_CONFLICT,
              "%s: rank %d has joined since operation %llu filled the route in view %llu, and would be missed: fill it "
              "again",
              call, rank, (unsigned long long)kept->op, (unsigned long long)kept->epoch);
}

static int check_idle(const weft_ep_route_t *route, const char *call) {
  if (route->users == 0)
    return 0;
  return fail(WEFT_ERR_BUSY, "%s: %u open operations need what the route has: receive them first", call, route->users);
}

static int check_room(const struct ep_kept *kept, uint32_t num_tokens, uint32_t topk, const char *call) {
  if (num_tokens > kept->max_tokens)
    return fail(WEFT_ERR_ROOM, "%s: %u tokens, and the route has room for %u: see weft_ep_route_options.max_tokens",
                call, num_tokens, kept->max_tokens);
  if (topk > kept->max_topk)
    return fail(WEFT_ERR_ROOM, "%s: top-%u, and the route has room for top-%u: see weft_ep_route_options.topk", call,
                topk, kept->max_topk);
  return 0;
}

// Checks that the numbers of tokens and selections are those of the route.
static int check_sizes(const struct ep_kept *kept, uint32_t num_tokens, uint32_t topk) {
  if (num_tokens != kept->num_tokens)
    return fail(WEFT_ERR_INVALID, "dispatch: %u tokens, and those of the route are %u", num_tokens, kept->num_tokens);
  if (topk != kept->topk)
    return fail(WEFT_ERR_INVALID, "dispatch: topk is %u, and that of the route is %u", topk, kept->topk);
  return 0;
}

// CHECK_ROUTE: checks that the caller's top-k are those of the route.
static int compare(const struct ep_kept *kept, const struct weft_ep_dispatch_args *args, uint32_t num_tokens,
                   uint32_t topk) {
  if (kept->state == EP_KEPT_EMPTY)
    return fail(WEFT_ERR_INVALID, "dispatch: CHECK_ROUTE is set, but the route has no top-k: plan or fill it first");
  int rc = check_sizes(kept, num_tokens, topk);
  for (size_t at = 0; rc == 0 && at < (size_t)num_tokens * topk; at++) {
    int64_t given = args->topk_idx ? args->topk_idx[at] : args->topk_idx32[at];
    if (given != kept->experts[at])
      rc = fail(WEFT_ERR_INVALID, "dispatch: topk_idx[%zu][%zu] is %lld, but the route was made with %lld", at / topk,
                at % topk, (long long)given, (long long)kept->experts[at]);
  }
  return rc;
}

static int check_fill(const weft_ep_route_t *route, uint32_t num_tokens, uint32_t topk) {
  int rc = check_idle(route, "dispatch");
  return rc != 0 ? rc : check_room(route->kept, num_tokens, topk, "dispatch");
}

static int check_keep(const weft_ep_t *ep, const struct ep_kept *kept, const struct weft_ep_dispatch_args *args,
                      uint32_t num_tokens) {
  int rc = ep_kept_check_filled(kept, "dispatch");
  if (rc == 0)
    rc = check_sizes(kept, num_tokens, args->topk ? args->topk : kept->topk);
  if (rc == 0 && args->topk_weights)
    rc = fail(WEFT_ERR_INVALID, "dispatch: topk_weights are given, but the route has kept those that it was filled "
                                "with: leave them NULL");
  return rc != 0 ? rc : check_newcomers(kept, ep->view, "dispatch");
}

// Whether the top-k in the call is only compared. A route that was only planned is sent with the top-k of the group.
static bool compares_only(const struct weft_ep_dispatch_args *args) {
  return args->route && args->flags & WEFT_EP_DISPATCH_CHECK_ROUTE && args->route->kept->state != EP_KEPT_PLANNED;
}

uint32_t ep_kept_topk(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  return args->topk ? args->topk : compares_only(args) ? args->route->kept->topk : ep->layout.topk;
}

static bool fills_route(const struct weft_ep_dispatch_args *args) {
  return (args->topk_idx || args->topk_idx32) && !compares_only(args);
}

int ep_kept_check(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args, enum ep_kind kind, uint32_t num_tokens,
                  bool *fills) {
  const struct ep_kept *kept = args->route->kept;
  *fills = false;
  if (kind == EP_KIND_COMBINE) {
    int rc = ep_kept_check_filled(kept, "combine_route");
    return rc != 0 ? rc : check_newcomers(kept, ep->view, "combine_route");
  }
  uint32_t topk = ep_kept_topk(ep, args);
  int rc = args->flags & WEFT_EP_DISPATCH_CHECK_ROUTE ? compare(kept, args, num_tokens, topk) : 0;
  if (rc != 0)
    return rc;
  *fills = fills_route(args);
  return *fills ? check_fill(args->route, num_tokens, topk) : check_keep(ep, kept, args, num_tokens);
}

// --- what is sent ---

// Takes tokens, experts and weights from the route that the operation uses.
static void take_over(struct ep_op *op) {
  const struct ep_kept *kept = op->route->kept;
  size_t selections = (size_t)kept->num_tokens * kept->topk;
  op->num_tokens = kept->num_tokens;
  memcpy(op->experts, kept->experts, selections * sizeof *op->experts);
  if (kept->has_weights)
    memcpy(op->weights, kept->weights, selections * sizeof *op->weights);
  op->went = kept->went;
}

void ep_kept_begin(struct ep_op *op, weft_ep_route_t *route, bool fills) {
  op->route = route;
  op->fills = fills;
  ep_route_use(route);
  if (fills)
    return;
  const struct ep_kept *kept = route->kept;
  op->route_number = kept->op + 1;
  op->topk = kept->topk;
  op->has_weights = kept->has_weights;
  if (op->kind == EP_KIND_DISPATCH)
    take_over(op);
}

// Notes where rows went: a member to which no rows were sent has none.
static void note_ways(const struct ep_op *op, struct ep_kept *kept) {
  for (size_t i = 0; i < (size_t)kept->num_tokens * kept->topk; i++)
    kept->went[i] = op->member_of[i] >= 0 && op->members[op->member_of[i]].sent;
}

void ep_kept_note_sent(struct ep_op *op) {
  struct ep_kept *kept = op->route->kept;
  size_t selections = (size_t)op->num_tokens * op->topk;
  ep_kept_clear_sent(kept);
  kept->state = EP_KEPT_FILLING;
  kept->op = op->number;
  kept->num_tokens = op->num_tokens;
  kept->topk = op->topk;
  kept->has_weights = op->has_weights;
  memcpy(kept->experts, op->experts, selections * sizeof *kept->experts);
  if (op->has_weights)
    memcpy(kept->weights, op->weights, selections * sizeof *kept->weights);
  note_ways(op, kept);
  ep_kept_count_sent(kept);
}

uint64_t ep_kept_rows_of(const struct ep_op *op, const struct ep_member *member) {
  if (!ep_op_keeps(op))
    return 0;
  const struct ep_kept_source *source = ep_kept_find(op->route->kept, member->rank, member->incarnation);
  return source ? ep_kept_complete(source) : 0;
}

// --- what comes ---

// Rows of a wrong count that flow are received all the same, since their sender waits for that.
void ep_kept_announced(const weft_ep_t *ep, const struct ep_op *op, struct ep_member *member, uint32_t count) {
  member->wrong_count = count != ep_kept_rows_of(op, member);
  if (member->wrong_count && !ep->layout.flows)
    member->rows_in = 0;
}

// A source that was lost before its header arrived has no places. What ep_places_left() returns for it belongs to
// another operation.
static bool has_places(const struct ep_kept_source *source) {
  return source->came || source->rows > 0;
}

void ep_kept_place(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv) {
  const struct ep_kept *kept = op->route->kept;
  for (uint32_t s = 0; s < kept->num_sources; s++)
    if (has_places(&kept->sources[s]))
      ep_places_add_source(ep, s, kept->sources[s].rank, kept->sources[s].rows, ep_kept_counts(kept, s), recv);
  if (recv->layout == WEFT_EP_PACKED)
    ep_places_pack(ep, recv);
  ep_places_expect(ep, op, recv);
}

static bool is_room(const weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  return ep_places_needed(ep, recv) <= recv->rows;
}

static uint32_t source_index(const struct ep_kept *kept, const struct ep_member *member) {
  return (uint32_t)(ep_kept_find(kept, member->rank, member->incarnation) - kept->sources);
}

// Whether rows of the member will arrive.
static bool brings_rows(const struct ep_member *member) {
  return member->received && member->rows_in > 0 && !member->wrong_count;
}

int ep_kept_lay(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch,
                const struct weft_ep_recv_args *recv) {
  const struct ep_member *member = &op->members[index];
  if (!brings_rows(member) || !is_room(ep, recv))
    return 0;
  return ep_rows_lay_kept(ep, op, index, source_index(op->route->kept, member), batch, recv);
}

void ep_kept_lay_lost(weft_ep_t *ep, struct ep_op *op, uint32_t index, uint32_t laid,
                      const struct weft_ep_recv_args *recv) {
  const struct ep_member *member = &op->members[index];
  if (!member->wrong_count && member->rows_in > 0)
    ep_rows_lay_none(ep, op, source_index(op->route->kept, member), member->rank, laid, member->rows_in, recv);
}

void ep_kept_lay_absent(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv) {
  const struct ep_kept *kept = op->route->kept;
  for (uint32_t s = 0; s < kept->num_sources && is_room(ep, recv); s++) {
    int32_t index = ep_op_member(op, kept->sources[s].rank);
    if (has_places(&kept->sources[s]) && (index < 0 || !brings_rows(&op->members[index])))
      ep_rows_lay_none(ep, op, s, kept->sources[s].rank, 0, kept->sources[s].rows, recv);
  }
}

// If a member has not kept rows with its route, because it considered this rank lost at that time, it does not answer
// them.
static void drop_refused(struct ep_op *op) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!member->link || !member->received || member->rows_out == 0 || member->route_rows == member->rows_out)
      continue;
    member->rows_out = 0;
    for (size_t at = 0; at < (size_t)op->num_tokens * op->topk; at++)
      if (op->member_of[at] == (int16_t)i)
        op->member_of[at] = -1;
  }
}

// Completes the route: with the rows that arrived, and with the ranks to which this rank has really sent.
static void end_fill(struct ep_op *op) {
  struct ep_kept *kept = op->route->kept;
  ep_kept_clear_sent(kept);
  note_ways(op, kept);
  ep_kept_count_sent(kept);
  for (uint32_t i = 0; i < op->num_members; i++) {
    kept->sources[i].rank = op->members[i].rank;
    kept->sources[i].incarnation = op->members[i].incarnation;
    kept->sources[i].came = op->members[i].received;
  }
  kept->epoch = op->view->epoch;
  kept->form = op->layout;
  ep_kept_end_rows(kept);
}

// Loads the route, so that a combine by it is like any operation that was received.
static void load(weft_ep_t *ep, struct ep_op *op) {
  const struct ep_kept *kept = op->route->kept;
  op->layout = kept->form;
  take_over(op);
  ep_route(ep, op);
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    const struct ep_kept_source *source = ep_kept_find(kept, member->rank, member->incarnation);
    member->rows_in = source && member->received ? ep_kept_complete(source) : 0;
    if (member->rows_in > 0)
      ep_kept_copy_inbox(kept, source, ep_op_inbox(op, member));
  }
}

void ep_kept_received(weft_ep_t *ep, struct ep_op *op) {
  if (op->fills)
    end_fill(op);
  if (op->kind == EP_KIND_COMBINE)
    load(ep, op);
  for (uint32_t i = 0; op->kind == EP_KIND_DISPATCH && i < op->num_members; i++)
    if (op->members[i].wrong_count)
      op->members[i].rows_in = 0; // and this member is not answered
  if (ep_op_keeps(op))
    drop_refused(op);
  ep_op_let_go(op);
}

void ep_op_let_go(struct ep_op *op) {
  if (op->fills && op->route->kept->state == EP_KEPT_FILLING)
    op->route->kept->state = EP_KEPT_PLANNED;
  ep_route_unuse(op->route);
  op->route = NULL;
  op->went = NULL;
}

// --- the calls of weft/ep.h ---

// Whether a selection will be sent, in the view of the next operation.
static bool goes(weft_ep_t *ep, int64_t expert) {
  int32_t rank = (int32_t)(expert / ep->experts_per_rank);
  const struct group_member *member = group_view_find(ep->view, rank);
  return member && ep->masked[rank] != member->incarnation &&
         (rank == ep->rank || ep_link_find(ep, rank, member->incarnation));
}

int ep_kept_plan(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream) {
  (void)stream;
  struct ep_kept *kept = route->kept;
  weft_ep_t *ep = route->ep;
  const struct weft_ep_dispatch_args args = {.topk_idx = topk_idx};
  int rc = check_idle(route, "route_plan");
  if (rc == 0)
    rc = check_room(kept, num_tokens, kept->max_topk, "route_plan");
  if (rc == 0)
    rc = ep_check_experts(ep, &args, num_tokens, kept->max_topk, "route_plan");
  if (rc == 0)
    rc = ep_check_active(ep);
  if (rc != 0)
    return rc;
  ep_kept_clear_sent(kept);
  kept->state = EP_KEPT_PLANNED;
  kept->num_tokens = num_tokens;
  kept->topk = kept->max_topk;
  for (size_t i = 0; i < (size_t)num_tokens * kept->topk; i++) {
    kept->experts[i] = topk_idx[i];
    kept->went[i] = topk_idx[i] >= 0 && goes(ep, topk_idx[i]);
  }
  ep_kept_count_sent(kept);
  return 0;
}

int ep_kept_get_arrays(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays) {
  const struct ep_kept *kept = route->kept;
  arrays->tokens_per_rank = kept->tokens_per_rank;
  arrays->tokens_per_expert = kept->tokens_per_expert;
  arrays->in_rank = kept->in_rank;
  arrays->rank_end = kept->rank_end;
  arrays->expert_end = kept->expert_end;
  arrays->src_rank = kept->src_rank;
  arrays->src_token = kept->src_token;
  arrays->slot = kept->slot;
  return 0;
}

int ep_kept_await(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms) {
  (void)timeout_ms;
  const struct ep_kept *kept = route->kept;
  weft_ep_t *ep = route->ep;
  if (kept->state == EP_KEPT_FILLING)
    return fail(WEFT_ERR_TIMEOUT, "route_await: operation %llu, which fills the route, has not been received",
                (unsigned long long)kept->op);
  if (kept->state == EP_KEPT_SHORT)
    info->num_rows = kept->num_rows;
  int rc = ep_kept_check_filled(kept, "route_await");
  if (rc != 0)
    return rc;
  info->op = kept->op;
  info->epoch = kept->epoch;
  info->num_experts = kept->experts_per_rank;
  for (uint32_t e = 0; info->expert_rows && e < info->expert_cap && e < kept->experts_per_rank; e++)
    info->expert_rows[e] = kept->expert_rows[e];
  info->num_rows = kept->num_rows;
  info->packed_rows = kept->packed_rows;
  info->num_ranks = kept->num_sources;
  info->num_lost = 0;
  for (uint32_t i = 0; i < kept->num_sources; i++)
    info->num_lost += !kept->sources[i].came;
  ep->engine->follow(ep);
  return check_newcomers(kept, ep->view, "route_await");
}
