// What goes between two ranks of a group for throughput on hosts that NVLink does not join (cuda/engine/flow_relay.c):
// threads in the place of kernels write rows and answers of drawn operations to rings that are smaller than these, read
// what comes, compare every byte of it, and give credit. A thread in the place of the net threads carries, in batches
// that often have no room for what there is; and with moves, which it makes in any order, as a network does.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/time/clock.h"
#include "cuda/engine/flow_layout.h"
#include "cuda/engine/flow_relay.h"
#include "cuda/engine/relay.h"
#include "weft/err.h"

enum { DEADLINE_MS = 60000, BATCH = 24 << 10, HIDDEN = 256, TOPK = 4, EXPERTS = 3, TOKENS = 1500, SMALLEST = 2048 };
enum { MOVES = 8, FLIGHTS = 4, MOST_MOVED = 16 << 10 };
enum { CODE = HIDDEN / LOGFMT10_BLOCK * (LOGFMT10_CODE_BYTES + LOGFMT10_HEAD_BYTES) };

struct side {
  uint32_t self;
  uint64_t seed, random, ops;
  struct cuda_flow flow;
  struct cuda_layout control;
  uint64_t offset;
  char *in, *out;
  size_t size;
  struct device_relay *relay;
  _Atomic uint64_t begun; // operations; the peer's headers say it
  struct side *peer;
  _Atomic bool *stop;
  char error[160];
};

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

static uint64_t next(struct side *side, uint64_t below) {
  return (side->random = mix(side->random + 0x9E3779B97F4A7C15u)) % below;
}

// A number that belongs to (side, operation, what).
static uint64_t drawn(const struct side *side, uint32_t self, uint64_t op, uint64_t what) {
  return mix(side->seed ^ mix(op * 2 + self) ^ mix(what + 77));
}

// --- operations ---

static bool is_coded(const struct side *side, uint64_t op) {
  return drawn(side, 0, op, 1) % 3 == 0;
}
static bool is_narrow(const struct side *side, uint64_t op) { // rows of fp8, and fewer selections
  return drawn(side, 0, op, 2) % 2;
}
static bool is_told(const struct side *side, uint64_t op) { // a header tells the form
  return drawn(side, 0, op, 3) % 4;
}

// Of a channel, whose index is that of its words: most are empty in most operations.
static uint32_t rows_of(const struct side *side, uint32_t self, uint64_t op, uint32_t index) {
  uint64_t bits = drawn(side, self, op, 100 + index);
  return bits % 8 ? 0 : (uint32_t)(bits >> 8) % side->flow.list;
}

static uint64_t base_of(const struct side *side, uint64_t op, uint32_t index) {
  return (index < CUDA_CHANNELS ? op : op * EP_MAX_COMBINES) * side->flow.list;
}

// Bytes of a row, and for answers of what stands behind the room of its values.
static uint32_t used_of(const struct side *side, uint64_t op, uint32_t index) {
  if (index >= CUDA_CHANNELS)
    return is_coded(side, op) ? CODE : 2 * HIDDEN;
  return is_narrow(side, op) ? HIDDEN + 16 + cuda_routing_bytes(2) : 2 * HIDDEN + cuda_routing_bytes(TOPK);
}

static unsigned char byte_of(const struct side *side, uint32_t self, uint32_t index, uint64_t position, uint32_t at) {
  return (unsigned char)(mix(side->seed + index * 7919 + position * 31 + self) >> at % 57);
}

static const struct cuda_ring *ring_of(const struct side *side, uint32_t index) {
  return index < CUDA_CHANNELS ? &side->flow.rows : &side->flow.answers;
}

static char *place_of(const struct side *side, char *window, uint32_t index, uint64_t position) {
  const struct cuda_ring *ring = ring_of(side, index);
  return window + side->offset + ring->at +
         ((uint64_t)(index % CUDA_CHANNELS) * ring->places + position % ring->places) * ring->place;
}

static uint64_t *word_of(const struct side *side, char *window, uint64_t op, uint32_t index, bool credit) {
  struct cuda_flow_word *word = (struct cuda_flow_word *)(window + side->offset) + index;
  bool coded = index >= CUDA_CHANNELS && is_coded(side, op);
  return credit ? coded ? &word->coded_credit : &word->credit : coded ? &word->coded_tail : &word->tail;
}

