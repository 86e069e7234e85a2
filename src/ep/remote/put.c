// Flags and rows of a link to another host: out of the shadow, in chunks, and the words behind them.
#include "ep/remote/put.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/gpu/proxy.h"

enum {
  FLUSH_MS = 1000,
  LEND_BYTES = 64 << 10, // of one chunk at least: less is copied
};

// --- words ---

static void add(struct ep_note *note, enum ep_place place, size_t offset, uint64_t value) {
  note->words[note->count++] = (struct ep_word){.place = place, .offset = (uint32_t)offset, .value = value};
}

static void begin(struct ep_telling *telling, struct ep_remote *remote) {
  atomic_fetch_add(&remote->told, 1);
  telling->note.link = remote->peer_id;
  telling->note.version = EP_LAYOUT_VERSION;
  telling->note.count = 0;
}

static void end(struct ep_telling *telling) {
  telling->post.request.message_size =
      (uint32_t)(offsetof(struct ep_note, words) + telling->note.count * sizeof(struct ep_word));
}

static size_t offset_of(const struct ep_remote *remote, const void *word) {
  return (size_t)((const char *)word - (const char *)remote->link->out.memory);
}

static void add_start(struct ep_note *note, struct ep_remote *remote) {
  uint64_t start = atomic_load_explicit(&remote->start_plus_1, memory_order_acquire);
  if (start == 0)
    return;
  add(note, EP_PLACE_AREA, offsetof(struct ep_area_head, start.epoch), atomic_load(&remote->start_epoch));
  add(note, EP_PLACE_AREA, offsetof(struct ep_area_head, start.op_plus_1), start);
}

static struct ep_slot_head *slot_of(const struct ep_remote *remote, void *area, uint64_t op) {
  return ep_slot(&remote->ep->layout, area, op);
}

// The header of a dispatch, its flag last; and before it the start, which a peer reads with the header.
static void add_dispatch(struct ep_note *note, struct ep_remote *remote, uint64_t op) {
  struct ep_dispatch_head *head = &slot_of(remote, remote->link->out.memory, op)->dispatch;
  uint64_t words[sizeof *head / sizeof(uint64_t)];
  memcpy(words, head, sizeof words);
  add_start(note, remote);
  size_t at = offset_of(remote, head);
  for (size_t i = 1; i <= offsetof(struct ep_dispatch_head, count) / sizeof *words; i++)
    add(note, EP_PLACE_AREA, at + i * sizeof *words, words[i]);
  add(note, EP_PLACE_AREA, at, op + 1);
}

static void add_part(struct ep_note *note, struct ep_remote *remote, uint64_t op, enum ep_part part) {
  struct ep_slot_head *slot = slot_of(remote, remote->link->out.memory, op);
  if (part == EP_PART_DISPATCH)
    add_dispatch(note, remote, op);
  else if (part == EP_PART_WEIGHTS)
    add(note, EP_PLACE_AREA, offset_of(remote, &slot->weights.flag), op + 1);
  else
    add(note, EP_PLACE_AREA, offset_of(remote, &slot->combine.flag), op + 1);
}

// --- parts ---

static struct ep_publication *part_of(struct ep_remote *remote, uint64_t op, enum ep_part part) {
  return &remote->parts[op % WEFT_EP_DEPTH][part];
}

static void push(struct ep_remote *remote, struct ep_post *post) {
  ep_net_post(remote->net, post);
}

// The last of a publication has left; the owner may wait for that.
static void last_left(struct ep_post *post, int err) {
  struct ep_publication *part = post->part;
  if (err != 0) {
    ep_remote_fail(post->remote, err, post->request.why);
    return;
  }
  atomic_store(&part->busy, false);
  ep_doorbell_ring(ep_own_bell(post->remote->ep));
}

// The message may not overtake a chunk.
static void chunk_left(struct ep_post *post, int err) {
  struct ep_publication *part = post->part;
  if (err != 0)
    ep_remote_fail(post->remote, err, post->request.why);
  else if (atomic_fetch_sub(&part->pending, 1) == 1)
    ep_net_post_now(post->remote->net, &part->last.post);
}

bool ep_remote_settle(struct ep_remote *remote, uint64_t op, enum ep_part which, uint64_t deadline_ns) {
  struct ep_publication *part = part_of(remote, op, which);
  struct ep_pause pause = {0};
  weft_ep_t *ep = remote->ep;
  bool up = true;
  while (atomic_load_explicit(&part->busy, memory_order_acquire) && (up = ep_link_up(remote->link)))
    if (!ep_pause(ep, &pause, deadline_ns))
      ep_link_down(ep, remote->link, ep_remote_verdict(ep, remote->link), "what was sent to it did not leave in time");
  ep_pause_end(ep, &pause);
  part->posted = 0;
  part->lent = 0;
  return up;
}

