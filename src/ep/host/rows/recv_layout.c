// Copies rows from a window to the layout that the caller asked for: by expert, or by rank. recv_places.c computes
// their places. packed.c has what only PACKED needs.
#include <string.h>

#include "base/fail.h"
#include "ep/host/host.h"
#include "ep/host/rows/rows.h"
#include "ep/remote/neighbours.h"

// Contiguous rows of one member, in its window, or this rank's own rows.
struct source {
  uint32_t places; // its index among the places: the member's; with a route, that of the route's source
  int32_t rank;
  void *heads;         // header of the first row
  const uint8_t *rows; // row i of these at i * stride; `by_token`: at token * stride
  size_t stride;
  struct ep_scales scales; // by token, if they do not lie behind the values
  bool by_token;
  struct ep_link *names;  // headers name the windows of the rows of this link; NULL: all are in this one
  size_t slot;            // with `names`: offset of the slot's rows in any window
  const uint64_t *wheres; // with `names` and a route: where each row lies, since there are no headers that say it
  struct ep_inbox *inbox;
};

static struct source source_of(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch) {
  const struct ep_layout *layout = &ep->layout;
  struct ep_member *member = &op->members[index];
  if (!member->link)
    return (struct source){.places = index,
                           .rank = member->rank,
                           .heads = ep_row_at(layout, op->own_heads, batch->first),
                           .rows = op->own_rows,
                           .stride = op->own_stride,
                           .scales = op->own_scales,
                           .by_token = true,
                           .inbox = ep_op_inbox(op, member)};
  char *slot = (char *)ep_slot(layout, member->link->in.memory, batch->number);
  return (struct source){.places = index,
                         .rank = member->rank,
                         .heads = ep->host->heads,
                         .rows = (const uint8_t *)slot + layout->rows,
                         .stride = layout->row_stride,
                         .names = member->once_in ? member->link : NULL,
                         .slot = (size_t)(slot - (char *)member->link->in.memory) + layout->rows,
                         .inbox = ep_op_inbox(op, member)};
}

// Rows in the window of another rank that a header names; NULL: this rank does not read that window.
static const uint8_t *named_rows(const weft_ep_t *ep, const struct source *source, uint64_t where) {
  const uint8_t *area = ep_neighbours_area(ep, source->names, ep_where_area(where));
  return area ? area + source->slot : NULL;
}

// Whether the row lies in a window that this rank can read, in the slot of the piece.
static bool is_placed(const weft_ep_t *ep, const struct source *source, uint64_t where) {
  return ep_where_row(where) < ep->layout.window_rows &&
         (ep_where_area(where) == 0 || named_rows(ep, source, where) != NULL);
}

// With a route no row headers arrive. If rows cross once, a word for each row says where it lies: copies and checks
// these.
static int read_wheres(weft_ep_t *ep, struct source *source, const struct ep_batch *batch) {
  uint64_t *wheres = (uint64_t *)ep->host->heads;
  memcpy(wheres, ep_wheres(&ep->layout, ep_slot(&ep->layout, source->names->in.memory, batch->number)),
         batch->count * sizeof *wheres);
  ep->host->named = 0;
  for (uint32_t i = 0; i < batch->count; i++) {
    if (!is_placed(ep, source, wheres[i]))
      return fail(WEFT_ERR_PROTOCOL, "row %u of rank %d lies in no window that this rank reads", batch->first + i,
                  source->rank);
    ep->host->named += ep_where_area(wheres[i]) != 0;
  }
  source->wheres = wheres;
  return 0;
}

// Row headers come from another process: nothing in them is used as an index before this check, and the check reads a
// copy that the peer cannot change.
int ep_rows_check(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch) {
  const struct ep_layout *layout = &ep->layout;
  struct source source = source_of(ep, op, index, batch);
  struct ep_member *member = &op->members[index];
  uint32_t *tally = ep->host->places.tally;
  if (member->link)
    memcpy(source.heads, (char *)ep_slot(layout, member->link->in.memory, batch->number) + layout->heads,
           batch->count * layout->head_stride);
  memset(tally, 0, ep->experts_per_rank * sizeof *tally);
  ep->host->named = 0;
  int32_t last = member->last_in;
  for (uint32_t i = 0; i < batch->count; i++) {
    struct ep_row *row = ep_row_at(layout, source.heads, i);
    bool good = row->token > last && (uint32_t)row->token < layout->max_tokens && row->count >= 1 &&
                row->count <= op->topk && row->places >> op->topk == 0 && __builtin_popcount(row->places) == row->count;
    const int16_t *experts = ep_row_experts(layout, row);
    for (uint32_t j = 0; good && j < row->count; j++) {
      good = experts[j] >= 0 && (uint32_t)experts[j] < ep->experts_per_rank;
      if (good)
        tally[experts[j]]++;
    }
    if (good && source.names) {
      uint64_t where = *ep_row_where(layout, row);
      good = is_placed(ep, &source, where);
      ep->host->named += ep_where_area(where) != 0;
    }
    if (!good)
      return fail(WEFT_ERR_PROTOCOL, "row %u of rank %d has an invalid header", batch->first + i, source.rank);
    last = row->token;
  }
  return 0;
}

