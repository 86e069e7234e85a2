// Sends flags and rows of a link to another host: rows from the shadow, in chunks, and the words after them.
#include <string.h>

#include "ep/remote/requests.h"

enum { ZERO_COPY_BYTES = 64 << 10 }; // smallest chunk for zero copy; smaller ones are copied

static struct ep_slot_head *slot_of(const struct ep_remote *remote, void *area, uint64_t op) {
  return ep_slot(&remote->ep->layout, area, op);
}

// Adds the header of a dispatch, its flag last, and before it the start, which the peer reads with the header.
static void add_dispatch(struct ep_update *update, struct ep_remote *remote, uint64_t op) {
  struct ep_dispatch_head *head = &slot_of(remote, remote->link->out.memory, op)->dispatch;
  uint64_t words[sizeof *head / sizeof(uint64_t)];
  memcpy(words, head, sizeof words);
  ep_message_add_start(update, remote);
  size_t at = ep_message_offset(remote, head);
  for (size_t i = 1; i <= offsetof(struct ep_dispatch_head, route_rows) / sizeof *words; i++)
    ep_message_add(update, EP_PLACE_AREA, at + i * sizeof *words, words[i]);
  ep_message_add(update, EP_PLACE_AREA, at, op + 1);
}

static void add_part(struct ep_update *update, struct ep_remote *remote, uint64_t op, enum ep_part part) {
  struct ep_slot_head *slot = slot_of(remote, remote->link->out.memory, op);
  if (part == EP_PART_DISPATCH)
    add_dispatch(update, remote, op);
  else if (part == EP_PART_WEIGHTS)
    ep_message_add(update, EP_PLACE_AREA, ep_message_offset(remote, &slot->weights.flag),
                   atomic_load_explicit(&slot->weights.flag, memory_order_relaxed));
  else
    ep_message_add(update, EP_PLACE_AREA, ep_message_offset(remote, &slot->combine.flag),
                   atomic_load_explicit(&slot->combine.flag, memory_order_relaxed));
}

// --- parts ---

static struct ep_publication *part_of(struct ep_remote *remote, uint64_t op, enum ep_part part) {
  return &remote->parts[op % EP_DEPTH][part];
}

// Whether row headers are sent with the rows: not if the peer has kept them with its route.
static bool has_heads(const struct ep_remote *remote, const struct ep_publication *part, uint64_t op,
                      enum ep_part which) {
  return part->strides[1] != 0 &&
         (which != EP_PART_DISPATCH || slot_of(remote, remote->link->out.memory, op)->dispatch.route == 0);
}

static void push(struct ep_remote *remote, struct ep_post *post) {
  ep_net_post(remote->net, post);
}

// The last request of a publication has ended; the owner may wait for that.
void ep_put_last_left(struct ep_post *post, int err) {
  struct ep_publication *part = post->part;
  if (err != 0) {
    ep_remote_fail(post->remote, err, post->request.why);
    return;
  }
  atomic_store(&part->busy, false);
  ep_doorbell_ring(ep_own_bell(post->remote->ep));
}

// The message must not overtake a chunk, so the last chunk that ends posts it.
void ep_put_chunk_left(struct ep_post *post, int err) {
  struct ep_publication *part = post->part;
  if (err != 0) {
    ep_remote_fail(post->remote, err, post->request.why);
    return;
  }
  uint32_t pending = atomic_fetch_sub(&part->pending, 1);
  if (pending == 1)
    ep_net_post_now(post->remote->net, &part->last.post);
  else if (pending == 2 && atomic_load_explicit(&part->apart, memory_order_relaxed))
    ep_doorbell_ring(ep_own_bell(post->remote->ep));
}

bool ep_put_settle(struct ep_link *link, uint64_t op, enum ep_part which, uint64_t deadline_ns) {
  struct ep_remote *remote = link->remote;
  struct ep_publication *part = part_of(remote, op, which);
  struct ep_pause pause = {.steady = true};
  weft_ep_t *ep = remote->ep;
  bool up = true;
  while (atomic_load_explicit(&part->busy, memory_order_acquire) && (up = ep_link_up(remote->link)))
    if (!ep_pause(ep, &pause, deadline_ns))
      ep_link_down(ep, remote->link, ep_control_verdict(ep, remote->link), "data for it could not be sent in time");
  ep_pause_end(ep, &pause);
  part->posted = 0;
  part->zero_copied = 0;
  return up;
}

uint32_t ep_put_zero_copy_rows(struct ep_link *link, uint64_t op, enum ep_part which, uint32_t first, uint32_t rows) {
  struct ep_remote *remote = link->remote;
  const struct ep_publication *part = part_of(remote, op, which);
  uint32_t left = rows - first, count = left < part->chunk_rows ? left : part->chunk_rows;
  bool fits = remote->area && remote->area->copies && first % part->chunk_rows == 0 && rows > part->chunk_rows;
  return fits && (uint64_t)count * part->strides[0] >= ZERO_COPY_BYTES ? count : 0;
}

void ep_put_zero_copy(struct ep_link *link, uint64_t op, enum ep_part which, uint32_t first, const void *from) {
  struct ep_publication *part = part_of(link->remote, op, which);
  uint32_t index = first / part->chunk_rows;
  _Static_assert(EP_CHUNKS <= 64 && EP_FLOW_CHUNKS <= 64, "a bit for each chunk");
  part->zero_copied |= (uint64_t)1 << index;
  part->pieces[index].local_address = (uintptr_t)from;
}

