// Relays the streams of groups for throughput (throughput/flow.h): the rows in the rings of a window, and the words
// with their progress.
//
// For each channel and ring the relay knows the words that it sent last. If a tail has moved, the places between the
// old and the new tail are complete: they are sent first, then the words. If the new tail belongs to a later operation
// than the old one, the relay begins with the first row of the later operation: earlier rows belong to operations for
// which the reader has given credit, whether it has read their rows or not. A writer writes to a place again only when
// it has credit for the former row, and the reader gives credit only after it got that row from here. So no place
// changes before it has been collected. (It may change if the reader skips the operation; then nobody reads what is
// sent.)
//
// So rows need not be copied. If a transport can write to the peer's rings, the batch contains only the words, and
// *moves* say where the rows lie: they are visible at the peer when it gets the batch. Moves have no order, however.
// Moves of an operation that was skipped may still be in flight while the writer uses their places for the next
// operation; a late move would overwrite rows that have been announced to the reader. So rows of another operation are
// sent through a ring only when everything sent earlier through that ring has landed. Parts that are too small for a
// move are put into the batch.
//
// Rows that do not fit into a batch are sent with the next one: the tail in the batch covers only the rows that were
// sent, and does not announce the end. Each batch begins with another channel.
//
// The peer writes only into rings and the words of channels. The numbers between them, which say what was sent (struct
// cuda_flow_sent), are written by our kernels. The relay does not trust the words of a tail; the kernels know how many
// rows an operation can have.
#include "cuda/relay/flow.h"

#include <stdio.h>
#include <string.h>
#include <weft/err.h>

#include "cuda/engine/flow_layout.h"
#include "cuda/relay/flow_share.h"

enum {
  UNIT = sizeof(struct cuda_unit),
  WORDS = sizeof(struct cuda_flow_word),
  WORDS_ROOM = sizeof(struct cuda_run) + WORDS, // in a batch
  LEAST_MOVE = 512,                             // least bytes of a place that are sent as a move
  GAP = 256,                                    // largest gap between two moves that are merged: smaller than a place
  LEAST_SHARED = 512, // least bytes of a row for which the relay looks at the windows of neighbours
};

// --- places ---

static bool is_answers(uint32_t index) {
  return index >= CUDA_CHANNELS;
}

// --- how much of a place is used ---

// Reads a field of our header of an operation (control/control.h). False: the place contains another operation's
// header, or none.
static bool load_field(const struct cuda_flow_relay *relay, uint64_t op, uint32_t which, uint32_t *value) {
  uint32_t field = relay->flow.experts + which, each = CUDA_UNIT_COUNTS / 2;
  size_t slot = sizeof(struct cuda_area_head) + op % CUDA_DEPTH * relay->control.slot;
  const char *unit = relay->out + slot + relay->control.counts + (size_t)(field / each) * UNIT;
  uint64_t words[2];
  words[1] = cuda_load_word(unit + 8);
  words[0] = cuda_load_word(unit);
  if ((uint32_t)(words[1] >> 32) != (uint32_t)op + 1)
    return false;
  *value = field % each == 0 ? (uint32_t)words[0] : field % each == 1 ? (uint32_t)(words[0] >> 32) : (uint32_t)words[1];
  return true;
}

// Returns how many bytes of a place are used, and which part of them is the same for all ranks: values and scales,
// followed by the routing (throughput/send.cuh). With a kept route its first unit, which names the token, is all of it.
static uint32_t row_bytes(const struct cuda_flow_relay *relay, uint64_t op, uint32_t *values) {
  uint32_t form = 0, route = 0, place = relay->flow.rows.place;
  *values = 0;
  if (!load_field(relay, op, CUDA_FIELD_FORM, &form) || form == 0 || !load_field(relay, op, CUDA_FIELD_ROUTE, &route))
    return place;
  uint32_t before = cuda_round_up(cuda_form_bytes(form), UNIT),
           used = before + (route ? UNIT : cuda_routing_bytes(cuda_form_topk(form)));
  if (used > place)
    return place;
  if (before >= LEAST_SHARED)
    *values = before;
  return used;
}

static bool is_moved(const struct cuda_batch *batch, uint32_t bytes) {
  return batch->moves && bytes >= LEAST_MOVE;
}

// Adds bytes to the previous move, or as a new move. A gap between merged moves is the unused end of a place.
static bool add_move(struct device_moves *moves, size_t at, uint32_t bytes) {
  struct device_move *last = moves->count ? &moves->list[moves->count - 1] : NULL;
  uint64_t end = last ? last->offset + last->bytes : 0, gap = last && at >= end ? at - end : UINT64_MAX;
  bool goes_on = gap <= GAP;
  uint64_t more = bytes + (goes_on ? gap : 0);
  if (moves->bytes + more > moves->most || (!goes_on && moves->count == moves->room))
    return false;
  if (goes_on)
    last->bytes += more;
  else
    moves->list[moves->count++] = (struct device_move){.offset = at, .bytes = bytes};
  moves->bytes += more;
  return true;
}

