// Relays what kernels have written for a peer on another host: out of one window in host memory here, into another
// there. It never waits for a kernel: it collects what has arrived.
//
// A header goes last of its dispatch, so that a peer has either all of it or, if this process dies, nothing.
//
// What has arrived determines what follows. A header's unit says how many rows follow; their routing says where they
// stand, and which late weights may come; and the routing that the peer has sent, delivered here before, says which
// answers our kernels will write for it. So each part of a slot has a *front*: what is before it has been taken, and
// only what is next is looked at. A slot's fronts begin again with the header of another operation: then the reader has
// taken all values of the one before (kernels/layout.h), so that none are left here.
//
// A flag is read before what it covers, and written after it, by stores of 8 bytes. Kernels look twice, for lines may
// not come whole to them (the strict way). What needs no flag, rows, scales and answers, is taken as soon as no word of
// it is empty, and its place made empty again: our kernels write there again when the peer has given the credit, for
// which it must have had it from here. What is collected are *runs*: where they belong, how many bytes, and of which
// kind; then the bytes.
//
// In groups for throughput an area is that of control, whose operations have no rows; theirs go through the stream
// behind it (flow_relay.c).
#include "cuda/engine/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/err.h>

#include "cuda/engine/flow_layout.h"
#include "cuda/engine/flow_relay.h"
#include "cuda/engine/flow_share.h"
#include "cuda/engine/relay_batch.h"
#include "device/logfmt10.h"

enum {
  UNIT = sizeof(struct cuda_unit),
  AHEAD = 1024, // bytes, that are prefetched before they are read
};

// Rows before `row` have been taken, and of that one what stands before piece `piece`: a line of routing, or a piece of
// values.
struct front {
  uint32_t row, piece;
};

// A dispatch of ours in a slot.
struct outgoing {
  bool begun; // there has been one
  bool sent;  // all of it, the header too
  uint64_t header[2];
  uint32_t flag;  // of its header
  uint32_t rows;  // that it brings
  bool late;      // weights follow, with the combine
  uint32_t units; // of its mark and counts that have been taken
  struct front routing, values, scales;
  uint32_t *token;   // [M] of each row whose routing has been taken
  uint32_t *weights; // [M * K/3] units of late weights that the peer reads
  uint32_t num_weights, next_weights;
};

// A dispatch of the peer's, which our kernels answer.
struct incoming {
  uint32_t flag, rows; // rows: whose routing is known
  uint32_t *token;     // [M] of each row
  struct front answers;
};

struct device_relay {
  struct cuda_flow_relay flow; // the first: cuda_relay_flow()
  struct cuda_layout layout;
  struct cuda_forms forms;
  char *in;
  char *out;
  uint64_t taken[2], start[2], waiting[2]; // of the head, as sent last
  struct outgoing outgoing[CUDA_DEPTH];
  struct incoming incoming[CUDA_DEPTH];
  bool flows; // a group for throughput, of which `flow` is
};

_Static_assert(offsetof(struct device_relay, flow) == 0, "as cuda_relay_flow() takes it");

static int set_error(char *why, int rc, const char *what) {
  snprintf(why, DEVICE_WHY, "%s", what);
  return rc;
}

// Returns the flag, which stands in the second word: that one is read first.
static uint32_t load_unit(const void *unit, uint64_t words[2]) {
  words[1] = cuda_load_word((const char *)unit + 8);
  words[0] = cuda_load_word(unit);
  return (uint32_t)(words[1] >> 32);
}

// --- places ---

static size_t slot_at(const struct device_relay *relay, uint32_t slot) {
  return sizeof(struct cuda_area_head) + (size_t)slot * relay->layout.slot;
}

// Values are taken in pieces of as many bytes as a line, or what is left of them.
static uint32_t piece_of(uint32_t bytes, uint32_t piece) {
  uint32_t left = bytes - piece * CUDA_LINE;
  return left < CUDA_LINE ? left : CUDA_LINE;
}

