// From the rows of a window to the layout that the caller asked for: by expert, or by rank.
#include <string.h>

#include "base/fail.h"
#include "ep/host/host.h"

// Rows of one member: in its window, or this rank's own.
struct source {
  int32_t rank;
  void *heads;
  const uint8_t *rows; // row i at i * stride; `by_token`: at token * stride
  size_t stride;
  struct ep_scales scales; // by token, where they do not lie behind the values
  bool by_token;
  uint32_t count;
  bool absent;            // they did not come: rows of 0 stand in their places,
  struct ep_inbox *inbox; // and nothing is answered: NULL
};

static struct source source_of(weft_ep_t *ep, struct ep_op *op, uint32_t index) {
  const struct ep_layout *layout = &ep->layout;
  struct ep_member *member = &op->members[index];
  if (!member->link)
    return (struct source){.rank = member->rank,
                           .heads = op->own_heads,
                           .rows = op->own_rows,
                           .stride = op->own_stride,
                           .scales = op->own_scales,
                           .by_token = true,
                           .count = member->rows_in,
                           .inbox = ep_op_inbox(op, member)};
  char *slot = (char *)ep_slot(layout, member->link->in.memory, op->number);
  if (!ep_op_keeps(op))
    memcpy(ep->host->heads, slot + layout->heads, member->rows_in * layout->head_stride);
  return (struct source){.rank = member->rank,
                         .heads = ep->host->heads,
                         .rows = (const uint8_t *)slot + layout->rows,
                         .stride = layout->row_stride,
                         .count = member->rows_in,
                         .inbox = ep_op_inbox(op, member)};
}

// By a route: the row headers are those that it has kept.
static struct source kept_source_of(weft_ep_t *ep, struct ep_op *op, uint32_t index) {
  const struct ep_kept *kept = op->route->kept;
  struct source source = source_of(ep, op, index);
  const struct ep_kept_source *from = ep_kept_find(kept, source.rank, op->members[index].incarnation);
  source.heads = ep_kept_heads(kept, from);
  return source;
}

static struct source absent_source_of(weft_ep_t *ep, const struct ep_op *op, const struct ep_kept_source *from) {
  return (struct source){.rank = from->rank,
                         .heads = ep_kept_heads(op->route->kept, from),
                         .rows = ep->host->no_row,
                         .count = from->rows,
                         .absent = true};
}

// Row headers come from another process: nothing in them is used as an index before this, and what is checked is a copy
// that the peer cannot change.
static int check_heads(weft_ep_t *ep, const struct source *source, uint32_t topk) {
  const struct ep_layout *layout = &ep->layout;
  for (uint32_t i = 0; i < source->count; i++) {
    struct ep_row *row = ep_row_at(layout, source->heads, i);
    bool good = row->token >= 0 && (uint32_t)row->token < layout->max_tokens && row->count >= 1 && row->count <= topk &&
                row->places >> topk == 0 && __builtin_popcount(row->places) == row->count;
    const int16_t *experts = ep_row_experts(layout, row);
    for (uint32_t j = 0; good && j < row->count; j++)
      good = experts[j] >= 0 && (uint32_t)experts[j] < ep->experts_per_rank;
    if (!good)
      return fail(WEFT_ERR_PROTOCOL, "row %u of rank %d has a header that is none", i, source->rank);
  }
  return 0;
}

// Where a row lies.
struct body {
  const uint8_t *values;
  const uint32_t *scales; // the first
  uint64_t scale_block;   // words to the next
};

static struct body body_of(weft_ep_t *ep, struct ep_op *op, const struct source *source, uint32_t i, uint32_t token,
                           bool in_place) {
  const struct ep_scales *scales = &source->scales;
  const uint8_t *values = source->rows + (source->by_token ? token : i) * source->stride;
  if (scales->words && !in_place)
    return (struct body){values, scales->words + token * scales->row, scales->block};
  if (scales->words) // who reads it in place wants them together
    values = ep_op_keep_row(ep, op, token, values, scales);
  return (struct body){values, (const uint32_t *)(values + op->form.value_bytes), 1};
}