int ep_rows_fit(weft_ep_t *ep, const struct ep_op *op, uint32_t index) {
  const uint32_t *left = ep_places_left(ep, index), *tally = ep->host->places.tally;
  for (uint32_t e = 0; e < ep->experts_per_rank; e++)
    if (tally[e] > left[e])
      return fail(WEFT_ERR_PROTOCOL, "rank %d sends more rows for local expert %u than it has announced",
                  op->members[index].rank, e);
  return 0;
}

int ep_rows_complete(weft_ep_t *ep, const struct ep_op *op, uint32_t index) {
  const uint32_t *left = ep_places_left(ep, index);
  for (uint32_t e = 0; e < ep->experts_per_rank; e++)
    if (left[e] > 0)
      return fail(WEFT_ERR_PROTOCOL, "rank %d sends %u rows fewer for local expert %u than it has announced",
                  op->members[index].rank, left[e], e);
  return 0;
}

// Where a row lies.
struct body {
  const uint8_t *values;
  const uint32_t *scales; // the first
  uint64_t scale_block;   // words to the next one
};

static const uint8_t *values_of(weft_ep_t *ep, const struct source *source, uint32_t i, struct ep_row *row) {
  if (!source->names)
    return source->rows + (source->by_token ? (uint32_t)row->token : i) * source->stride;
  uint64_t where = source->wheres ? source->wheres[i] : *ep_row_where(&ep->layout, row);
  const uint8_t *rows = ep_where_area(where) ? named_rows(ep, source, where) : source->rows;
  return rows + ep_where_row(where) * source->stride;
}

static struct body body_of(weft_ep_t *ep, struct ep_op *op, const struct source *source, uint32_t i, struct ep_row *row,
                           bool in_place) {
  const struct ep_scales *scales = &source->scales;
  const uint8_t *values = values_of(ep, source, i, row);
  uint32_t token = (uint32_t)row->token;
  if (scales->words && !in_place)
    return (struct body){values, scales->words + token * scales->row, scales->block};
  if (scales->words) // a reader in place needs values and scales together
    values = ep_op_keep_row(ep, op, token, values, scales);
  return (struct body){values, (const uint32_t *)(values + op->form.value_bytes), 1};
}

// Writes row `to` of the buffer, which is row `place` of part `part`.
static void lay_row(weft_ep_t *ep, const struct ep_form *form, const struct body *body,
                    const struct weft_ep_recv_args *recv, size_t to, uint32_t part, uint32_t place) {
  if (recv->rows_at) {
    recv->rows_at[to] = body->values;
    return;
  }
  uint64_t *laid = &ep->host->places.laid;
  *laid += form->value_bytes;
  bool past = *laid > EP_CACHED_BYTES;
  (past ? ep->kernels->stream : ep->kernels->copy)((char *)recv->x + to * form->value_bytes, body->values,
                                                   form->value_bytes);
  if (form->scale_bytes == 0)
    return;
  const struct ep_scales *out = &ep->host->out_scales;
  uint32_t *scales = (uint32_t *)recv->scales + part * ep->host->out_scales_expert + place * out->row;
  ep_copy_scales(scales, out->block, body->scales, body->scale_block, form->scale_bytes);
}

// PACKED: writes where a token's selections are, at their places in its top-k.
static void lay_slots(uint32_t topk, const struct ep_row *row, const int32_t *index, int32_t *slots) {
  uint32_t next = 0;
  for (uint32_t k = 0; k < topk; k++)
    slots[k] = row->places >> k & 1 ? index[next++] : -1;
}