static void write_row(const struct side *side, uint64_t op, uint32_t index, uint64_t position) {
  char *to = place_of(side, side->out, index, position);
  for (uint32_t i = 0; i < used_of(side, op, index); i++)
    to[i] = (char)byte_of(side, side->self, index, position, i);
  for (uint32_t i = 0; index >= CUDA_CHANNELS && i < 4 * TOPK; i++)
    to[2 * HIDDEN + i] = (char)byte_of(side, side->self, index, position, i + 1);
}

static bool check_row(struct side *side, uint64_t op, uint32_t index, uint64_t position) {
  const char *from = place_of(side, side->in, index, position);
  bool right = true;
  for (uint32_t i = 0; i < used_of(side, op, index); i++)
    right &= from[i] == (char)byte_of(side, !side->self, index, position, i);
  for (uint32_t i = 0; index >= CUDA_CHANNELS && i < 4 * TOPK; i++)
    right &= from[2 * HIDDEN + i] == (char)byte_of(side, !side->self, index, position, i + 1);
  if (!right)
    snprintf(side->error, sizeof side->error, "side %u, operation %llu: position %llu of %u has other bytes",
             side->self, (unsigned long long)op, (unsigned long long)position, index);
  return right;
}

// The header's unit that has the form, as control writes it.
static void tell_form(struct side *side, uint64_t op, uint32_t form) {
  uint32_t field = EXPERTS + CUDA_FIELD_FORM, each = CUDA_UNIT_COUNTS / 2;
  char *unit = side->out + sizeof(struct cuda_area_head) + op % CUDA_DEPTH * side->control.slot + side->control.counts +
               (size_t)(field / each) * sizeof(struct cuda_unit);
  uint64_t low = field % each == 0 ? form : field % each == 1 ? (uint64_t)form << 32 : 0;
  cuda_store_word(unit, low);
  cuda_store_word(unit + 8, (op + 1) << 32 | (field % each == 2 ? form : 0));
}

static uint32_t form_of(const struct side *side, uint64_t op) {
  return is_narrow(side, op) ? cuda_flow_form(CUDA_FP8, 2, HIDDEN + 2 * 4)
                             : cuda_flow_form(CUDA_BF16, TOPK, 2 * HIDDEN);
}

// --- in the place of kernels ---

struct channel_end {
  uint32_t count, done; // rows
  bool over;
};

// One step of the sending end. `before`: position that the reader has to have come to.
static bool send_some(struct side *side, uint64_t op, uint32_t index, struct channel_end *end, uint64_t before) {
  uint64_t base = base_of(side, op, index), some = 1 + next(side, 4);
  uint64_t credit = cuda_load_word(word_of(side, side->in, op, index, true));
  bool told = false;
  if (credit < base && credit < before)
    return false;
  credit = credit > base ? credit : base;
  for (; some > 0 && end->done < end->count && credit + ring_of(side, index)->places > base + end->done; some--) {
    write_row(side, op, index, base + end->done++);
    told = true;
  }
  end->over = end->done == end->count;
  if (told || end->over)
    cuda_store_word(word_of(side, side->out, op, index, false), (base + end->done) * 2 + end->over);
  return told || end->over;
}

// One step of the receiving end, which knows from the tail alone how many rows come.
static bool receive_some(struct side *side, uint64_t op, uint32_t index, struct channel_end *end) {
  uint64_t base = base_of(side, op, index), tail = cuda_load_word(word_of(side, side->in, op, index, false));
  uint64_t *credit = word_of(side, side->out, op, index, true);
  if (tail <= (base + end->done) * 2)
    return false;
  for (uint32_t some = 1 + (uint32_t)next(side, 4); some > 0 && end->done < tail / 2 - base; some--) {
    if (end->done == end->count)
      snprintf(side->error, sizeof side->error, "side %u, operation %llu: more than %u rows of %u", side->self,
               (unsigned long long)op, end->count, index);
    if (side->error[0] || !check_row(side, op, index, base + end->done))
      return false;
    cuda_store_word(credit, base + ++end->done);
  }
  end->over = tail % 2 && end->done == tail / 2 - base;
  if (end->over)
    cuda_store_word(credit, base + side->flow.list);
  if (end->over && end->done != end->count)
    snprintf(side->error, sizeof side->error, "side %u, operation %llu: %u rows of %u instead of %u", side->self,
             (unsigned long long)op, end->done, index, end->count);
  return true;
}

static bool wait_over(struct side *side, uint64_t deadline_ns, const char *what, uint64_t op) {
  sched_yield();
  if (!side->error[0] && !clock_passed(deadline_ns) && !atomic_load(side->stop))
    return false;
  if (!side->error[0])
    snprintf(side->error, sizeof side->error, "side %u, operation %llu: %s", side->self, (unsigned long long)op, what);
  atomic_store(side->stop, true);
  return true;
}