// Whether that line of an answer, as a packet of code has them, has anything in it.
static bool is_coded_line(const struct cuda_form *form, uint32_t line) {
  uint32_t left = form->chunks - line / form->each * form->each;
  return line % form->each < cuda_coded_lines(left < form->each ? left : form->each);
}

// --- collecting ---

static bool put_words(struct cuda_batch *batch, enum cuda_run_kind kind, size_t offset, const uint64_t words[2]) {
  char *room = cuda_batch_room(batch, kind, offset, UNIT);
  if (room)
    memcpy(room, words, UNIT);
  return room != NULL;
}

// The unit at `offset`, if its flag is that one.
static bool take_unit(const struct device_relay *relay, struct cuda_batch *batch, size_t offset, uint32_t flag) {
  uint64_t words[2];
  return load_unit(relay->out + offset, words) == flag && put_words(batch, RUN_UNITS, offset, words);
}

// The line at `offset`, if its flag is that one: where it stands now, or NULL.
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

static void collect_head(struct device_relay *relay, struct cuda_batch *batch) {
  const struct cuda_area_head *head = (const struct cuda_area_head *)relay->out;
  uint64_t taken[2] = {cuda_load_word(&head->taken_dispatch), cuda_load_word(&head->taken_combine)}, start[2];
  if (memcmp(taken, relay->taken, sizeof taken) != 0 && put_words(batch, RUN_WORDS, 0, taken))
    memcpy(relay->taken, taken, sizeof taken);
  const uint64_t waiting[2] = {cuda_load_word(&head->waiting)}; // and a word that is never read
  if (waiting[0] != relay->waiting[0] && put_words(batch, RUN_WORDS, offsetof(struct cuda_area_head, waiting), waiting))
    memcpy(relay->waiting, waiting, sizeof waiting);
  if (load_unit(&head->start, start) == 1 &&
      cuda_load_word((const char *)&head->start + 8) == start[1] && // else the next time
      memcmp(start, relay->start, sizeof start) != 0 &&
      put_words(batch, RUN_UNITS, offsetof(struct cuda_area_head, start), start))
    memcpy(relay->start, start, sizeof start);
}

// If the header is another operation's than the last, the slot begins again.
static void check_header(struct device_relay *relay, uint32_t slot, const uint64_t words[2]) {
  struct outgoing *own = &relay->outgoing[slot];
  uint32_t flag = (uint32_t)(words[1] >> 32), rows = words[0] & 0xFFFF;
  if (flag == own->flag)
    return;
  uint32_t *weights = own->weights, *token = own->token;
  *own = (struct outgoing){.begun = true,
                           .header = {words[0], words[1]},
                           .flag = flag,
                           .rows = rows < relay->layout.max_tokens ? rows : relay->layout.max_tokens,
                           .late = words[0] >> CUDA_HEAD_LATE & 1,
                           .token = token,
                           .weights = weights};
}

static void collect_units(struct device_relay *relay, struct cuda_batch *batch, uint32_t slot) {
  struct outgoing *own = &relay->outgoing[slot];
  for (; own->units <= relay->layout.count_units; own->units++) {
    size_t at = own->units == 0 ? offsetof(struct cuda_slot_head, mark)
                                : relay->layout.counts + (size_t)(own->units - 1) * UNIT;
    if (!take_unit(relay, batch, slot_at(relay, slot) + at, own->flag))
      return;
  }
}

// The token that a routing line names; 0: none. A row of several lines has it in any.
static uint32_t token_of(const struct device_relay *relay, const char *line) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < CUDA_LINE_SELECTIONS; i++) {
    uint32_t word;
    memcpy(&word, line + i * 8, sizeof word);
    uint32_t token = word & CUDA_SELECTION_VALID ? word >> CUDA_SELECTION_TOKEN & 0x3FF : 0;
    found = token > found && token < relay->layout.max_tokens ? token : found;
  }
  return found;
}

// Stores the token that line `index` of a row's routing names, if it names one.
static void record_token(const struct device_relay *relay, uint32_t *token, uint32_t index, const char *line) {
  uint32_t found = token_of(relay, line);
  *token = index == 0 || found > *token ? found : *token;
}