// `at`: index of the row among its source's rows.
static void by_expert(weft_ep_t *ep, const struct ep_op *op, const struct source *source, uint32_t at,
                      struct ep_row *row, const struct body *body, const struct weft_ep_recv_args *recv) {
  const int16_t *experts = ep_row_experts(&ep->layout, row);
  const float *weights = ep_row_weights(row);
  uint32_t *left = ep_places_left(ep, source->places), *next = ep_places_next(ep, source->places);
  size_t entry = (size_t)at * ep->layout.topk;
  bool packed = recv->layout == WEFT_EP_PACKED;
  for (uint32_t j = 0; j < row->count; j++) {
    uint32_t place = next[experts[j]]++;
    left[experts[j]]--;
    size_t to = ep->host->places.first[experts[j]] + place;
    source->inbox->index[entry + j] = (int32_t)to;
    source->inbox->weight[entry + j] = weights[j];
    if (place >= recv->rows)
      continue; // only counted; see ep_places_needed()
    lay_row(ep, &op->form, body, recv, to, packed ? 0 : (uint32_t)experts[j], packed ? (uint32_t)to : place);
    if (recv->src_rank)
      recv->src_rank[to] = source->rank;
    if (recv->src_token)
      recv->src_token[to] = row->token;
    if (packed && recv->weights)
      recv->weights[to] = weights[j];
  }
  source->inbox->count[at] = (uint8_t)row->count;
  source->inbox->places[at] = row->places;
  if (!packed)
    return;
  uint32_t pair = ep->host->places.next_row[source->places]++;
  if (recv->slot)
    lay_slots(op->topk, row, source->inbox->index + entry, recv->slot + (size_t)pair * op->topk);
}

// RANK_MAJOR: writes the local experts and weights of a row: in front, or at their places in the token's top-k.
static void lay_selections(const struct ep_layout *layout, uint32_t topk, struct ep_row *row,
                           const struct weft_ep_recv_args *recv, uint32_t to) {
  const int16_t *experts = ep_row_experts(layout, row);
  const float *weights = ep_row_weights(row);
  uint32_t places = recv->flags & WEFT_EP_RECV_KEEP_PLACES ? row->places : (1u << row->count) - 1, next = 0;
  for (uint32_t k = 0; k < topk; k++) {
    bool here = places >> k & 1;
    if (recv->local_expert)
      recv->local_expert[(size_t)to * topk + k] = here ? experts[next] : -1;
    if (recv->weights)
      recv->weights[(size_t)to * topk + k] = here ? weights[next] : 0.0f;
    next += here;
  }
}

static void by_rank(weft_ep_t *ep, const struct ep_op *op, const struct source *source, uint32_t at, struct ep_row *row,
                    const struct body *body, const struct weft_ep_recv_args *recv) {
  const int16_t *experts = ep_row_experts(&ep->layout, row);
  uint32_t *left = ep_places_left(ep, source->places), to = ep->host->places.next_row[source->places]++;
  source->inbox->index[(size_t)at * ep->layout.topk] = (int32_t)to;
  source->inbox->count[at] = 1;
  for (uint32_t j = 0; j < row->count; j++)
    left[experts[j]]--;
  if (to >= recv->rows)
    return;
  lay_row(ep, &op->form, body, recv, to, 0, to);
  if (recv->src_rank)
    recv->src_rank[to] = source->rank;
  if (recv->src_token)
    recv->src_token[to] = row->token;
  lay_selections(&ep->layout, op->topk, row, recv, to);
}

static void lay(weft_ep_t *ep, struct ep_op *op, const struct source *source, const struct ep_batch *batch,
                const struct weft_ep_recv_args *recv) {
  for (uint32_t i = 0; i < batch->count; i++) {
    struct ep_row *row = ep_row_at(&ep->layout, source->heads, i);
    struct body body = body_of(ep, op, source, i, row, recv->rows_at != NULL);
    if (recv->layout != WEFT_EP_RANK_MAJOR)
      by_expert(ep, op, source, batch->first + i, row, &body, recv);
    else
      by_rank(ep, op, source, batch->first + i, row, &body, recv);
  }
}

// Rows in the windows of other ranks are overwritten when the source does not wait for this rank any more. The source
// has announced that before. In this case the rows are not laid out, and their places stay unchanged.
static int lay_named(weft_ep_t *ep, struct ep_op *op, const struct source *source, const struct ep_batch *batch,
                     const struct weft_ep_recv_args *recv) {
  ep_places_save(ep, source->places);
  lay(ep, op, source, batch, recv);
  if (!ep_link_takes_us_for_lost(source->names))
    return 0;
  ep_places_restore(ep, source->places);
  ep_link_down(ep, source->names, EP_LINK_DOUBTED, "it takes this rank for lost");
  return fail(WEFT_ERR_PEER_LOST, "rank %d takes this rank for lost", source->rank);
}