// Rows, or answers: all channels of a ring, at both ends. They are served in any order.
static bool move(struct side *side, uint64_t op, uint32_t first, uint64_t before) {
  struct channel_end ends[2][CUDA_CHANNELS];
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t c = 0; c < CUDA_CHANNELS; c++) {
    ends[0][c] = (struct channel_end){.count = rows_of(side, side->self, op, first + c)};
    ends[1][c] = (struct channel_end){.count = rows_of(side, !side->self, op, first + c)};
    cuda_store_word(word_of(side, side->out, op, first + c, true), base_of(side, op, first + c));
  }
  for (uint32_t left = 2 * CUDA_CHANNELS; left > 0;) {
    bool moved = false;
    for (uint32_t c = 0; c < CUDA_CHANNELS; c++)
      for (int e = 0; e < 2; e++) {
        struct channel_end *end = &ends[e][c];
        if (end->over)
          continue;
        moved |= e ? receive_some(side, op, first + c, end) : send_some(side, op, first + c, end, before);
        left -= end->over;
      }
    if ((!moved || side->error[0]) && wait_over(side, deadline_ns, "the rows do not come", op))
      return false;
  }
  return true;
}

static void *run_side(void *arg) {
  struct side *side = arg;
  uint64_t list = side->flow.list, deadline_ns = clock_deadline_ms(DEADLINE_MS);
  for (uint64_t op = 0; op < side->ops; op++) {
    if (is_told(side, op))
      tell_form(side, op, form_of(side, op));
    atomic_store(&side->begun, op + 1);
    while (atomic_load(&side->peer->begun) <= op)
      if (wait_over(side, deadline_ns, "the peer does not begin", op))
        return NULL;
    bool again = op > 0 && is_coded(side, op) == is_coded(side, op - 1); // credits of both formats are apart
    if (!move(side, op, 0, op * list) ||
        !move(side, op, CUDA_CHANNELS, again ? ((op - 1) * EP_MAX_COMBINES + 1) * list : 0))
      return NULL;
  }
  return NULL;
}

// --- in the place of the net threads ---

// A batch that is under way, with its moves.
struct flight {
  _Alignas(16) char bytes[BATCH];
  size_t size;
  struct device_move list[MOVES];
  uint32_t left; // moves
};

// From one side to the other.
struct way {
  struct flight flights[FLIGHTS];
  uint64_t posted, landed;
};

struct carrier {
  struct side *sides;
  uint64_t random, batches, moves;
  struct way ways[2];
  _Atomic bool done;
  char error[DEVICE_WHY];
};

static void *carry(void *arg) {
  struct carrier *carrier = arg;
  static _Alignas(16) char bytes[BATCH];
  while (!atomic_load(&carrier->done) && !carrier->error[0])
    for (int i = 0; i < 2; i++) {
      carrier->random = mix(carrier->random + 1);
      size_t room = SMALLEST + carrier->random % (BATCH - SMALLEST);
      size_t size = cuda_relay_collect(carrier->sides[i].relay, bytes, room, NULL, NULL);
      if (size > room)
        snprintf(carrier->error, sizeof carrier->error, "%zu bytes were collected into %zu", size, room);
      else if (size > 0 && cuda_relay_deliver(carrier->sides[!i].relay, bytes, size, NULL, carrier->error) == 0)
        carrier->batches++;
    }
  return NULL;
}

// --- the same, with moves ---

static uint64_t below(struct carrier *carrier, uint64_t limit) {
  carrier->random = mix(carrier->random + 1);
  return carrier->random % limit;
}

static void begin_flight(struct carrier *carrier, int from) {
  struct way *way = &carrier->ways[from];
  struct flight *flight = &way->flights[way->posted % FLIGHTS];
  struct device_moves moves = {.list = flight->list,
                               .room = 2 + (uint32_t)below(carrier, MOVES - 1),
                               .most = 2048 + below(carrier, MOST_MOVED - 2048),
                               .number = way->posted + 1,
                               .landed = way->landed};
  uint64_t offset, bytes;
  size_t room = SMALLEST + below(carrier, BATCH - SMALLEST);
  flight->size = cuda_relay_collect(carrier->sides[from].relay, flight->bytes, room, &moves, NULL);
  flight->left = moves.count;
  cuda_relay_rings(carrier->sides[from].relay, &offset, &bytes);
  bool right = flight->size <= room && moves.bytes <= moves.most && moves.count <= moves.room;
  for (uint32_t i = 0; i < moves.count; i++)
    right &= moves.list[i].offset >= offset && moves.list[i].offset + moves.list[i].bytes <= offset + bytes;
  if (!right)
    snprintf(carrier->error, sizeof carrier->error, "moves, or a batch, are where they may not be");
  way->posted += flight->size > 0;
  carrier->moves += moves.count;
}

