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
  const void *scales; // by token, where they do not lie behind the values
  bool by_token;
  uint32_t count;
  struct ep_inbox *inbox;
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
                           .inbox = &op->own_in};
  char *slot = (char *)ep_slot(layout, member->link->in.memory, op->number);
  memcpy(ep->host->heads, slot + layout->heads, member->rows_in * layout->head_stride);
  return (struct source){.rank = member->rank,
                         .heads = ep->host->heads,
                         .rows = (const uint8_t *)slot + layout->rows,
                         .stride = layout->row_stride,
                         .count = member->rows_in,
                         .inbox = &member->link->inbox[op->number % EP_DEPTH]};
}

// Row headers come from another process: nothing in them is used as an index before this, and what is checked is a copy
// that the peer cannot change.
static int check_heads(weft_ep_t *ep, const struct source *source) {
  const struct ep_layout *layout = &ep->layout;
  for (uint32_t i = 0; i < source->count; i++) {
    struct ep_row *row = ep_row_at(layout, source->heads, i);
    bool good =
        row->token >= 0 && (uint32_t)row->token < layout->max_tokens && row->count >= 1 && row->count <= layout->topk;
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
  const uint8_t *values, *scales;
};

static struct body body_of(weft_ep_t *ep, struct ep_op *op, const struct source *source, uint32_t i, uint32_t token,
                           bool in_place) {
  const struct ep_layout *layout = &ep->layout;
  const uint8_t *values = source->rows + (source->by_token ? token : i) * source->stride;
  if (source->scales && !in_place)
    return (struct body){values, (const uint8_t *)source->scales + token * layout->scale_bytes};
  if (source->scales) // who reads it in place wants them together
    values = ep_op_keep_row(ep, op, token, values, source->scales);
  return (struct body){values, values + layout->value_bytes};
}

static void lay_row(weft_ep_t *ep, const struct body *body, const struct weft_ep_recv_args *recv, size_t to) {
  const struct ep_layout *layout = &ep->layout;
  if (recv->rows_at) {
    recv->rows_at[to] = body->values;
    return;
  }
  ep->kernels->copy((char *)recv->x + to * layout->value_bytes, body->values, layout->value_bytes);
  if (layout->scale_bytes > 0)
    memcpy((char *)recv->scales + to * layout->scale_bytes, body->scales, layout->scale_bytes);
}

static void by_expert(weft_ep_t *ep, const struct source *source, uint32_t i, struct ep_row *row,
                      const struct body *body, const struct weft_ep_recv_args *recv) {
  const int16_t *experts = ep_row_experts(&ep->layout, row);
  const float *weights = ep_row_weights(row);
  size_t at = (size_t)i * ep->layout.topk;
  for (uint32_t j = 0; j < row->count; j++) {
    uint32_t place = ep->host->cursor[experts[j]]++;
    size_t to = (size_t)experts[j] * recv->rows + place;
    source->inbox->index[at + j] = (int32_t)to;
    source->inbox->weight[at + j] = weights[j];
    if (place >= recv->rows)
      continue; // counted; see ep_expand_needed
    lay_row(ep, body, recv, to);
    if (recv->src_rank)
      recv->src_rank[to] = source->rank;
    if (recv->src_token)
      recv->src_token[to] = row->token;
  }
  source->inbox->count[i] = (uint8_t)row->count;
}

static void by_rank(weft_ep_t *ep, const struct source *source, uint32_t i, struct ep_row *row, const struct body *body,
                    const struct weft_ep_recv_args *recv) {
  uint32_t topk = ep->layout.topk;
  const int16_t *experts = ep_row_experts(&ep->layout, row);
  uint32_t to = ep->host->laid_rows++;
  source->inbox->index[(size_t)i * topk] = (int32_t)to;
  source->inbox->count[i] = 1;
  for (uint32_t j = 0; j < row->count; j++)
    ep->host->cursor[experts[j]]++;
  if (to >= recv->rows)
    return;
  lay_row(ep, body, recv, to);
  if (recv->src_rank)
    recv->src_rank[to] = source->rank;
  if (recv->src_token)
    recv->src_token[to] = row->token;
  for (uint32_t k = 0; k < topk; k++) {
    if (recv->local_expert)
      recv->local_expert[(size_t)to * topk + k] = k < row->count ? experts[k] : -1;
    if (recv->weights)
      recv->weights[(size_t)to * topk + k] = k < row->count ? ep_row_weights(row)[k] : 0.0f;
  }
}

void ep_expand_begin(weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  memset(ep->host->cursor, 0, ep->experts_per_rank * sizeof *ep->host->cursor);
  ep->host->laid_rows = 0;
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

int ep_expand(weft_ep_t *ep, struct ep_op *op, uint32_t member, const struct weft_ep_recv_args *recv) {
  struct source source = source_of(ep, op, member);
  int rc = check_heads(ep, &source);
  if (rc != 0)
    return rc;
  note_range(ep, recv, source.rank, false);
  for (uint32_t i = 0; i < source.count; i++) {
    struct ep_row *row = ep_row_at(&ep->layout, source.heads, i);
    struct body body = body_of(ep, op, &source, i, (uint32_t)row->token, recv->rows_at != NULL);
    if (recv->layout != WEFT_EP_RANK_MAJOR)
      by_expert(ep, &source, i, row, &body, recv);
    else
      by_rank(ep, &source, i, row, &body, recv);
  }
  note_range(ep, recv, source.rank, true);
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