// Which units of late weights the selections of a routing line are about.
static void record_weights(const struct device_relay *relay, struct outgoing *own, const char *line, uint32_t index) {
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
  struct outgoing *own = &relay->outgoing[slot];
  const struct cuda_layout *layout = &relay->layout;
  size_t begin = slot_at(relay, slot) + layout->routing;
  while (own->routing.row < own->rows) {
    uint32_t index = own->routing.row * layout->routing_lines + own->routing.piece;
    const char *line = take_line(relay, batch, begin + (size_t)index * CUDA_LINE, own->flag);
    if (!line)
      return;
    record_weights(relay, own, line, own->routing.piece);
    record_token(relay, &own->token[own->routing.row], own->routing.piece, line);
    if (++own->routing.piece == layout->routing_lines)
      own->routing = (struct front){.row = own->routing.row + 1};
  }
}

// Not 0: one of the two is empty. A borrow can come only from a half that is.
static uint64_t find_empty(uint64_t words) {
  uint64_t ones = UINT64_C(0x0000000100000001), tops = UINT64_C(0x8000000080000000);
  return (~words - ones) & words & tops;
}

// `bytes` of values at `offset`, a multiple of 16, if none of their words is empty: `words` of them are sent, and what
// stands behind them is not looked at. Their place is empty then. A value that has come stays until it is taken.
static bool take_values(const struct device_relay *relay, struct cuda_batch *batch, size_t offset, uint32_t bytes,
                        uint32_t words) {
  char *from = relay->out + offset;
  uint32_t count = bytes / 8, pairs = words / 2 < count ? words / 2 : count;
  uint64_t empty = 0;
  __builtin_prefetch(from + AHEAD, 1);
  for (uint32_t i = 0; i < pairs; i++) // without branches, which would take as long as all else here
    empty |= find_empty(cuda_load_word(from + i * 8));
  if (empty || (pairs < count && words % 2 && (uint32_t)cuda_load_word(from + pairs * 8) == CUDA_EMPTY))
    return false;
  char *room = cuda_batch_room(batch, RUN_VALUES, offset, bytes);
  if (!room)
    return false;
  for (uint32_t at = 0; at < bytes; at += 8) { // loaded again: from 16 words on the stack the copy took longer
    uint64_t word = cuda_load_word(from + at);
    memcpy(room + at, &word, sizeof word);
    cuda_store_word(from + at, (uint64_t)CUDA_EMPTY << 32 | CUDA_EMPTY);
  }
  return true;
}

// A row of `bytes` at `begin`, `words` of which are sent, from `front` on. True: all of it.
static bool collect_row(const struct device_relay *relay, struct cuda_batch *batch, size_t begin, uint32_t bytes,
                        uint32_t words, struct front *front) {
  for (; front->piece * CUDA_LINE < bytes; front->piece++)
    if (!take_values(relay, batch, begin + (size_t)front->piece * CUDA_LINE, piece_of(bytes, front->piece),
                     words - front->piece * (CUDA_LINE / 4)))
      return false;
  *front = (struct front){.row = front->row + 1};
  return true;
}

// The same, of an answer in code.
static bool collect_coded(const struct device_relay *relay, struct cuda_batch *batch, size_t begin,
                          struct front *front) {
  const struct cuda_form *form = &relay->layout.answer;
  for (; front->piece < form->chunks; front->piece++)
    if (is_coded_line(form, front->piece) &&
        !take_values(relay, batch, begin + (size_t)front->piece * CUDA_LINE, CUDA_LINE, CUDA_LINE / 4))
      return false;
  *front = (struct front){.row = front->row + 1};
  return true;
}