// One of the moves that are left of any batch.
static void move_some(struct carrier *carrier, int from) {
  struct way *way = &carrier->ways[from];
  struct flight *flight = &way->flights[(way->landed + below(carrier, FLIGHTS)) % FLIGHTS];
  if (flight->left == 0)
    return;
  struct device_move *move = &flight->list[below(carrier, flight->left)];
  memcpy(carrier->sides[!from].in + move->offset, carrier->sides[from].out + move->offset, move->bytes);
  *move = flight->list[--flight->left];
}

// Batches are delivered in their order, each when its moves have been made.
static void land(struct carrier *carrier, int from) {
  struct way *way = &carrier->ways[from];
  for (; way->landed < way->posted && !carrier->error[0]; way->landed++) {
    const struct flight *flight = &way->flights[way->landed % FLIGHTS];
    if (flight->left > 0)
      return;
    cuda_relay_deliver(carrier->sides[!from].relay, flight->bytes, flight->size, NULL, carrier->error);
    carrier->batches++;
  }
}

static void *carry_with_moves(void *arg) {
  struct carrier *carrier = arg;
  while (!atomic_load(&carrier->done) && !carrier->error[0])
    for (int from = 0; from < 2; from++) {
      if (carrier->ways[from].posted - carrier->ways[from].landed < FLIGHTS && below(carrier, 2))
        begin_flight(carrier, from);
      for (uint64_t times = below(carrier, MOVES); times > 0; times--)
        move_some(carrier, from);
      land(carrier, from);
    }
  return NULL;
}

static struct device_ep_options options_of(uint64_t window_bytes) {
  return (struct device_ep_options){.max_tokens = TOKENS,
                                    .hidden = HIDDEN,
                                    .topk = TOPK,
                                    .experts_per_rank = EXPERTS,
                                    .dtype = CUDA_BF16,
                                    .combine_dtype = CUDA_COMBINE_BF16,
                                    .throughput = true,
                                    .window_bytes = window_bytes};
}

static void open_side(struct side *side, uint32_t self, uint64_t seed, uint64_t window_bytes) {
  const struct device_ep_options options = options_of(window_bytes);
  struct cuda_forms forms;
  char why[DEVICE_WHY] = "";
  *side = (struct side){.self = self, .seed = seed, .random = seed + self};
  cuda_area_of(&options, &side->control, &forms);
  cuda_flow_of(&options, &side->flow, &side->offset);
  side->size = side->offset + side->flow.bytes;
  side->in = aligned_alloc(CUDA_LINE, side->size);
  side->out = aligned_alloc(CUDA_LINE, side->size);
  assert_true(side->in && side->out);
  cuda_area_init(side->in, side->size);
  cuda_area_init(side->out, side->size);
  assert_int_equal(cuda_relay_open(&options, side->in, side->out, &side->relay, why), 0);
}

static void close_side(struct side *side) {
  cuda_relay_close(side->relay);
  free(side->in);
  free(side->out);
}

static void converse(uint64_t seed, uint64_t ops, uint64_t window_bytes, bool moves) {
  struct side sides[2];
  static struct carrier carrier;
  carrier = (struct carrier){.sides = sides, .random = seed};
  _Atomic bool stop = false;
  pthread_t threads[2], thread;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (uint32_t i = 0; i < 2; i++) {
    open_side(&sides[i], i, seed, window_bytes);
    sides[i].ops = ops;
    sides[i].peer = &sides[!i];
    sides[i].stop = &stop;
  }
  assert_int_equal(pthread_create(&thread, NULL, moves ? carry_with_moves : carry, &carrier), 0);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run_side, &sides[i]), 0);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  atomic_store(&carrier.done, true);
  pthread_join(thread, NULL);
  if (carrier.error[0] || sides[0].error[0] || sides[1].error[0])
    fail_msg("%s %s %s", carrier.error, sides[0].error, sides[1].error);
  assert_true(carrier.batches > ops);
  assert_int_equal(carrier.moves > ops, moves);
  for (int i = 0; i < 2; i++)
    close_side(&sides[i]);
}