static bool put_bytes(struct cuda_batch *batch, const struct cuda_flow_relay *relay, size_t at, uint32_t bytes) {
  if (is_moved(batch, bytes))
    return add_move(batch->moves, at, bytes);
  char *room = cuda_batch_room(batch, RUN_PLACES, at, bytes);
  if (room)
    memcpy(room, relay->out + at, bytes);
  return room != NULL;
}

// A coded answer is shorter than its values; the row weights follow the room of the values (answers/answer.cuh).
static bool put_coded(struct cuda_batch *batch, const struct cuda_flow_relay *relay, size_t at) {
  uint32_t hidden = relay->flow.hidden;
  uint32_t code = cuda_round_up(hidden / LOGFMT10_BLOCK * (LOGFMT10_CODE_BYTES + LOGFMT10_HEAD_BYTES), UNIT);
  uint32_t weights = cuda_round_up(4 * relay->flow.topk, UNIT);
  if (batch->used + 2 * sizeof(struct cuda_run) + code + weights > batch->size)
    return false;
  const struct device_moves *moves = batch->moves;
  if (moves && (moves->count + 2 > moves->room || moves->bytes + code + weights + 2 * GAP > moves->most))
    return false;
  return put_bytes(batch, relay, at, code) && put_bytes(batch, relay, at + 2 * (size_t)hidden, weights);
}

// --- collecting ---

// Says whether rows of that operation may be sent through a ring now, and records that some are sent.
static bool may_go(const struct cuda_flow_relay *relay, const struct cuda_batch *batch, uint32_t index, uint64_t op) {
  const struct cuda_flow_went *went = &relay->went[index];
  return !batch->moves || went->op == op || went->batch <= batch->moves->landed;
}

static void record_went(struct cuda_flow_relay *relay, const struct cuda_batch *batch, uint32_t index, uint64_t op) {
  if (batch->moves)
    relay->went[index] = (struct cuda_flow_went){.batch = batch->moves->number, .op = op};
}

// Adds a row whose values the reader finds elsewhere.
static bool put_named(struct cuda_batch *batch, const struct cuda_flow_relay *relay, size_t at,
                      const struct cuda_flow_share_row *row, const struct cuda_elsewhere *where) {
  if (batch->used + 2 * sizeof(struct cuda_run) + sizeof *where + row->foot > batch->size)
    return false;
  memcpy(cuda_batch_room(batch, RUN_ELSEWHERE, at, sizeof *where), where, sizeof *where);
  memcpy(cuda_batch_room(batch, RUN_PLACES, at + row->values, row->foot), relay->out + at + row->values, row->foot);
  return true;
}

// Adds a row that neighbours may share; false: it has no room, or waits.
static bool put_shared(struct cuda_batch *batch, struct cuda_flow_relay *relay, size_t at, uint32_t bytes,
                       struct cuda_flow_share_row *row) {
  struct cuda_elsewhere where;
  if (!cuda_flow_share_is_free(relay, batch->sharing, row))
    return false;
  row->foot = bytes - row->values;
  if (row->values > 0)
    memcpy(&row->token, relay->out + at + row->values + sizeof row->token, sizeof row->token);
  enum cuda_flow_share_way way = cuda_flow_share_find(relay, batch->sharing, row, &where);
  if (way == CUDA_SHARE_WAIT)
    return false;
  bool named = way == CUDA_SHARE_NAME;
  batch->full = named ? !put_named(batch, relay, at, row, &where) : !put_bytes(batch, relay, at, bytes);
  if (!batch->full)
    cuda_flow_share_record(relay, batch->sharing, row, named ? &where : NULL);
  return !batch->full;
}

// Adds the rows between the tail last sent and the current one; returns the tail to be sent after them.
static uint64_t collect_rows(struct cuda_flow_relay *relay, struct cuda_batch *batch, uint32_t index, bool coded,
                             uint64_t sent, uint64_t tail) {
  uint64_t end = tail / 2, op = end / relay->flow.list, base = op * relay->flow.list;
  uint64_t begin = sent / 2 > base ? sent / 2 : base;
  struct cuda_flow_share_row row = {.index = index, .op = op};
  uint32_t bytes = 0;
  if (begin >= end)
    return tail;
  if (!may_go(relay, batch, index, op))
    return sent;
  if (!is_answers(index))
    bytes = row_bytes(relay, op, &row.values);
  else
    bytes = cuda_round_up(2 * relay->flow.hidden + 4 * relay->flow.topk, UNIT);
  for (uint64_t position = begin; position < end; position++) {
    size_t at = cuda_flow_relay_place(relay, index, position);
    row.position = position;
    bool went;
    if (batch->sharing && !is_answers(index)) {
      went = put_shared(batch, relay, at, bytes, &row);
    } else {
      went = coded ? put_coded(batch, relay, at) : put_bytes(batch, relay, at, bytes);
      batch->full |= !went;
    }
    if (!went)
      return position > begin ? position * 2 : sent;
    record_went(relay, batch, index, op);
  }
  return tail;
}