static uint64_t in_shadow(const struct ep_remote *remote, const struct transport_piece *piece) {
  return (uintptr_t)remote->link->out.memory + (piece->remote_address - remote->area_at);
}

static void send_piece(struct ep_remote *remote, struct ep_publication *part, struct ep_post *post,
                       struct transport_piece *piece, uint64_t bytes) {
  piece->length = bytes;
  atomic_fetch_add(&part->pending, 1);
  push(remote, post);
}

static void begin(struct ep_publication *part) {
  atomic_store_explicit(&part->pending, 1, memory_order_relaxed);
  atomic_store_explicit(&part->busy, true, memory_order_relaxed);
}

// The owner drives the transport itself: while it writes and sends rows, the net thread would only use a processor to
// find the lock taken.
static void send_chunk(struct ep_remote *remote, struct ep_publication *part, uint32_t rows) {
  uint32_t index = part->posted / part->chunk_rows;
  if (part->posted == 0)
    begin(part);
  part->posted += rows;
  if (part->zero_copied >> index & 1)
    ep_net_zero_copy(remote->net, &part->chunks[index]);
  else
    part->pieces[index].local_address = in_shadow(remote, &part->pieces[index]);
  send_piece(remote, part, &part->chunks[index], &part->pieces[index], (uint64_t)rows * part->strides[0]);
  ep_net_drive_once(remote->net); // sends what could not be sent at once before
}

void ep_put_rows_written(struct ep_link *link, uint64_t op, enum ep_part which, uint32_t rows) {
  struct ep_remote *remote = link->remote;
  struct ep_publication *part = part_of(remote, op, which);
  while (rows > part->posted + part->chunk_rows) // a chunk that may be the last waits for the flag
    send_chunk(remote, part, part->chunk_rows);
}

static void compose(struct ep_remote *remote, struct ep_publication *part, uint64_t op, enum ep_part which) {
  ep_message_begin(&part->last, remote);
  add_part(&part->last.update, remote, op, which);
  ep_message_end(&part->last);
}

void ep_put_publish(struct ep_link *link, uint64_t op, enum ep_part which, uint32_t rows) {
  struct ep_remote *remote = link->remote;
  struct ep_publication *part = part_of(remote, op, which);
  ep_put_rows_written(link, op, which, rows);
  compose(remote, part, op, which);
  bool alone = part->posted == 0;
  uint64_t heads = rows && has_heads(remote, part, op, which) ? part->head_base + (uint64_t)rows * part->strides[1] : 0;
  part->last_pieces[0].length = alone ? (uint64_t)rows * part->strides[0] : 0;
  part->last_pieces[1].length = alone ? heads : 0;
  atomic_store_explicit(&part->busy, true, memory_order_relaxed);
  if (!alone && heads)
    send_piece(remote, part, &part->heads, &part->heads_piece, heads);
  if (!alone)
    send_chunk(remote, part, rows - part->posted);
  if (alone || atomic_fetch_sub(&part->pending, 1) == 1)
    push(remote, &part->last.post);
}

// --- rows whose flag waits for those of other links ---

void ep_put_rows_apart(struct ep_link *link, uint64_t op, uint32_t rows, uint64_t head_bytes, bool counts) {
  struct ep_remote *remote = link->remote;
  struct ep_publication *part = part_of(remote, op, EP_PART_DISPATCH);
  atomic_store_explicit(&part->apart, true, memory_order_relaxed);
  ep_put_rows_written(link, op, EP_PART_DISPATCH, rows);
  if (rows > part->posted)
    send_chunk(remote, part, rows - part->posted);
  else if (part->posted == 0)
    begin(part);
  if (head_bytes > 0 || counts)
    send_piece(remote, part, &part->heads, &part->heads_piece, part->head_base + head_bytes);
}

bool ep_put_rows_arrived(const struct ep_link *link, uint64_t op) {
  return atomic_load_explicit(&part_of(link->remote, op, EP_PART_DISPATCH)->pending, memory_order_acquire) == 1;
}

void ep_put_publish_apart(struct ep_link *link, uint64_t op) {
  struct ep_remote *remote = link->remote;
  struct ep_publication *part = part_of(remote, op, EP_PART_DISPATCH);
  compose(remote, part, op, EP_PART_DISPATCH);
  part->last_pieces[0].length = part->last_pieces[1].length = 0;
  atomic_store_explicit(&part->apart, false, memory_order_relaxed);
  if (atomic_fetch_sub(&part->pending, 1) == 1)
    push(remote, &part->last.post);
}

void ep_put_take_back(struct ep_link *link, uint64_t op) {
  struct ep_publication *part = part_of(link->remote, op, EP_PART_DISPATCH);
  part->posted = 0;
  atomic_store_explicit(&part->apart, false, memory_order_relaxed);
  atomic_store(&part->busy, false);
}

bool ep_put_all_left(struct ep_remote *remote) {
  bool busy = atomic_load(&remote->state_busy);
  for (int slot = 0; slot < EP_DEPTH; slot++)
    for (int part = 0; part < EP_PARTS; part++)
      busy |= atomic_load(&remote->parts[slot][part].busy);
  return !busy || ep_remote_failed(remote);
}