static uint64_t small_window(void) {
  const struct device_ep_options options = options_of(UINT32_MAX);
  struct cuda_flow flow;
  uint64_t offset;
  cuda_flow_of(&options, &flow, &offset);
  return offset + cuda_flow_bytes_for(&flow.rows, CUDA_LEAST_PLACES * CUDA_CHANNELS);
}

static void all_rows_come_through_small_rings(void **state) {
  (void)state;
  struct side side;
  open_side(&side, 0, 1, small_window());
  assert_int_equal(side.flow.rows.places, CUDA_LEAST_PLACES); // an operation goes round them
  assert_true(side.flow.list > 2 * CUDA_LEAST_PLACES);
  close_side(&side);
  for (uint64_t seed = 1; seed <= 2; seed++)
    for (int moves = 0; moves < 2; moves++)
      converse(seed, 40, small_window(), moves);
}

static void all_rows_come_through_large_rings(void **state) {
  (void)state;
  for (int moves = 0; moves < 2; moves++)
    converse(3, 40, UINT32_MAX, moves);
}

// --- one by one ---

static _Alignas(16) char batch[64 << 10];

static size_t collect(struct side *side, size_t room) {
  size_t size = cuda_relay_collect(side->relay, batch, room, NULL, NULL);
  assert_true(size <= room);
  return size;
}

static struct cuda_run run_at(size_t at) {
  struct cuda_run run;
  memcpy(&run, batch + at, sizeof run);
  return run;
}

enum { RUN = sizeof(struct cuda_run), WORDS = sizeof(struct cuda_flow_word) };

static void rows_go_before_the_tail_and_only_up_to_it(void **state) {
  (void)state;
  struct side side;
  open_side(&side, 0, 5, small_window());
  uint32_t place = side.flow.rows.place;
  struct cuda_flow_word *words = (struct cuda_flow_word *)(side.out + side.offset);
  assert_int_equal(collect(&side, sizeof batch), 0);
  for (uint64_t position = 0; position < 3; position++)
    write_row(&side, 0, 2, position); // the third is not told of
  words[2].tail = 2 * 2;
  // Room for one row: it goes with a tail of its own. Then the other; then nothing.
  assert_int_equal(collect(&side, RUN + place + RUN + WORDS), RUN + place + RUN + WORDS);
  struct cuda_run rows = run_at(0), tail = run_at(RUN + place);
  assert_int_equal(rows.kind, RUN_PLACES);
  assert_int_equal(rows.offset, place_of(&side, side.out, 2, 0) - side.out);
  assert_memory_equal(batch + RUN, place_of(&side, side.out, 2, 0), place);
  assert_int_equal(tail.kind, RUN_CHANNELS);
  assert_int_equal(tail.offset, (char *)&words[2] - side.out);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN + place + RUN))->tail, 1 * 2);
  assert_int_equal(collect(&side, RUN + place + RUN + WORDS - 1), 0);
  assert_int_equal(collect(&side, sizeof batch), RUN + place + RUN + WORDS);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN + place + RUN))->tail, 2 * 2);
  assert_int_equal(collect(&side, sizeof batch), 0);
  words[2].tail = 2 * 2 + 1; // that was the last
  assert_int_equal(collect(&side, sizeof batch), RUN + WORDS);
  close_side(&side);
}

static void only_what_a_form_uses_is_sent(void **state) {
  (void)state;
  struct side side;
  open_side(&side, 0, 6, small_window());
  struct cuda_flow_word *words = (struct cuda_flow_word *)(side.out + side.offset);
  uint32_t used = HIDDEN + 16 + cuda_routing_bytes(2), list = side.flow.list;
  tell_form(&side, 7, cuda_flow_form(CUDA_FP8, 2, HIDDEN + 2 * 4));
  words[0].tail = (7 * (uint64_t)list + 1) * 2;
  assert_int_equal(collect(&side, sizeof batch), RUN + used + RUN + WORDS);
  words[0].tail = (9 * (uint64_t)list + 1) * 2; // whose header is not there
  assert_int_equal(collect(&side, sizeof batch), RUN + side.flow.rows.place + RUN + WORDS);
  tell_form(&side, 11, cuda_flow_form(WEFT_EP_OPAQUE, 16, 1 << 20)); // more than a place has
  words[0].tail = (11 * (uint64_t)list + 1) * 2;
  assert_int_equal(collect(&side, sizeof batch), RUN + side.flow.rows.place + RUN + WORDS);
  words[CUDA_CHANNELS].coded_tail = 1 * 2;
  assert_int_equal(collect(&side, sizeof batch), 2 * RUN + CODE + 4 * TOPK + RUN + WORDS);
  words[CUDA_CHANNELS].tail = ((uint64_t)EP_MAX_COMBINES * list + 1) * 2;
  assert_int_equal(collect(&side, sizeof batch), RUN + 2 * HIDDEN + 4 * TOPK + RUN + WORDS);
  close_side(&side);
}