// To row `to` of all, which is row `place` of part `part`.
static void lay_row(weft_ep_t *ep, const struct ep_form *form, const struct body *body,
                    const struct weft_ep_recv_args *recv, size_t to, uint32_t part, uint32_t place) {
  if (recv->rows_at) {
    recv->rows_at[to] = body->values;
    return;
  }
  ep->kernels->copy((char *)recv->x + to * form->value_bytes, body->values, form->value_bytes);
  if (form->scale_bytes == 0)
    return;
  const struct ep_scales *out = &ep->host->out_scales;
  uint32_t *scales = (uint32_t *)recv->scales + part * ep->host->out_scales_expert + place * out->row;
  ep_copy_scales(scales, out->block, body->scales, body->scale_block, form->scale_bytes);
}

static void by_expert(weft_ep_t *ep, const struct ep_op *op, const struct source *source, uint32_t i,
                      struct ep_row *row, const struct body *body, const struct weft_ep_recv_args *recv) {
  const int16_t *experts = ep_row_experts(&ep->layout, row);
  const float *weights = ep_row_weights(row);
  size_t at = (size_t)i * ep->layout.topk;
  for (uint32_t j = 0; j < row->count; j++) {
    uint32_t place = ep->host->cursor[experts[j]]++;
    size_t to = (size_t)experts[j] * recv->rows + place;
    if (!source->absent) {
      source->inbox->index[at + j] = (int32_t)to;
      source->inbox->weight[at + j] = weights[j];
    }
    if (place >= recv->rows)
      continue; // counted; see ep_expand_needed
    lay_row(ep, &op->form, body, recv, to, (uint32_t)experts[j], place);
    if (recv->src_rank)
      recv->src_rank[to] = source->rank;
    if (recv->src_token)
      recv->src_token[to] = source->absent ? -1 : row->token;
  }
  if (!source->absent)
    source->inbox->count[i] = (uint8_t)row->count;
}

// The local experts and weights of a row that is RANK_MAJOR: first, or at their places in the token's top-k.
static void lay_selections(const struct ep_layout *layout, uint32_t topk, struct ep_row *row, bool absent,
                           const struct weft_ep_recv_args *recv, uint32_t to) {
  const int16_t *experts = ep_row_experts(layout, row);
  const float *weights = ep_row_weights(row);
  uint32_t places = recv->flags & WEFT_EP_RECV_KEEP_PLACES ? row->places : (1u << row->count) - 1, next = 0;
  for (uint32_t k = 0; k < topk; k++) {
    bool here = !absent && places >> k & 1;
    if (recv->local_expert)
      recv->local_expert[(size_t)to * topk + k] = here ? experts[next] : -1;
    if (recv->weights)
      recv->weights[(size_t)to * topk + k] = here ? weights[next] : 0.0f;
    next += here;
  }
}

static void by_rank(weft_ep_t *ep, const struct ep_op *op, const struct source *source, uint32_t i, struct ep_row *row,
                    const struct body *body, const struct weft_ep_recv_args *recv) {
  const int16_t *experts = ep_row_experts(&ep->layout, row);
  uint32_t to = ep->host->laid_rows++;
  if (!source->absent) {
    source->inbox->index[(size_t)i * ep->layout.topk] = (int32_t)to;
    source->inbox->count[i] = 1;
  }
  for (uint32_t j = 0; j < row->count; j++)
    ep->host->cursor[experts[j]]++;
  if (to >= recv->rows)
    return;
  lay_row(ep, &op->form, body, recv, to, 0, to);
  if (recv->src_rank)
    recv->src_rank[to] = source->rank;
  if (recv->src_token)
    recv->src_token[to] = source->absent ? -1 : row->token;
  lay_selections(&ep->layout, op->topk, row, source->absent, recv, to);
}

// Where the scales of this form are to lie.
static void place_scales(struct ep_host *host, const struct ep_form *form, const struct weft_ep_recv_args *recv) {
  uint64_t words = form->scale_bytes / sizeof(uint32_t);
  host->out_scales.row = recv->scale_row_stride ? recv->scale_row_stride : words;
  host->out_scales.block = recv->scale_block_stride ? recv->scale_block_stride : 1;
  host->out_scales_expert = recv->scale_expert_stride ? recv->scale_expert_stride : recv->rows * words;
}