static void collect_values(struct device_relay *relay, struct cuda_batch *batch, uint32_t slot) {
  struct outgoing *own = &relay->outgoing[slot];
  const struct cuda_layout *layout = &relay->layout;
  size_t rows = slot_at(relay, slot) + layout->rows, scales = slot_at(relay, slot) + layout->row.scales;
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
  struct outgoing *own = &relay->outgoing[slot];
  if (!own->sent && own->units > relay->layout.count_units && own->routing.row == own->rows &&
      own->values.row == own->rows && own->scales.row == own->rows)
    own->sent = put_words(batch, RUN_UNITS, slot_at(relay, slot), own->header);
}

static void collect_weights(struct device_relay *relay, struct cuda_batch *batch, uint32_t slot) {
  struct outgoing *own = &relay->outgoing[slot];
  size_t begin = slot_at(relay, slot) + relay->layout.late;
  while (own->late && own->next_weights < own->num_weights &&
         take_unit(relay, batch, begin + (size_t)own->weights[own->next_weights] * UNIT, own->flag))
    own->next_weights++;
}

static void collect_answers(struct device_relay *relay, struct cuda_batch *batch, uint32_t slot) {
  struct incoming *theirs = &relay->incoming[slot];
  const struct cuda_layout *layout = &relay->layout;
  bool whole = true;
  while (theirs->answers.row < theirs->rows && whole) {
    size_t at =
        slot_at(relay, slot) + layout->answers + (size_t)theirs->token[theirs->answers.row] * layout->answer.stride;
    whole = layout->coded
                ? collect_coded(relay, batch, at, &theirs->answers)
                : collect_row(relay, batch, at, layout->answer.stride, layout->answer.stride / 4, &theirs->answers);
  }
}

size_t cuda_relay_collect(struct device_relay *relay, void *bytes, size_t size, struct device_moves *moves,
                          struct device_sharing *sharing) {
  struct cuda_batch batch = {.bytes = bytes, .size = size, .moves = moves, .sharing = sharing};
  uint64_t headers[CUDA_DEPTH][2];
  // Headers are read before the start unit, which is sent first: a peer that finds a header has to find the start that
  // was published before it.
  for (uint32_t slot = 0; slot < CUDA_DEPTH; slot++)
    load_unit(relay->out + slot_at(relay, slot), headers[slot]);
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

// --- delivering ---

static void deliver_units(char *to, const char *from, size_t bytes) {
  uint64_t words[2];
  for (size_t at = 0; at < bytes; at += UNIT) {
    memcpy(words, from + at, UNIT);
    cuda_store_word(to + at, words[0]);
    cuda_store_word(to + at + 8, words[1]); // with the flag
  }
}

// In any order: each word shows by itself that it has arrived.
static void deliver_values(char *to, const char *from, size_t bytes) {
  uint64_t word;
  for (size_t at = 0; at < bytes; at += sizeof word) {
    memcpy(&word, from + at, sizeof word);
    __atomic_store_n((cuda_word *)(to + at), word, __ATOMIC_RELAXED);
  }
}

static void deliver_lines(char *to, const char *from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += CUDA_LINE) {
    uint64_t flag;
    memcpy(&flag, from + at + CUDA_LINE - sizeof flag, sizeof flag);
    memcpy(to + at, from + at, CUDA_LINE - sizeof flag);
    cuda_store_word(to + at + CUDA_LINE - sizeof flag, flag);
  }
}

// A line of routing, or a header, has come: if it is another operation's, no row of that is known yet.
static void record_flag(struct incoming *theirs, const char *flag) {
  uint32_t *token = theirs->token, found;
  memcpy(&found, flag, sizeof found);
  if (found != theirs->flag)
    *theirs = (struct incoming){.flag = found, .token = token};
}

// Routing has come, row by row: the tokens that our kernels will answer.
static void record_routing(struct device_relay *relay, uint32_t slot, size_t first, const char *lines, size_t bytes) {
  struct incoming *theirs = &relay->incoming[slot];
  uint32_t each = relay->layout.routing_lines;
  for (size_t i = 0; i < bytes / CUDA_LINE; i++) {
    size_t row = (first + i) / each;
    record_flag(theirs, lines + i * CUDA_LINE + CUDA_LINE - sizeof(uint64_t));
    if (row != theirs->rows || row >= relay->layout.max_tokens)
      return; // of an operation that has passed
    record_token(relay, &theirs->token[row], (uint32_t)((first + i) % each), lines + i * CUDA_LINE);
    theirs->rows += (first + i) % each + 1 == each;
  }
}