uint32_t ep_remote_lendable(struct ep_remote *remote, uint64_t op, enum ep_part which, uint32_t first, uint32_t rows) {
  const struct ep_publication *part = part_of(remote, op, which);
  uint32_t left = rows - first, count = left < part->chunk_rows ? left : part->chunk_rows;
  bool fits = remote->area && remote->area->copies && first % part->chunk_rows == 0 && rows > part->chunk_rows;
  return fits && (uint64_t)count * part->strides[0] >= LEND_BYTES ? count : 0;
}

void ep_remote_lend(struct ep_remote *remote, uint64_t op, enum ep_part which, uint32_t first, const void *from) {
  struct ep_publication *part = part_of(remote, op, which);
  uint32_t index = first / part->chunk_rows;
  _Static_assert(EP_CHUNKS <= 64, "a bit for each chunk");
  part->lent |= (uint64_t)1 << index;
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

// Beside an owner that writes rows and sends them the net thread would find the turn taken, and take a processor to
// find that out.
static void send_chunk(struct ep_remote *remote, struct ep_publication *part, uint32_t rows) {
  uint32_t index = part->posted / part->chunk_rows;
  if (part->posted == 0) {
    atomic_store_explicit(&part->pending, 1, memory_order_relaxed);
    atomic_store_explicit(&part->busy, true, memory_order_relaxed);
  }
  part->posted += rows;
  if (part->lent >> index & 1)
    ep_net_borrow(remote->net, &part->chunks[index]);
  else
    part->pieces[index].local_address = in_shadow(remote, &part->pieces[index]);
  send_piece(remote, part, &part->chunks[index], &part->pieces[index], (uint64_t)rows * part->strides[0]);
  ep_net_drive_once(remote->net); // what did not go at once before
}

void ep_remote_rows(struct ep_remote *remote, uint64_t op, enum ep_part which, uint32_t rows) {
  struct ep_publication *part = part_of(remote, op, which);
  while (rows > part->posted + part->chunk_rows) // one that may be the last waits for the flag
    send_chunk(remote, part, part->chunk_rows);
}

void ep_remote_publish(struct ep_remote *remote, uint64_t op, enum ep_part which, uint32_t rows) {
  struct ep_publication *part = part_of(remote, op, which);
  ep_remote_rows(remote, op, which, rows);
  begin(&part->last, remote);
  add_part(&part->last.note, remote, op, which);
  end(&part->last);
  bool alone = part->posted == 0;
  for (int i = 0; i < 2; i++)
    part->last_pieces[i].length = alone ? (uint64_t)rows * part->strides[i] : 0;
  atomic_store_explicit(&part->busy, true, memory_order_relaxed);
  if (!alone && part->strides[1])
    send_piece(remote, part, &part->heads, &part->heads_piece, (uint64_t)rows * part->strides[1]);
  if (!alone)
    send_chunk(remote, part, rows - part->posted);
  if (alone || atomic_fetch_sub(&part->pending, 1) == 1)
    push(remote, &part->last.post);
}

// --- the state ---

static void compose_state(struct ep_remote *remote) {
  struct ep_telling *state = &remote->state;
  begin(state, remote);
  for (uint64_t slot = 0; slot < WEFT_EP_DEPTH; slot++) {
    struct ep_slot_head *in = slot_of(remote, remote->link->in.memory, slot);
    struct ep_slot_head *out = slot_of(remote, remote->link->out.memory, slot);
    add(&state->note, EP_PLACE_SHADOW, offset_of(remote, &out->taken.dispatch), atomic_load(&in->taken.dispatch));
    add(&state->note, EP_PLACE_SHADOW, offset_of(remote, &out->taken.combine), atomic_load(&in->taken.combine));
  }
  add_start(&state->note, remote);
  if (atomic_exchange(&remote->sign, false))
    add(&state->note, EP_PLACE_SIGN, 0, 0);
  end(state);
}

// True: the caller has to post the state, as it is now. The mark is read where it is taken away: what its writer had
// stored before is seen then.
static bool take_state(struct ep_remote *remote) {
  if (!atomic_load(&remote->state_dirty) || atomic_exchange(&remote->state_busy, true))
    return false;
  atomic_exchange(&remote->state_dirty, false);
  compose_state(remote);
  return true;
}

static void state_left(struct ep_post *post, int err) {
  struct ep_remote *remote = post->remote;
  if (err != 0) {
    ep_remote_fail(remote, err, post->request.why);
    return;
  }
  atomic_store(&remote->state_busy, false);
  if (take_state(remote))
    push(remote, post); // from the queue: a request is not posted again where it ends
}

void ep_remote_tell(struct ep_remote *remote) {
  atomic_store(&remote->state_dirty, true);
  if (take_state(remote))
    push(remote, &remote->state.post);
}

void ep_remote_tell_start(struct ep_remote *remote, uint64_t op, uint64_t epoch) {
  atomic_store(&remote->start_epoch, epoch);
  atomic_store_explicit(&remote->start_plus_1, op + 1, memory_order_release);
  ep_remote_tell(remote);
}

void ep_remote_sign(weft_ep_t *ep, uint64_t now_ns) {
  if (!atomic_load_explicit(&ep->net, memory_order_relaxed) || now_ns < ep->next_sign_ns)
    return;
  ep->next_sign_ns = now_ns + (uint64_t)ep->op_timeout_ms * 1000000u / EP_SIGNS;
  for (uint32_t rank = 0; rank < ep->capacity; rank++) {
    struct ep_link *link = ep_link_find(ep, (int32_t)rank, 0);
    if (!link || !link->remote)
      continue;
    atomic_store(&link->remote->sign, true);
    ep_remote_tell(link->remote);
  }
}

static bool all_left(struct ep_remote *remote) {
  bool busy = atomic_load(&remote->state_busy);
  for (int slot = 0; slot < WEFT_EP_DEPTH; slot++)
    for (int part = 0; part < EP_PARTS; part++)
      busy |= atomic_load(&remote->parts[slot][part].busy);
  return !busy || ep_remote_failed(remote);
}

void ep_remote_flush(weft_ep_t *ep) {
  struct ep_net *net = atomic_load(&ep->net);
  uint64_t deadline_ns = clock_deadline_ms(FLUSH_MS);
  if (ep->gpu) // its watcher lets go of links at any time; what they have still to send its proxies flush
    return;
  for (uint32_t rank = 0; net && rank < ep->capacity; rank++) {
    struct ep_link *link;
    while ((link = ep_link_find(ep, (int32_t)rank, 0)) && link->remote && !all_left(link->remote) &&
           !clock_passed(deadline_ns)) {
      ep_net_enter(net);
      ep_net_progress(net);
      ep_net_leave(net);
    }
  }
}

// --- making and ending ---

static struct transport_piece piece(struct ep_remote *remote, size_t offset, size_t length) {
  return (struct transport_piece){.local = remote->out,
                                  .remote = remote->area,
                                  .local_address = (uintptr_t)remote->link->out.memory + offset,
                                  .remote_address = remote->area->address + offset,
                                  .length = length};
}

static int prepare(struct ep_remote *remote, struct ep_post *post, void (*ended)(struct ep_post *post, int err),
                   struct ep_publication *part, struct transport_piece *pieces, uint32_t num_pieces) {
  post->remote = remote;
  post->ended = ended;
  post->part = part;
  post->request.peer = remote->peer;
  post->request.op = WEFT_WRITE;
  post->request.pieces = pieces;
  post->request.num_pieces = num_pieces;
  int rc = remote->net->transport->prepare(&post->request);
  post->prepared = rc == 0;
  return rc;
}

static int prepare_telling(struct ep_remote *remote, struct ep_telling *telling,
                           void (*ended)(struct ep_post *post, int err), struct ep_publication *part,
                           struct transport_piece *pieces, uint32_t num_pieces) {
  telling->post.request.message = &telling->note;
  telling->post.request.message_size = sizeof telling->note;
  return prepare(remote, &telling->post, ended, part, pieces, num_pieces);
}

// Rows from `rows` on, and what lies beside them from `heads` on (stride 0: nothing), both from the beginning of a
// slot.
struct extent {
  size_t rows, row_stride, heads, head_stride;
};

static int prepare_chunks(struct ep_remote *remote, struct ep_publication *part, size_t rows_at, uint32_t most) {
  for (uint32_t i = 0; i < part->num_chunks; i++) {
    uint32_t first = i * part->chunk_rows, rows = most - first < part->chunk_rows ? most - first : part->chunk_rows;
    part->pieces[i] = piece(remote, rows_at + (size_t)first * part->strides[0], (size_t)rows * part->strides[0]);
    int rc = prepare(remote, &part->chunks[i], chunk_left, part, &part->pieces[i], 1);
    if (rc != 0)
      return rc;
  }
  return 0;
}

static int prepare_part(struct ep_remote *remote, uint32_t slot, enum ep_part which, const struct extent *extent) {
  uint32_t most = remote->ep->layout.max_tokens;
  struct ep_publication *part = &remote->parts[slot][which];
  uint32_t least = EP_CHUNK_BYTES / (uint32_t)extent->row_stride, even = (most + EP_CHUNKS - 1) / EP_CHUNKS;
  part->chunk_rows = least > even ? least : even;
  if (part->chunk_rows > most)
    part->chunk_rows = most;
  part->num_chunks = (most + part->chunk_rows - 1) / part->chunk_rows;
  part->strides[0] = (uint32_t)extent->row_stride;
  part->strides[1] = (uint32_t)extent->head_stride;
  part->chunks = calloc(part->num_chunks, sizeof *part->chunks);
  part->pieces = calloc(part->num_chunks, sizeof *part->pieces);
  if (!part->chunks || !part->pieces)
    return fail(WEFT_ERR_NOMEM, "no memory for the link to rank %d", remote->link->rank);
  size_t begins =
      (size_t)((char *)ep_slot(&remote->ep->layout, remote->link->out.memory, slot) - (char *)remote->link->out.memory);
  int rc = prepare_chunks(remote, part, begins + extent->rows, most);
  part->heads_piece = piece(remote, begins + extent->heads, most * extent->head_stride);
  if (rc == 0 && extent->head_stride)
    rc = prepare(remote, &part->heads, chunk_left, part, &part->heads_piece, 1);
  part->last_pieces[0] = part->pieces[0];
  part->last_pieces[1] =
      piece(remote, begins + extent->heads, part->chunk_rows * extent->head_stride); // `alone` has no more
  if (rc == 0)
    rc = prepare_telling(remote, &part->last, last_left, part, part->last_pieces, extent->head_stride ? 2 : 1);
  return rc;
}

int ep_publish_prepare(struct ep_remote *remote) {
  if (remote->proxy)
    return ep_proxy_prepare(remote);
  const struct ep_layout *layout = &remote->ep->layout;
  const struct extent extents[EP_PARTS] = {
      [EP_PART_DISPATCH] = {layout->rows, layout->row_stride, layout->heads, layout->head_stride},
      [EP_PART_WEIGHTS] = {.rows = layout->weights, .row_stride = layout->topk * sizeof(float)},
      [EP_PART_COMBINE] = {.rows = layout->combine, .row_stride = layout->combine_stride},
  };
  int rc = prepare_telling(remote, &remote->state, state_left, NULL, NULL, 0);
  for (uint32_t slot = 0; slot < WEFT_EP_DEPTH; slot++)
    for (int part = 0; rc == 0 && part < EP_PARTS; part++)
      rc = prepare_part(remote, slot, part, &extents[part]);
  return rc;
}

bool ep_publish_each(const struct ep_remote *remote,
                     bool (*visit)(const struct ep_remote *remote, struct ep_post *post)) {
  if (remote->proxy)
    return ep_proxy_each(remote, visit);
  bool any = visit(remote, (struct ep_post *)&remote->state.post);
  for (int slot = 0; slot < WEFT_EP_DEPTH; slot++)
    for (int i = 0; i < EP_PARTS; i++) {
      const struct ep_publication *part = &remote->parts[slot][i];
      for (uint32_t chunk = 0; part->chunks && chunk < part->num_chunks; chunk++)
        any |= visit(remote, &part->chunks[chunk]);
      any |= visit(remote, (struct ep_post *)&part->heads);
      any |= visit(remote, (struct ep_post *)&part->last.post);
    }
  return any;
}

static bool cancel(const struct ep_remote *remote, struct ep_post *post) {
  if (post->in_flight)
    remote->net->transport->cancel(&post->request);
  return false;
}

static bool under_way(const struct ep_remote *remote, struct ep_post *post) {
  (void)remote;
  return post->in_flight;
}

static bool unprepare(const struct ep_remote *remote, struct ep_post *post) {
  if (post->prepared)
    remote->net->transport->unprepare(&post->request);
  post->prepared = false;
  return false;
}

void ep_publish_cancel(struct ep_remote *remote) {
  ep_publish_each(remote, cancel);
}

bool ep_publish_under_way(const struct ep_remote *remote) {
  return ep_publish_each(remote, under_way);
}

void ep_publish_unprepare(struct ep_remote *remote) {
  ep_publish_each(remote, unprepare);
}

void ep_publish_free(struct ep_remote *remote) {
  for (int slot = 0; slot < WEFT_EP_DEPTH; slot++)
    for (int part = 0; part < EP_PARTS; part++) {
      free(remote->parts[slot][part].chunks);
      free(remote->parts[slot][part].pieces);
    }
}