// The reader has given credit for it.
static void rows_of_operations_before_do_not_go(void **state) {
  (void)state;
  struct side side;
  open_side(&side, 0, 7, small_window());
  struct cuda_flow_word *words = (struct cuda_flow_word *)(side.out + side.offset);
  uint64_t list = side.flow.list;
  words[1].tail = 2 * 2 + 1;
  words[1].tail = (list + 1) * 2;
  size_t size = collect(&side, sizeof batch);
  assert_int_equal(size, RUN + side.flow.rows.place + RUN + WORDS);
  assert_int_equal(run_at(0).offset, place_of(&side, side.out, 1, list) - side.out);
  close_side(&side);
}

static void channels_take_turns(void **state) {
  (void)state;
  struct side side;
  open_side(&side, 0, 8, small_window());
  struct cuda_flow_word *words = (struct cuda_flow_word *)(side.out + side.offset);
  size_t room = RUN + side.flow.rows.place + RUN + WORDS;
  words[0].tail = words[1].tail = 2;
  assert_int_equal(collect(&side, room), room);
  words[0].tail = 2 * 2; // there is more of the first
  assert_int_equal(collect(&side, room), room);
  assert_int_equal(run_at(0).offset, place_of(&side, side.out, 1, 0) - side.out);
  close_side(&side);
}

static struct device_move moved[MOVES];

static size_t collect_moves(struct side *side, struct device_moves *moves, uint64_t number, uint64_t landed) {
  *moves = (struct device_moves){.list = moved, .room = MOVES, .most = MOST_MOVED, .number = number, .landed = landed};
  return cuda_relay_collect(side->relay, batch, sizeof batch, moves, NULL);
}

static void the_rings_have_pages_of_their_own(void **state) {
  (void)state;
  struct side side;
  uint64_t offset, bytes;
  open_side(&side, 0, 10, small_window());
  cuda_relay_rings(side.relay, &offset, &bytes);
  assert_int_equal(offset % CUDA_STREAM_PAGE, 0);
  assert_true(offset >= side.offset + CUDA_FLOW_WORDS * WORDS);
  assert_int_equal(offset + bytes, side.size);
  assert_int_equal(offset, place_of(&side, side.in, 0, 0) - side.in);
  close_side(&side);
}

// A batch has the words of a tail alone, and rows that lie one behind the other are one move.
static void moves_say_where_rows_lie(void **state) {
  (void)state;
  struct side side;
  struct device_moves moves;
  open_side(&side, 0, 11, small_window());
  struct cuda_flow_word *words = (struct cuda_flow_word *)(side.out + side.offset);
  uint32_t place = side.flow.rows.place, answer = side.flow.answers.place, used = 2 * HIDDEN + 4 * TOPK;
  words[2].tail = 2 * 2;
  assert_int_equal(collect_moves(&side, &moves, 1, 0), RUN + WORDS);
  assert_int_equal(run_at(0).kind, RUN_CHANNELS);
  assert_int_equal(moves.count, 1);
  assert_int_equal(moved[0].offset, place_of(&side, side.out, 2, 0) - side.out);
  assert_int_equal(moved[0].bytes, 2 * place);
  words[2].tail = 4 * 2 + 1; // goes round the ring, which has three places
  assert_int_equal(collect_moves(&side, &moves, 2, 0), RUN + WORDS);
  assert_int_equal(moves.count, 2);
  assert_int_equal(moved[0].offset, place_of(&side, side.out, 2, 2) - side.out);
  assert_int_equal(moved[1].offset, place_of(&side, side.out, 2, 0) - side.out);
  assert_int_equal(moves.bytes, 2 * place);
  words[CUDA_CHANNELS + 3].tail = 2 * 2;
  assert_int_equal(collect_moves(&side, &moves, 3, 0), RUN + WORDS);
  assert_int_equal(moves.count, 1);
  assert_int_equal(moved[0].bytes, answer + used);
  words[CUDA_CHANNELS].coded_tail = 1 * 2; // small parts of which are copied
  assert_int_equal(collect_moves(&side, &moves, 4, 0), 2 * RUN + CODE + 4 * TOPK + RUN + WORDS);
  assert_int_equal(moves.count, 0);
  assert_int_equal(collect_moves(&side, &moves, 5, 0), 0);
  close_side(&side);
}

