// The layout PACKED: the parts of the experts follow each other, so the place of a row is not known before all rows are
// counted.
#include <string.h>

#include "ep/host/host.h"
#include "ep/host/rows/rows.h"

static struct ep_batch all_of(const struct ep_op *op, const struct ep_member *member) {
  return (struct ep_batch){.number = op->number, .first = 0, .count = member->rows_in};
}

// False: a member's headers are no longer those that were counted. It is lost.
static bool lay_all(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv) {
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    if (!member->received)
      continue;
    struct ep_batch all = all_of(op, member);
    if (ep_rows_check(ep, op, i, &all) != 0 || ep_rows_fit(ep, op, i) != 0) {
      ep_rows_refuse(ep, member);
      return false;
    }
    ep_rows_lay(ep, op, i, &all, recv); // succeeds: no rows cross once
  }
  return true;
}

static void count_again(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv) {
  ep_places_begin(ep, op, recv);
  for (uint32_t i = 0; i < op->num_members; i++) {
    struct ep_member *member = &op->members[i];
    struct ep_batch all = all_of(op, member);
    member->last_in = -1;
    if (member->received && ep_rows_check(ep, op, i, &all) != 0)
      ep_rows_refuse(ep, member);
    if (member->received)
      ep_places_add(ep, op, i, ep->host->places.tally, recv);
  }
}

void ep_packed_lay(weft_ep_t *ep, struct ep_op *op, const struct weft_ep_recv_args *recv) {
  for (;;) {
    ep_places_pack(ep, recv);
    ep_places_expect(ep, op, recv);
    if (ep_places_needed(ep, recv) > recv->rows || lay_all(ep, op, recv))
      return;
    count_again(ep, op, recv); // without that member
  }
}

// Clears row `to` of the buffer, which holds no row of a token.
static void clear(const struct ep_host *host, const struct ep_form *form, const struct weft_ep_recv_args *recv,
                  size_t to) {
  if (recv->src_rank)
    recv->src_rank[to] = -1;
  if (recv->src_token)
    recv->src_token[to] = -1;
  if (recv->weights)
    recv->weights[to] = 0.0f;
  if (recv->rows_at) {
    recv->rows_at[to] = NULL;
    return;
  }
  memset((char *)recv->x + to * form->value_bytes, 0, form->value_bytes);
  if (form->scale_bytes == 0)
    return;
  uint32_t *scales = (uint32_t *)recv->scales + to * host->out_scales.row;
  for (uint32_t i = 0; i < form->scale_bytes / sizeof *scales; i++)
    scales[i * host->out_scales.block] = 0;
}

void ep_packed_pad(weft_ep_t *ep, const struct ep_op *op, const struct weft_ep_recv_args *recv) {
  const struct ep_places *places = &ep->host->places;
  for (uint32_t e = 0; e < ep->experts_per_rank; e++) {
    uint32_t end = e + 1 < ep->experts_per_rank ? places->first[e + 1] : ep_places_needed(ep, recv);
    for (uint32_t row = places->first[e] + places->total[e]; row < end; row++)
      clear(ep->host, &op->form, recv, row);
  }
}
