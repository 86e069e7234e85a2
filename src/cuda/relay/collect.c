// Collects data from our window (relay.c).
#include <string.h>

#include "cuda/relay/area.h"
#include "cuda/relay/batch.h"
#include "cuda/relay/relay.h"

enum { AHEAD = 1024 }; // number of bytes that are prefetched before they are read

// Returns the flag. It is in the second word, which is read first.
static uint32_t load_unit(const void *unit, uint64_t words[2]) {
  words[1] = cuda_load_word((const char *)unit + 8);
  words[0] = cuda_load_word(unit);
  return (uint32_t)(words[1] >> 32);
}

// Values are collected in pieces of one line, or of what is left.
static uint32_t piece_of(uint32_t bytes, uint32_t piece) {
  uint32_t left = bytes - piece * CUDA_LINE;
  return left < CUDA_LINE ? left : CUDA_LINE;
}

// Whether that line of a coded answer contains anything.
static bool is_coded_line(const struct cuda_form *form, uint32_t line) {
  uint32_t left = form->chunks - line / form->each * form->each;
  return line % form->each < cuda_coded_lines(left < form->each ? left : form->each);
}

static bool put_words(struct cuda_batch *batch, enum cuda_run_kind kind, size_t offset, const uint64_t words[2]) {
  char *room = cuda_batch_room(batch, kind, offset, CUDA_RELAY_UNIT);
  if (room)
    memcpy(room, words, CUDA_RELAY_UNIT);
  return room != NULL;
}

// Collects the unit at `offset` if it has the expected flag.
static bool take_unit(const struct device_relay *relay, struct cuda_batch *batch, size_t offset, uint32_t flag) {
  uint64_t words[2];
  return load_unit(relay->out + offset, words) == flag && put_words(batch, RUN_UNITS, offset, words);
}

// Collects the line at `offset` if it has the expected flag. Returns its place in the batch, or NULL.
static const char *take_line(const struct device_relay *relay, struct cuda_batch *batch, size_t offset, uint32_t flag) {
  const char *line = relay->out + offset;
  uint64_t found = cuda_load_word(line + CUDA_LINE - sizeof found);
  char *room = (uint32_t)found == flag ? cuda_batch_room(batch, RUN_LINES, offset, CUDA_LINE) : NULL;
  if (room) {
    memcpy(room, line, CUDA_LINE - sizeof found);
    memcpy(room + CUDA_LINE - sizeof found, &found, sizeof found);
  }
  return room;
}

// Adds a word of the head if it differs from the word last sent. The word after it is never read.
static void put_news(struct cuda_batch *batch, size_t offset, uint64_t word, uint64_t *sent) {
  const uint64_t words[2] = {word};
  if (word != *sent && put_words(batch, RUN_WORDS, offset, words))
    *sent = word;
}

static void collect_head(struct device_relay *relay, struct cuda_batch *batch) {
  const struct cuda_area_head *head = (const struct cuda_area_head *)relay->out;
  uint64_t taken[2] = {cuda_load_word(&head->taken_dispatch), cuda_load_word(&head->taken_combine)}, start[2];
  if (memcmp(taken, relay->taken, sizeof taken) != 0 && put_words(batch, RUN_WORDS, 0, taken))
    memcpy(relay->taken, taken, sizeof taken);
  put_news(batch, offsetof(struct cuda_area_head, waiting), cuda_load_word(&head->waiting), &relay->waiting);
  put_news(batch, offsetof(struct cuda_area_head, awaits), cuda_load_word(&head->awaits), &relay->awaits);
  if (load_unit(&head->start, start) == 1 &&
      cuda_load_word((const char *)&head->start + 8) == start[1] && // otherwise next time
      memcmp(start, relay->start, sizeof start) != 0 &&
      put_words(batch, RUN_UNITS, offsetof(struct cuda_area_head, start), start))
    memcpy(relay->start, start, sizeof start);
}

// If the header belongs to another operation than before, the state of the slot starts again.
static void check_header(struct device_relay *relay, uint32_t slot, const uint64_t words[2]) {
  struct cuda_relay_outgoing *own = &relay->outgoing[slot];
  uint32_t flag = (uint32_t)(words[1] >> 32), rows = words[0] & 0xFFFF;
  if (flag == own->flag)
    return;
  uint32_t *weights = own->weights, *token = own->token;
  *own = (struct cuda_relay_outgoing){.begun = true,
                                      .header = {words[0], words[1]},
                                      .flag = flag,
                                      .rows = rows < relay->layout.max_tokens ? rows : relay->layout.max_tokens,
                                      .late = words[0] >> CUDA_HEAD_LATE & 1,
                                      .token = token,
                                      .weights = weights};
}