// Which slot an offset is in; *at: from its beginning.
static bool find_slot(const struct device_relay *relay, size_t offset, uint32_t *slot, size_t *at) {
  if (offset < sizeof(struct cuda_area_head))
    return false;
  *slot = (uint32_t)((offset - sizeof(struct cuda_area_head)) / relay->layout.slot);
  *at = (offset - sizeof(struct cuda_area_head)) % relay->layout.slot;
  return *slot < CUDA_DEPTH;
}

static bool is_of_stream(const struct device_relay *relay, const struct cuda_run *run) {
  return relay->flows && run->kind > RUN_VALUES;
}

static bool is_legal(const struct device_relay *relay, const struct cuda_run *run) {
  if (is_of_stream(relay, run))
    return run->bytes != 0 && cuda_flow_relay_is_legal(&relay->flow, run);
  uint32_t step = run->kind == RUN_LINES ? CUDA_LINE : run->kind >= RUN_WORDS && run->kind <= RUN_VALUES ? UNIT : 0;
  return step != 0 && run->bytes != 0 && run->offset % step == 0 && run->bytes % step == 0 &&
         (uint64_t)run->offset + run->bytes <= relay->layout.area;
}

static void deliver_run(struct device_relay *relay, const struct cuda_run *run, const char *from) {
  if (is_of_stream(relay, run)) {
    cuda_flow_relay_deliver(&relay->flow, run, from);
    return;
  }
  const struct cuda_layout *layout = &relay->layout;
  char *to = relay->in + run->offset;
  uint32_t slot = 0;
  size_t at = 0;
  bool in_slot = find_slot(relay, run->offset, &slot, &at);
  // The relay's own state is updated first: kernels answer as soon as they see what is delivered.
  if (in_slot && run->kind == RUN_UNITS && at == 0)
    record_flag(&relay->incoming[slot], from + UNIT - sizeof(uint32_t));
  if (in_slot && run->kind == RUN_LINES && at >= layout->routing && at < layout->late)
    record_routing(relay, slot, (at - layout->routing) / CUDA_LINE, from, run->bytes);
  if (run->kind == RUN_LINES)
    deliver_lines(to, from, run->bytes);
  else if (run->kind == RUN_VALUES)
    deliver_values(to, from, run->bytes);
  else
    deliver_units(to, from, run->bytes);
}

// The run at `at`, whose bytes follow it; a copy, as the peer may write there.
static int find_run(const struct device_relay *relay, const char *from, size_t size, size_t at, struct cuda_run *run,
                    char *why) {
  if (size - at < sizeof *run)
    return set_error(why, WEFT_ERR_PROTOCOL, "a batch of the peer's ends within a run");
  memcpy(run, from + at, sizeof *run);
  if (!is_legal(relay, run) || run->bytes > size - at - sizeof *run)
    return set_error(why, WEFT_ERR_PROTOCOL, "a run of the peer's lies outside this area, or is of an unknown kind");
  return 0;
}

// Rows in windows of neighbours: copied here. `only_check`: whether they could be.
static bool copy_shared(const struct device_relay *relay, const struct cuda_run *run, const char *from,
                        const struct device_neighbours *neighbours, bool only_check) {
  struct cuda_elsewhere where;
  const char *values = cuda_flow_share_resolve(&relay->flow, run, from, neighbours, &where);
  if (values && !only_check)
    memcpy(relay->in + run->offset, values, where.bytes);
  return values != NULL;
}