static int lay_checked(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct source *source,
                       const struct ep_batch *batch, const struct weft_ep_recv_args *recv) {
  uint32_t named = source->names ? ep->host->named : 0;
  if (named > 0 && lay_named(ep, op, source, batch, recv) != 0)
    return WEFT_ERR_PEER_LOST;
  if (named == 0)
    lay(ep, op, source, batch, recv);
  op->members[index].rows_own += batch->count - named;
  return 0;
}

int ep_rows_lay(weft_ep_t *ep, struct ep_op *op, uint32_t index, const struct ep_batch *batch,
                const struct weft_ep_recv_args *recv) {
  struct source source = source_of(ep, op, index, batch);
  if (lay_checked(ep, op, index, &source, batch, recv) != 0)
    return WEFT_ERR_PEER_LOST;
  if (batch->count > 0)
    op->members[index].last_in = ep_row_at(&ep->layout, source.heads, batch->count - 1)->token;
  if (op->fills)
    ep_kept_take_rows(op->route->kept, index, batch->first, batch->count, source.heads, source.inbox);
  return 0;
}

int ep_rows_lay_kept(weft_ep_t *ep, struct ep_op *op, uint32_t index, uint32_t from, const struct ep_batch *batch,
                     const struct weft_ep_recv_args *recv) {
  const struct ep_kept *kept = op->route->kept;
  struct source source = source_of(ep, op, index, batch);
  source.places = from;
  source.heads = ep_row_at(&kept->layout, ep_kept_heads(kept, &kept->sources[from]), batch->first);
  int rc = source.names ? read_wheres(ep, &source, batch) : 0;
  return rc != 0 ? rc : lay_checked(ep, op, index, &source, batch, recv);
}

void ep_rows_refuse(weft_ep_t *ep, struct ep_member *member) {
  member->received = false;
  member->rows_in = 0;
  member->lost = true;
  if (member->link)
    ep_link_down(ep, member->link, EP_LINK_BROKEN, weft_last_error());
}

// --- rows that will not come ---

// Writes row `to` of the buffer, as in lay_row().
static void lay_none(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv, int32_t rank,
                     size_t to, uint32_t part, uint32_t place) {
  const struct body body = {ep->host->no_row, (const uint32_t *)(ep->host->no_row + op->form.value_bytes), 1};
  lay_row(ep, &op->form, &body, recv, to, part, place);
  if (recv->src_rank)
    recv->src_rank[to] = rank;
  if (recv->src_token)
    recv->src_token[to] = -1;
}

static void lay_no_selections(const struct ep_op *op, const struct weft_ep_recv_args *recv, uint32_t row) {
  for (uint32_t k = 0; k < op->topk; k++) {
    size_t at = (size_t)row * op->topk + k;
    if (recv->local_expert)
      recv->local_expert[at] = -1;
    if (recv->weights)
      recv->weights[at] = 0.0f;
  }
}

void ep_rows_lay_lost(weft_ep_t *ep, const struct ep_op *op, uint32_t index, uint32_t laid,
                      const struct weft_ep_recv_args *recv) {
  ep_rows_lay_none(ep, op, index, op->members[index].rank, laid, op->members[index].rows_in, recv);
}

void ep_rows_lay_none(weft_ep_t *ep, const struct ep_op *op, uint32_t index, int32_t rank, uint32_t laid, uint32_t rows,
                      const struct weft_ep_recv_args *recv) {
  uint32_t *left = ep_places_left(ep, index), *next = ep_places_next(ep, index);
  bool by_rank = recv->layout == WEFT_EP_RANK_MAJOR, packed = recv->layout == WEFT_EP_PACKED;
  for (uint32_t e = 0; !by_rank && e < ep->experts_per_rank; e++)
    for (; left[e] > 0; left[e]--) {
      uint32_t place = next[e]++, to = ep->host->places.first[e] + place;
      lay_none(ep, op, recv, rank, to, packed ? 0 : e, packed ? to : place);
      if (packed && recv->weights)
        recv->weights[to] = 0.0f;
    }
  for (uint32_t i = laid; (by_rank || packed) && i < rows; i++) {
    uint32_t row = ep->host->places.next_row[index]++; // PACKED: among the pairs of rank and token
    if (by_rank) {
      lay_none(ep, op, recv, rank, row, 0, row);
      lay_no_selections(op, recv, row);
    }
    for (uint32_t k = 0; recv->slot && k < op->topk; k++)
      recv->slot[(size_t)row * op->topk + k] = -1;
  }
}
