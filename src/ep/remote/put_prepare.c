// Prepares the requests that publish the parts of a link's slots, once for each link.
#include <stdlib.h>

#include "base/fail.h"
#include "ep/remote/requests.h"

static struct transport_piece piece(struct ep_remote *remote, size_t offset, size_t length) {
  return (struct transport_piece){.local = remote->out,
                                  .remote = remote->area,
                                  .local_address = (uintptr_t)remote->link->out.memory + offset,
                                  .remote_address = remote->area->address + offset,
                                  .length = length};
}

// Offsets in a slot: of rows (`rows`), and of their heads (`heads`; stride 0: none). `head_base`: bytes at `heads`
// before the head of the first row.
struct extent {
  size_t rows, row_stride, heads, head_stride, head_base;
};

static int prepare_chunks(struct ep_remote *remote, struct ep_publication *part, size_t rows_at, uint32_t most) {
  for (uint32_t i = 0; i < part->num_chunks; i++) {
    uint32_t first = i * part->chunk_rows, rows = most - first < part->chunk_rows ? most - first : part->chunk_rows;
    part->pieces[i] = piece(remote, rows_at + (size_t)first * part->strides[0], (size_t)rows * part->strides[0]);
    int rc = ep_request_prepare(remote, &part->chunks[i], ep_put_chunk_left, part, &part->pieces[i], 1);
    if (rc != 0)
      return rc;
  }
  return 0;
}

static int prepare_part(struct ep_remote *remote, uint32_t slot, enum ep_part which, const struct extent *extent) {
  uint32_t most = remote->ep->layout.window_rows;
  struct ep_publication *part = &remote->parts[slot][which];
  uint32_t least = EP_CHUNK_BYTES / (uint32_t)extent->row_stride,
           chunks = remote->ep->layout.flows ? EP_FLOW_CHUNKS : EP_CHUNKS, even = (most + chunks - 1) / chunks;
  part->chunk_rows = least > even ? least : even;
  if (part->chunk_rows > most)
    part->chunk_rows = most;
  part->num_chunks = (most + part->chunk_rows - 1) / part->chunk_rows;
  part->strides[0] = (uint32_t)extent->row_stride;
  part->strides[1] = (uint32_t)extent->head_stride;
  part->head_base = (uint32_t)extent->head_base;
  part->chunks = calloc(part->num_chunks, sizeof *part->chunks);
  part->pieces = calloc(part->num_chunks, sizeof *part->pieces);
  if (!part->chunks || !part->pieces)
    return fail(WEFT_ERR_NOMEM, "no memory for the link to rank %d", remote->link->rank);
  size_t begins =
      (size_t)((char *)ep_slot(&remote->ep->layout, remote->link->out.memory, slot) - (char *)remote->link->out.memory);
  int rc = prepare_chunks(remote, part, begins + extent->rows, most);
  part->heads_piece = piece(remote, begins + extent->heads, extent->head_base + most * extent->head_stride);
  if (rc == 0 && extent->head_stride)
    rc = ep_request_prepare(remote, &part->heads, ep_put_chunk_left, part, &part->heads_piece, 1);
  part->last_pieces[0] = part->pieces[0];
  part->last_pieces[1] = piece(remote, begins + extent->heads, // `alone` has no more
                               extent->head_base + part->chunk_rows * extent->head_stride);
  if (rc == 0)
    rc =
        ep_message_prepare(remote, &part->last, ep_put_last_left, part, part->last_pieces, extent->head_stride ? 2 : 1);
  return rc;
}

int ep_put_prepare(struct ep_remote *remote) {
  const struct ep_layout *layout = &remote->ep->layout;
  const struct extent extents[EP_PARTS] = {
      [EP_PART_DISPATCH] = {layout->rows, layout->row_stride, layout->counts, layout->head_stride,
                            layout->heads - layout->counts},
      [EP_PART_WEIGHTS] = {.rows = layout->weights, .row_stride = layout->topk * sizeof(float)},
      [EP_PART_COMBINE] = {.rows = layout->combine, .row_stride = layout->combine_stride},
  };
  int rc = ep_words_prepare(remote);
  for (uint32_t slot = 0; slot < EP_DEPTH; slot++)
    for (int part = 0; rc == 0 && part < EP_PARTS; part++)
      rc = prepare_part(remote, slot, part, &extents[part]);
  return rc;
}