// Adds the changes of a channel. False: there is no room for all of them.
static bool collect_channel(struct cuda_flow_relay *relay, struct cuda_batch *batch, uint32_t index) {
  const struct cuda_flow_word *words = cuda_flow_relay_words(relay->out, relay, index);
  struct cuda_flow_word *sent = &relay->sent[index];
  const struct cuda_flow_word now = {.tail = cuda_load_word(&words->tail),
                                     .credit = cuda_load_word(&words->credit),
                                     .coded_tail = cuda_load_word(&words->coded_tail),
                                     .coded_credit = cuda_load_word(&words->coded_credit)};
  if (memcmp(&now, sent, sizeof now) == 0)
    return true;
  if (batch->used + WORDS_ROOM > batch->size)
    return false;
  batch->size -= WORDS_ROOM; // reserved for the words after the rows
  struct cuda_flow_word next = now;
  next.tail = collect_rows(relay, batch, index, false, sent->tail, now.tail);
  next.coded_tail = collect_rows(relay, batch, index, true, sent->coded_tail, now.coded_tail);
  batch->size += WORDS_ROOM;
  if (memcmp(&next, sent, sizeof next) != 0) {
    size_t at = (size_t)((const char *)words - relay->out);
    memcpy(cuda_batch_room(batch, RUN_CHANNELS, at, WORDS), &next, WORDS);
    *sent = next;
  }
  return !batch->full;
}

void cuda_flow_relay_collect(struct cuda_flow_relay *relay, struct cuda_batch *batch) {
  uint32_t first = relay->next;
  for (uint32_t i = 0; i < CUDA_FLOW_WORDS; i++) {
    uint32_t index = (first + i) % CUDA_FLOW_WORDS;
    if (collect_channel(relay, batch, index))
      continue;
    relay->next = index;
    return;
  }
}

// --- delivering ---

bool cuda_flow_relay_is_legal(const struct cuda_flow_relay *relay, const struct cuda_run *run) {
  uint64_t rings = relay->offset + relay->flow.rows.at, end = relay->offset + relay->flow.bytes;
  uint64_t words = relay->offset, behind = (uint64_t)run->offset + run->bytes;
  if (run->kind == RUN_ELSEWHERE)
    return run->bytes == sizeof(struct cuda_elsewhere); // cuda_flow_share_resolve() checks the rest
  if (run->kind == RUN_PLACES)
    return run->offset % UNIT == 0 && run->bytes % UNIT == 0 && run->offset >= rings && behind <= end;
  return run->kind == RUN_CHANNELS && run->offset % WORDS == 0 && run->bytes % WORDS == 0 && run->offset >= words &&
         behind <= words + CUDA_FLOW_WORDS * WORDS;
}

void cuda_flow_relay_deliver(struct cuda_flow_relay *relay, const struct cuda_run *run, const char *from) {
  if (run->kind == RUN_PLACES) {
    memcpy(relay->in + run->offset, from, run->bytes);
    return;
  }
  for (size_t at = 0; at < run->bytes; at += sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, from + at, sizeof word);
    cuda_store_word(relay->in + run->offset + at, word); // after the rows
  }
}

void cuda_flow_relay_rings(const struct cuda_flow_relay *relay, uint64_t *offset, uint64_t *bytes) {
  *offset = relay->offset + relay->flow.rows.at;
  *bytes = relay->flow.bytes - relay->flow.rows.at;
}

int cuda_flow_relay_open(struct cuda_flow_relay *relay, const struct device_ep_options *options, void *in, void *out,
                         char *why) {
  struct cuda_forms forms;
  *relay = (struct cuda_flow_relay){.in = in, .out = out};
  cuda_area_of(options, &relay->control, &forms);
  cuda_flow_of(options, &relay->flow, &relay->offset);
  if (relay->flow.bytes == 0) {
    snprintf(why, DEVICE_WHY, "window_bytes is %llu, which has no room for a stream of rows",
             (unsigned long long)options->window_bytes);
    return WEFT_ERR_INVALID;
  }
  memset(relay->in + relay->offset, 0, sizeof(struct cuda_flow_head));
  memset(relay->out + relay->offset, 0, sizeof(struct cuda_flow_head));
  int rc = cuda_flow_share_open(relay);
  if (rc != 0)
    snprintf(why, DEVICE_WHY, "no memory for what neighbours share");
  return rc;
}

void cuda_flow_relay_close(struct cuda_flow_relay *relay) {
  cuda_flow_share_close(relay);
}