static void there_are_no_more_moves_than_there_may_be(void **state) {
  (void)state;
  struct side side;
  open_side(&side, 0, 12, small_window());
  struct cuda_flow_word *words = (struct cuda_flow_word *)(side.out + side.offset);
  uint32_t place = side.flow.rows.place;
  struct device_moves moves = {.list = moved, .room = 1, .most = 2 * place, .number = 1};
  words[0].tail = 3 * 2;
  assert_int_equal(cuda_relay_collect(side.relay, batch, sizeof batch, &moves, NULL), RUN + WORDS);
  assert_int_equal(moves.bytes, 2 * place);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN))->tail, 2 * 2);
  words[2].tail = 2; // elsewhere
  moves = (struct device_moves){.list = moved, .room = 1, .most = MOST_MOVED, .number = 2};
  assert_int_equal(cuda_relay_collect(side.relay, batch, sizeof batch, &moves, NULL), RUN + WORDS);
  assert_int_equal(moves.bytes, place);
  moves = (struct device_moves){.list = moved, .room = 1, .most = MOST_MOVED, .number = 3};
  assert_int_equal(cuda_relay_collect(side.relay, batch, sizeof batch, &moves, NULL), RUN + WORDS);
  assert_int_equal(run_at(0).offset, (char *)&words[2] - side.out);
  close_side(&side);
}

// Of an operation that its reader passed over rows may be under way when the next one's are written to their places.
static void rows_wait_for_what_is_under_way_to_their_places(void **state) {
  (void)state;
  struct side side;
  struct device_moves moves;
  open_side(&side, 0, 13, small_window());
  struct cuda_flow_word *words = (struct cuda_flow_word *)(side.out + side.offset);
  uint64_t list = side.flow.list;
  words[1].tail = 2;
  assert_int_equal(collect_moves(&side, &moves, 1, 0), RUN + WORDS);
  words[1].tail = (list + 1) * 2;
  assert_int_equal(collect_moves(&side, &moves, 2, 0), 0);
  words[1].credit = 5; // which goes, and what goes through other rings
  words[3].tail = 2;
  assert_int_equal(collect_moves(&side, &moves, 2, 0), 2 * (RUN + WORDS));
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN))->tail, 2);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN))->credit, 5);
  assert_int_equal(moves.count, 1);
  words[1].tail = (2 * list + 1) * 2;
  assert_int_equal(collect_moves(&side, &moves, 3, 0), 0);
  assert_int_equal(collect_moves(&side, &moves, 3, 1), RUN + WORDS);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN))->tail, (2 * list + 1) * 2);
  assert_int_equal(moved[0].offset, place_of(&side, side.out, 1, 2 * list) - side.out);
  words[1].tail = (2 * list + 2) * 2; // of the same operation: they do not wait
  assert_int_equal(collect_moves(&side, &moves, 4, 1), RUN + WORDS);
  words[CUDA_CHANNELS].tail = 2; // rows in either format have the same places
  words[CUDA_CHANNELS].coded_tail = ((uint64_t)EP_MAX_COMBINES * list + 1) * 2;
  collect_moves(&side, &moves, 5, 4);
  assert_int_equal(moves.count, 1);
  assert_int_equal(((const struct cuda_flow_word *)(batch + RUN))->coded_tail, 0);
  collect_moves(&side, &moves, 6, 5);
  assert_int_equal(moves.count, 0); // in the batch
  assert_int_equal(run_at(0).kind, RUN_PLACES);
  close_side(&side);
}

static void assert_refused(struct side *side, uint32_t kind, uint64_t offset, uint32_t bytes) {
  char why[DEVICE_WHY] = "";
  const struct cuda_run right = {.offset = (uint32_t)side->offset, .bytes = WORDS, .kind = RUN_CHANNELS};
  const struct cuda_run run = {.offset = (uint32_t)offset, .bytes = bytes, .kind = kind};
  memset(batch, 0x77, sizeof batch);
  memcpy(batch, &right, RUN); // what is right before it is not written either
  memcpy(batch + RUN + WORDS, &run, RUN);
  if (cuda_relay_deliver(side->relay, batch, RUN + WORDS + RUN + (bytes < 1024 ? bytes : 1024), NULL, why) !=
      WEFT_ERR_PROTOCOL)
    fail_msg("a run of kind %u with %u bytes at %llu is taken", kind, bytes, (unsigned long long)offset);
  assert_non_null(strstr(why, "run"));
}