void ep_expand_begin(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv) {
  memset(ep->host->cursor, 0, ep->experts_per_rank * sizeof *ep->host->cursor);
  ep->host->laid_rows = ep->host->laid_sources = 0;
  if (recv && op->fills)
    ep_kept_begin_rows(op->route->kept, op->num_members);
  if (recv)
    place_scales(ep->host, &op->form, recv);
  if (!recv || !recv->range)
    return;
  size_t ranges = recv->layout != WEFT_EP_RANK_MAJOR ? (size_t)ep->experts_per_rank * ep->capacity : ep->capacity;
  memset(recv->range, 0, ranges * sizeof *recv->range);
}

// begin << 32 | count. `end` false: notes where the member begins; true: how many rows it brought.
static void note_range(weft_ep_t *ep, const struct weft_ep_recv_args *recv, int32_t rank, bool end) {
  if (!recv->range)
    return;
  bool experts = recv->layout != WEFT_EP_RANK_MAJOR;
  for (uint32_t e = 0; e < (experts ? ep->experts_per_rank : 1); e++) {
    int64_t *range = &recv->range[(size_t)e * ep->capacity + (size_t)rank];
    int64_t at = experts ? ep->host->cursor[e] : ep->host->laid_rows;
    *range = end ? *range | (at - (*range >> 32)) : at << 32;
  }
}

static void lay_source(weft_ep_t *ep, struct ep_op *op, const struct source *source,
                       const struct weft_ep_recv_args *recv) {
  note_range(ep, recv, source->rank, false);
  for (uint32_t i = 0; i < source->count; i++) {
    struct ep_row *row = ep_row_at(&ep->layout, source->heads, i);
    struct body body = body_of(ep, op, source, i, (uint32_t)row->token, recv->rows_at != NULL);
    if (recv->layout != WEFT_EP_RANK_MAJOR)
      by_expert(ep, op, source, i, row, &body, recv);
    else
      by_rank(ep, op, source, i, row, &body, recv);
  }
  note_range(ep, recv, source->rank, true);
}

void ep_expand_absent(weft_ep_t *ep, struct ep_op *op, int32_t below, const struct weft_ep_recv_args *recv) {
  const struct ep_kept *kept = op->route->kept;
  uint32_t *next = &ep->host->laid_sources;
  for (; *next < kept->num_sources && kept->sources[*next].rank < below; ++*next) {
    struct source source = absent_source_of(ep, op, &kept->sources[*next]);
    lay_source(ep, op, &source, recv);
  }
}

// By a route: the rows of a member that brings none are laid out when it is the next one's turn.
static void expand_kept(weft_ep_t *ep, struct ep_op *op, uint32_t member, const struct weft_ep_recv_args *recv) {
  ep_expand_absent(ep, op, op->members[member].rank, recv);
  if (op->members[member].rows_in == 0)
    return;
  struct source source = kept_source_of(ep, op, member);
  lay_source(ep, op, &source, recv);
  ep->host->laid_sources++;
}

int ep_expand(weft_ep_t *ep, struct ep_op *op, uint32_t member, const struct weft_ep_recv_args *recv) {
  if (ep_op_keeps(op)) {
    expand_kept(ep, op, member, recv);
    return 0;
  }
  struct source source = source_of(ep, op, member);
  int rc = check_heads(ep, &source, op->topk);
  if (rc != 0)
    return rc;
  lay_source(ep, op, &source, recv);
  if (op->fills)
    ep_kept_take_rows(op->route->kept, member, source.heads, source.inbox, source.count);
  return 0;
}

uint32_t ep_expand_needed(const weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  if (recv->layout == WEFT_EP_RANK_MAJOR)
    return ep->host->laid_rows;
  uint32_t most = 0;
  for (uint32_t e = 0; e < ep->experts_per_rank; e++)
    if (ep->host->cursor[e] > most)
      most = ep->host->cursor[e];
  return most;
}

uint32_t ep_expand_end(weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  uint32_t rows = 0;
  for (uint32_t e = 0; e < ep->experts_per_rank; e++) {
    recv->counts[e] = (int32_t)ep->host->cursor[e];
    if (recv->expert_total)
      recv->expert_total[e] += (int32_t)ep->host->cursor[e];
    rows += ep->host->cursor[e];
  }
  return recv->layout != WEFT_EP_RANK_MAJOR ? rows : ep->host->laid_rows;
}