// Looks at all runs; `only_check`: and writes nothing, else it copies what is to be copied from neighbours. `*copies`:
// there is something like that.
static int look_at_runs(const struct device_relay *relay, const char *from, size_t size,
                        const struct device_neighbours *neighbours, bool only_check, bool *copies, char *why) {
  struct cuda_run run;
  for (size_t at = 0; at < size; at += sizeof run + run.bytes) {
    if (find_run(relay, from, size, at, &run, why) != 0)
      return WEFT_ERR_PROTOCOL;
    if (run.kind != RUN_ELSEWHERE)
      continue;
    *copies = true;
    if (!copy_shared(relay, &run, from + at + sizeof run, neighbours, only_check))
      return set_error(why, WEFT_ERR_PROTOCOL, "a run of the peer's names a row in a window that is not known here");
  }
  return 0;
}

// Checks all runs before it writes anything. Words, by which kernels see rows, come last.
int cuda_relay_deliver(struct device_relay *relay, const void *bytes, size_t size,
                       const struct device_neighbours *neighbours, char *why) {
  const char *from = bytes;
  struct cuda_run run;
  bool copies = false;
  int rc = look_at_runs(relay, from, size, neighbours, true, &copies, why);
  if (rc == 0 && copies)
    rc = look_at_runs(relay, from, size, neighbours, false, &copies, why);
  if (rc == 0 && copies && !neighbours->holds(neighbours->arg))
    rc = set_error(why, WEFT_ERR_PEER_LOST, "the peer has let go of this rank");
  for (size_t at = 0; rc == 0 && at < size; at += sizeof run + run.bytes) {
    rc = find_run(relay, from, size, at, &run, why);
    if (rc == 0 && run.kind != RUN_ELSEWHERE)
      deliver_run(relay, &run, from + at + sizeof run);
  }
  return rc;
}

void cuda_relay_landed(struct device_relay *relay, uint64_t stamp) {
  if (relay->flows)
    cuda_flow_share_land(&relay->flow, stamp);
}

// --- opening ---

// The lists of what operations bring; of control, which brings none, they are empty. False: no memory.
static bool open_lists(struct device_relay *relay) {
  size_t tokens = (size_t)relay->layout.max_tokens + 1; // an empty list is memory too
  bool whole = true;
  for (int i = 0; i < CUDA_DEPTH; i++) {
    relay->outgoing[i].flag = CUDA_EMPTY; // as the window has it
    relay->outgoing[i].weights = calloc(tokens * relay->layout.late_units, sizeof(uint32_t));
    relay->outgoing[i].token = calloc(tokens, sizeof(uint32_t));
    relay->incoming[i].token = calloc(tokens, sizeof(uint32_t));
    whole = whole && relay->outgoing[i].weights && relay->outgoing[i].token && relay->incoming[i].token;
  }
  return whole;
}

int cuda_relay_open(const struct device_ep_options *o, void *in, void *out, struct device_relay **made, char *why) {
  struct device_relay *relay = calloc(1, sizeof *relay);
  int rc = relay ? 0 : WEFT_ERR_NOMEM;
  if (relay) {
    cuda_area_of(o, &relay->layout, &relay->forms);
    relay->in = in;
    relay->out = out;
    relay->flows = o->throughput;
    rc = open_lists(relay) ? 0 : WEFT_ERR_NOMEM;
  }
  if (rc == WEFT_ERR_NOMEM)
    set_error(why, rc, "no memory for the relay to a rank on another host");
  if (rc == 0 && relay->flows)
    rc = cuda_flow_relay_open(&relay->flow, o, in, out, why);
  if (rc == 0)
    *made = relay;
  else
    cuda_relay_close(relay);
  return rc;
}

void cuda_relay_rings(const struct device_relay *relay, uint64_t *offset, uint64_t *bytes) {
  *offset = *bytes = 0;
  if (relay->flows)
    cuda_flow_relay_rings(&relay->flow, offset, bytes);
}

void cuda_relay_close(struct device_relay *relay) {
  for (int i = 0; i < CUDA_DEPTH && relay; i++) {
    free(relay->outgoing[i].weights);
    free(relay->outgoing[i].token);
    free(relay->incoming[i].token);
  }
  if (relay)
    cuda_flow_relay_close(&relay->flow);
  free(relay);
}