static void what_does_not_belong_into_a_stream_is_refused(void **state) {
  (void)state;
  struct side side;
  open_side(&side, 0, 9, small_window());
  uint64_t begin = side.offset, words = CUDA_FLOW_WORDS * WORDS, rings = begin + side.flow.rows.at, end = side.size;
  char *before = malloc(side.size);
  assert_non_null(before);
  memcpy(before, side.in, side.size);
  assert_refused(&side, RUN_PLACES, rings, 0);
  assert_refused(&side, RUN_PLACES, rings - 16, 16); // what our kernels keep
  assert_refused(&side, RUN_PLACES, begin, 16);
  assert_refused(&side, RUN_PLACES, 0, 16);
  assert_refused(&side, RUN_PLACES, rings + 8, 16);
  assert_refused(&side, RUN_PLACES, rings, 24);
  assert_refused(&side, RUN_PLACES, end, 16);
  assert_refused(&side, RUN_PLACES, end - 16, 32);
  assert_refused(&side, RUN_PLACES, UINT32_MAX - 15, 16);
  assert_refused(&side, RUN_PLACES, rings, UINT32_MAX - 15);
  assert_refused(&side, RUN_CHANNELS, begin - WORDS, WORDS);
  assert_refused(&side, RUN_CHANNELS, begin + 16, WORDS);
  assert_refused(&side, RUN_CHANNELS, begin, WORDS / 2);
  assert_refused(&side, RUN_CHANNELS, begin + words, WORDS);
  assert_refused(&side, RUN_CHANNELS, begin + words - WORDS, 2 * WORDS);
  assert_refused(&side, RUN_CHANNELS, rings, WORDS);
  assert_refused(&side, RUN_ELSEWHERE, rings, 16); // nobody finds windows of neighbours
  assert_refused(&side, RUN_ELSEWHERE, rings, 32);
  assert_refused(&side, RUN_ELSEWHERE + 1, rings, 16);
  assert_refused(&side, RUN_VALUES, rings, 16); // of the area alone
  assert_refused(&side, RUN_UNITS, begin, 16);
  assert_memory_equal(before, side.in, side.size);
  free(before);
  close_side(&side);
}

static void a_group_for_latency_has_no_streams(void **state) {
  (void)state;
  struct device_ep_options options = options_of(0);
  struct cuda_layout layout;
  struct cuda_forms forms;
  struct device_relay *relay = NULL;
  char why[DEVICE_WHY] = "";
  assert_int_equal(cuda_relay_open(&options, batch, batch, &relay, why), WEFT_ERR_INVALID);
  assert_non_null(strstr(why, "window_bytes is 0"));
  options.throughput = false;
  options.max_tokens = 2;
  cuda_area_of(&options, &layout, &forms);
  char *area = aligned_alloc(CUDA_LINE, layout.area);
  assert_non_null(area);
  cuda_area_init(area, layout.area);
  assert_int_equal(cuda_relay_open(&options, area, area, &relay, why), 0);
  const struct cuda_run run = {.offset = 0, .bytes = WORDS, .kind = RUN_CHANNELS};
  memcpy(batch, &run, RUN);
  assert_int_equal(cuda_relay_deliver(relay, batch, RUN + WORDS, NULL, why), WEFT_ERR_PROTOCOL);
  cuda_relay_close(relay);
  free(area);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_go_before_the_tail_and_only_up_to_it),
      cmocka_unit_test(only_what_a_form_uses_is_sent),
      cmocka_unit_test(rows_of_operations_before_do_not_go),
      cmocka_unit_test(channels_take_turns),
      cmocka_unit_test(the_rings_have_pages_of_their_own),
      cmocka_unit_test(moves_say_where_rows_lie),
      cmocka_unit_test(there_are_no_more_moves_than_there_may_be),
      cmocka_unit_test(rows_wait_for_what_is_under_way_to_their_places),
      cmocka_unit_test(what_does_not_belong_into_a_stream_is_refused),
      cmocka_unit_test(a_group_for_latency_has_no_streams),
      cmocka_unit_test(all_rows_come_through_small_rings),
      cmocka_unit_test(all_rows_come_through_large_rings),
  };
  return cmocka_run_group_tests_name("cuda_flow_relay", tests, NULL, NULL);
}
