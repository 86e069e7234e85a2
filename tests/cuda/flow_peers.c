// Two ranks of a throughput group on hosts without NVLink between them (cuda/relay/flow.c) exchange data. Threads in
// place of kernels write rows and answers of random operations to rings that are smaller than the operations, read what
// arrives, compare every byte, and give credit. A thread in place of the net threads carries the data: in batches that
// are often too small, and with moves, which it makes in any order, as a network does.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "cuda/relay/batch.h"
#include "cuda/relay/flow.h"
#include "cuda/relay/relay.h"
#include "cuda/support/stream.h"

enum { DEADLINE_MS = 60000, BATCH = 24 << 10, HIDDEN = 256, SMALLEST = 2048 };
enum { MOVES = 8, FLIGHTS = 4, MOST_MOVED = 16 << 10 };
enum { CODE = HIDDEN / LOGFMT10_BLOCK * (LOGFMT10_CODE_BYTES + LOGFMT10_HEAD_BYTES) };

struct side {
  struct stream stream;
  uint32_t self;
  uint64_t seed, random, ops;
  char *in, *out;
  struct device_relay *relay;
  _Atomic uint64_t begun; // operations; the peer's headers say it
  struct side *peer;
  _Atomic bool *stop;
  char error[160];
};

static uint64_t next(struct side *side, uint64_t below) {
  return random_next(&side->random) % below;
}

// A number that belongs to (side, operation, what).
static uint64_t drawn(const struct side *side, uint32_t self, uint64_t op, uint64_t what) {
  return random_mix(side->seed ^ random_mix(op * 2 + self) ^ random_mix(what + 77));
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
  return bits % 8 ? 0 : (uint32_t)(bits >> 8) % side->stream.flow.list;
}

static uint64_t base_of(const struct side *side, uint64_t op, uint32_t index) {
  return (index < CUDA_CHANNELS ? op : op * EP_MAX_COMBINES) * side->stream.flow.list;
}

// Bytes of a row, and for answers of what stands behind the room of its values.
static uint32_t used_of(const struct side *side, uint64_t op, uint32_t index) {
  if (index >= CUDA_CHANNELS)
    return is_coded(side, op) ? CODE : 2 * HIDDEN;
  return is_narrow(side, op) ? HIDDEN + 16 + cuda_routing_bytes(2) : 2 * HIDDEN + cuda_routing_bytes(TOPK);
}

static unsigned char byte_of(const struct side *side, uint32_t self, uint32_t index, uint64_t position, uint32_t at) {
  return (unsigned char)(random_mix(side->seed + index * 7919 + position * 31 + self) >> at % 57);
}

static uint64_t *word_of(const struct side *side, char *window, uint64_t op, uint32_t index, bool credit) {
  struct cuda_flow_word *word = stream_words(&side->stream, window, index);
  bool coded = index >= CUDA_CHANNELS && is_coded(side, op);
  return credit ? coded ? &word->coded_credit : &word->credit : coded ? &word->coded_tail : &word->tail;
}

static void write_row(const struct side *side, uint64_t op, uint32_t index, uint64_t position) {
  char *to = stream_place(&side->stream, side->out, index, position);
  for (uint32_t i = 0; i < used_of(side, op, index); i++)
    to[i] = (char)byte_of(side, side->self, index, position, i);
  for (uint32_t i = 0; index >= CUDA_CHANNELS && i < 4 * TOPK; i++)
    to[2 * HIDDEN + i] = (char)byte_of(side, side->self, index, position, i + 1);
}

static bool check_row(struct side *side, uint64_t op, uint32_t index, uint64_t position) {
  const char *from = stream_place(&side->stream, side->in, index, position);
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

static uint32_t form_of(const struct side *side, uint64_t op) {
  return is_narrow(side, op) ? cuda_flow_form(CUDA_FP8, 2, HIDDEN, 2) : cuda_flow_form(CUDA_BF16, TOPK, 2 * HIDDEN, 0);
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
  for (;
       some > 0 && end->done < end->count &&
       credit + (index < CUDA_CHANNELS ? side->stream.flow.rows : side->stream.flow.answers).places > base + end->done;
       some--) {
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
    cuda_store_word(credit, base + side->stream.flow.list);
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
  uint64_t list = side->stream.flow.list, deadline_ns = clock_deadline_ms(DEADLINE_MS);
  for (uint64_t op = 0; op < side->ops; op++) {
    if (is_told(side, op))
      stream_send(&side->stream, side->out, op, CUDA_FIELD_FORM, form_of(side, op));
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
      carrier->random = random_mix(carrier->random + 1);
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
  carrier->random = random_mix(carrier->random + 1);
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

// --- a conversation ---

static void open_side(struct side *side, uint32_t self, uint64_t seed, bool small) {
  *side = (struct side){.self = self, .seed = seed, .random = seed + self};
  stream_make(&side->stream, HIDDEN, small);
  side->relay = stream_relay(&side->stream, &side->in, &side->out);
}

static void converse(uint64_t seed, uint64_t ops, bool small, bool moves) {
  struct side sides[2];
  static struct carrier carrier;
  carrier = (struct carrier){.sides = sides, .random = seed};
  _Atomic bool stop = false;
  pthread_t threads[2], thread;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (uint32_t i = 0; i < 2; i++) {
    open_side(&sides[i], i, seed, small);
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
    stream_end(sides[i].relay, sides[i].in, sides[i].out);
}

static void all_rows_come_through_small_rings(void **state) {
  (void)state;
  struct stream stream;
  stream_make(&stream, HIDDEN, true);
  assert_int_equal(stream.flow.rows.places, CUDA_LEAST_PLACES); // an operation goes round them
  assert_true(stream.flow.list > 2 * CUDA_LEAST_PLACES);
  for (uint64_t seed = 1; seed <= 2; seed++)
    for (int moves = 0; moves < 2; moves++)
      converse(seed, 40, true, moves);
}

static void all_rows_come_through_large_rings(void **state) {
  (void)state;
  for (int moves = 0; moves < 2; moves++)
    converse(3, 40, false, moves);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_rows_come_through_small_rings),
      cmocka_unit_test(all_rows_come_through_large_rings),
  };
  return cmocka_run_group_tests_name("cuda_flow_peers", tests, NULL, NULL);
}