static void collect_units(struct device_relay *relay, struct cuda_batch *batch, uint32_t slot) {
  struct cuda_relay_outgoing *own = &relay->outgoing[slot];
  for (; own->units <= relay->layout.count_units; own->units++) {
    size_t at = own->units == 0 ? offsetof(struct cuda_slot_head, mark)
                                : relay->layout.counts + (size_t)(own->units - 1) * CUDA_RELAY_UNIT;
    if (!take_unit(relay, batch, cuda_relay_slot_at(relay, slot) + at, own->flag))
      return;
  }
}

// Records the units of late weights that the selections of a routing line need.
static void record_weights(const struct device_relay *relay, struct cuda_relay_outgoing *own, const char *line,
                           uint32_t index) {
  for (uint32_t i = 0; i < CUDA_LINE_SELECTIONS; i++) {
    uint32_t word, k = index * CUDA_LINE_SELECTIONS + i;
    memcpy(&word, line + i * 8, sizeof word);
    if (!(word & CUDA_SELECTION_VALID) || k >= relay->layout.topk)
      continue;
    uint32_t unit = (word >> CUDA_SELECTION_TOKEN & 0x3FF) * relay->layout.late_units + k / CUDA_UNIT_WEIGHTS;
    bool known = own->num_weights > 0 && own->weights[own->num_weights - 1] == unit;
    if (!known && unit < relay->layout.max_tokens * relay->layout.late_units &&
        own->num_weights < relay->layout.max_tokens * relay->layout.late_units)
      own->weights[own->num_weights++] = unit;
  }
}

static void collect_routing(struct device_relay *relay, struct cuda_batch *batch, uint32_t slot) {
  struct cuda_relay_outgoing *own = &relay->outgoing[slot];
  const struct cuda_layout *layout = &relay->layout;
  size_t begin = cuda_relay_slot_at(relay, slot) + layout->routing;
  while (own->routing.row < own->rows) {
    uint32_t index = own->routing.row * layout->routing_lines + own->routing.piece;
    const char *line = take_line(relay, batch, begin + (size_t)index * CUDA_LINE, own->flag);
    if (!line)
      return;
    record_weights(relay, own, line, own->routing.piece);
    cuda_relay_record_token(relay, &own->token[own->routing.row], own->routing.piece, line);
    if (++own->routing.piece == layout->routing_lines)
      own->routing = (struct cuda_relay_front){.row = own->routing.row + 1};
  }
}

// Returns nonzero if one of the two halves is empty. A borrow can come only from an empty half.
static uint64_t find_empty(uint64_t words) {
  uint64_t ones = UINT64_C(0x0000000100000001), tops = UINT64_C(0x8000000080000000);
  return (~words - ones) & words & tops;
}

// Collects `bytes` of values, a multiple of 16, at `offset`, if none of their first `words` words is empty. These words
// are sent; the rest is not examined. Then their place is made empty. A value that has arrived stays until it is
// collected.
static bool take_values(const struct device_relay *relay, struct cuda_batch *batch, size_t offset, uint32_t bytes,
                        uint32_t words) {
  char *from = relay->out + offset;
  uint32_t count = bytes / 8, pairs = words / 2 < count ? words / 2 : count;
  uint64_t empty = 0;
  __builtin_prefetch(from + AHEAD, 1);
  for (uint32_t i = 0; i < pairs; i++) // without branches, which would take as long as everything else here
    empty |= find_empty(cuda_load_word(from + i * 8));
  if (empty || (pairs < count && words % 2 && (uint32_t)cuda_load_word(from + pairs * 8) == CUDA_EMPTY))
    return false;
  char *room = cuda_batch_room(batch, RUN_VALUES, offset, bytes);
  if (!room)
    return false;
  for (uint32_t at = 0; at < bytes; at += 8) { // loaded again, since a copy from 16 words on the stack took longer
    uint64_t word = cuda_load_word(from + at);
    memcpy(room + at, &word, sizeof word);
    cuda_store_word(from + at, (uint64_t)CUDA_EMPTY << 32 | CUDA_EMPTY);
  }
  return true;
}

// Collects a row of `bytes` at `begin`, of which `words` words are sent, from `front` on. True: the row is complete.
static bool collect_row(const struct device_relay *relay, struct cuda_batch *batch, size_t begin, uint32_t bytes,
                        uint32_t words, struct cuda_relay_front *front) {
  for (; front->piece * CUDA_LINE < bytes; front->piece++)
    if (!take_values(relay, batch, begin + (size_t)front->piece * CUDA_LINE, piece_of(bytes, front->piece),
                     words - front->piece * (CUDA_LINE / 4)))
      return false;
  *front = (struct cuda_relay_front){.row = front->row + 1};
  return true;
}

// The same for a coded answer.
static bool collect_coded(const struct device_relay *relay, struct cuda_batch *batch, size_t begin,
                          struct cuda_relay_front *front) {
  const struct cuda_form *form = &relay->layout.answer;
  for (; front->piece < form->chunks; front->piece++)
    if (is_coded_line(form, front->piece) &&
        !take_values(relay, batch, begin + (size_t)front->piece * CUDA_LINE, CUDA_LINE, CUDA_LINE / 4))
      return false;
  *front = (struct cuda_relay_front){.row = front->row + 1};
  return true;
}

static void collect_values(struct device_relay *relay, struct cuda_batch *batch, uint32_t slot) {
  struct cuda_relay_outgoing *own = &relay->outgoing[slot];
  const struct cuda_layout *layout = &relay->layout;
  size_t rows = cuda_relay_slot_at(relay, slot) + layout->rows,
         scales = cuda_relay_slot_at(relay, slot) + layout->row.scales;
  while (own->values.row < own->routing.row &&
         collect_row(relay, batch, rows + (size_t)own->token[own->values.row] * layout->row.stride, layout->row.stride,
                     layout->row.stride / 4, &own->values))
    continue;
  while (own->scales.row < own->routing.row &&
         collect_row(relay, batch, scales + (size_t)own->token[own->scales.row] * layout->row.scale_stride,
                     layout->row.scale_stride, layout->row.chunks, &own->scales))
    continue;
}

static void collect_header(struct device_relay *relay, struct cuda_batch *batch, uint32_t slot) {
  struct cuda_relay_outgoing *own = &relay->outgoing[slot];
  if (!own->sent && own->units > relay->layout.count_units && own->routing.row == own->rows &&
      own->values.row == own->rows && own->scales.row == own->rows)
    own->sent = put_words(batch, RUN_UNITS, cuda_relay_slot_at(relay, slot), own->header);
}

static void collect_weights(struct device_relay *relay, struct cuda_batch *batch, uint32_t slot) {
  struct cuda_relay_outgoing *own = &relay->outgoing[slot];
  size_t begin = cuda_relay_slot_at(relay, slot) + relay->layout.late;
  while (own->late && own->next_weights < own->num_weights &&
         take_unit(relay, batch, begin + (size_t)own->weights[own->next_weights] * CUDA_RELAY_UNIT, own->flag))
    own->next_weights++;
}

static void collect_answers(struct device_relay *relay, struct cuda_batch *batch, uint32_t slot) {
  struct cuda_relay_incoming *theirs = &relay->incoming[slot];
  const struct cuda_layout *layout = &relay->layout;
  bool whole = true;
  while (theirs->answers.row < theirs->rows && whole) {
    size_t at = cuda_relay_slot_at(relay, slot) + layout->answers +
                (size_t)theirs->token[theirs->answers.row] * layout->answer.stride;
    whole = layout->coded
                ? collect_coded(relay, batch, at, &theirs->answers)
                : collect_row(relay, batch, at, layout->answer.stride, layout->answer.stride / 4, &theirs->answers);
  }
}

size_t cuda_relay_collect(struct device_relay *relay, void *bytes, size_t size, struct device_moves *moves,
                          struct device_sharing *sharing) {
  struct cuda_batch batch = {.bytes = bytes, .size = size, .moves = moves, .sharing = sharing};
  uint64_t headers[CUDA_DEPTH][2];
  // Headers are read before the start unit, which is sent first: a peer that finds a header must also find the start
  // that was published before it.
  for (uint32_t slot = 0; slot < CUDA_DEPTH; slot++)
    load_unit(relay->out + cuda_relay_slot_at(relay, slot), headers[slot]);
  collect_head(relay, &batch);
  for (uint32_t slot = 0; slot < CUDA_DEPTH; slot++) {
    check_header(relay, slot, headers[slot]);
    if (!relay->outgoing[slot].begun)
      continue;
    collect_units(relay, &batch, slot);
    collect_routing(relay, &batch, slot);
    collect_values(relay, &batch, slot);
    collect_header(relay, &batch, slot);
    collect_weights(relay, &batch, slot);
  }
  for (uint32_t slot = 0; slot < CUDA_DEPTH; slot++)
    collect_answers(relay, &batch, slot);
  if (relay->flows)
    cuda_flow_relay_collect(&relay->flow, &batch);
  return batch.used;
}
