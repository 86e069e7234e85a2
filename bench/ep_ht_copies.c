// Bare copies between two processes, in pieces through a window with two slots, in both directions at once in one loop.
// This is the least that an operation must do with bytes that pass a window of limited size. Several sizes of pieces
// are tried, with several kernels for the copies in and out. Operations are compared with the fastest combination.
#include <sched.h>
#include <string.h>

#include "base/time/clock.h"
#include "ep/kernels/kernels.h"
#include "ep_ht.h"

enum { SLOTS = 2, TRIES = 3 };

static const uint32_t piece_sizes[] = {128 << 10, 512 << 10, 2 << 20, 8 << 20, HT_WINDOW / SLOTS};
enum { SIZES = sizeof piece_sizes / sizeof piece_sizes[0], KERNELS = 5 };

static void copy_libc(void *to, const void *from, size_t size) {
  memcpy(to, from, size);
}

uint32_t ht_num_ways(void) {
  return SIZES * KERNELS;
}

uint32_t ht_piece_bytes(uint32_t way) {
  return piece_sizes[way / KERNELS];
}

struct flow {
  struct ht_board *board;
  const struct ht_load *load;
  void (*in)(void *to, const void *from, size_t size), (*out)(void *to, const void *from, size_t size);
  size_t row_bytes;
  uint32_t piece_rows;
};

static uint8_t *slot_of(const struct flow *flow, int rank, uint64_t piece) {
  return flow->board->window[rank] + piece % SLOTS * (HT_WINDOW / SLOTS);
}

static uint32_t rows_of(const struct flow *flow, uint32_t rows, uint64_t piece) {
  uint64_t first = piece * flow->piece_rows;
  return first + flow->piece_rows < rows ? flow->piece_rows : (uint32_t)(rows - first);
}

static void write_piece(const struct flow *flow, int rank, uint64_t piece) {
  const struct ht_load *load = flow->load;
  uint8_t *to = slot_of(flow, 1 - rank, piece);
  uint32_t rows = rows_of(flow, load->rows, piece);
  for (uint32_t i = 0; i < rows; i++) {
    size_t at = piece * flow->piece_rows + i, row = load->order ? load->order[at] : at;
    for (uint32_t p = 0; p < load->num_parts; to += load->part[p++].bytes)
      flow->in(to, load->part[p].from + row * load->part[p].from_stride, load->part[p].bytes);
  }
  ep_kernels_fence();
}

static void take_piece(const struct flow *flow, int rank, uint64_t piece) {
  const struct ht_load *load = flow->load;
  const uint8_t *from = slot_of(flow, rank, piece);
  uint32_t rows = rows_of(flow, load->rows_in, piece);
  for (uint32_t i = 0; i < rows; i++) {
    size_t row = piece * flow->piece_rows + i;
    for (uint32_t p = 0; p < load->num_parts; from += load->part[p++].bytes)
      flow->out(load->part[p].to + row * load->part[p].to_stride, from, load->part[p].bytes);
  }
}

// Writes as far as there is credit, and reads what has arrived, until everything is moved.
static void pump(const struct flow *flow, int rank) {
  struct ht_flags *own = &flow->board->flags[rank], *other = &flow->board->flags[1 - rank];
  uint64_t written = 0, taken = 0, deadline = clock_deadline_ms(HT_DEADLINE_MS);
  uint64_t to_write = (flow->load->rows + flow->piece_rows - 1) / flow->piece_rows;
  uint64_t to_take = (flow->load->rows_in + flow->piece_rows - 1) / flow->piece_rows;
  for (uint32_t still = 0; written < to_write || taken < to_take; still++) {
    bool moved = false;
    if (written < to_write && written < atomic_load_explicit(&other->taken, memory_order_acquire) + SLOTS) {
      write_piece(flow, rank, written);
      atomic_store_explicit(&other->written, ++written, memory_order_release);
      moved = true;
    }
    if (taken < to_take && taken < atomic_load_explicit(&own->written, memory_order_acquire)) {
      take_piece(flow, rank, taken);
      atomic_store_explicit(&own->taken, ++taken, memory_order_release);
      moved = true;
    }
    still = moved ? 0 : still;
    if (still > HT_SPINS)
      sched_yield();
    if (!moved && (atomic_load(&flow->board->failed) || clock_passed(deadline)))
      ht_fail(flow->board, rank, "the other rank does not copy");
  }
}

uint64_t ht_copy(struct ht_board *board, int rank, const struct ht_load *load, uint32_t way) {
  const struct ep_kernels *best = ep_kernels_best();
  void (*const in[KERNELS])(void *to, const void *from, size_t size) = {copy_libc, best->copy, best->stream, best->copy,
                                                                        best->stream};
  void (*const out[KERNELS])(void *to, const void *from, size_t size) = {copy_libc, best->copy, best->copy,
                                                                         best->stream, best->stream};
  struct flow flow = {.board = board, .load = load, .in = in[way % KERNELS], .out = out[way % KERNELS]};
  for (uint32_t p = 0; p < load->num_parts; p++)
    flow.row_bytes += load->part[p].bytes;
  flow.piece_rows = ht_piece_bytes(way) / (uint32_t)flow.row_bytes;
  ht_meet(board); // nobody reads the flags of the copy before this
  atomic_store(&board->flags[rank].written, 0);
  atomic_store(&board->flags[rank].taken, 0);
  ht_meet(board);
  uint64_t begin = clock_ns();
  pump(&flow, rank);
  return clock_ns() - begin;
}

uint32_t ht_find_way(struct ht_board *board, int rank, const struct ht_load *load) {
  static uint64_t fastest[SIZES * KERNELS];
  uint32_t best = 0;
  for (int i = 0; i < TRIES; i++)
    for (uint32_t way = 0; way < ht_num_ways(); way++) {
      uint64_t ns = ht_copy(board, rank, load, way);
      fastest[way] = i == 0 || ns < fastest[way] ? ns : fastest[way];
    }
  for (uint32_t way = 1; way < ht_num_ways(); way++)
    best = fastest[way] < fastest[best] ? way : best;
  ht_meet(board); // both ranks have to take the way of rank 0, which writes it into a word that no copy uses now
  if (rank == 0)
    atomic_store(&board->flags[0].taken, best);
  ht_meet(board);
  best = (uint32_t)atomic_load(&board->flags[0].taken);
  ht_meet(board);
  return best;
}
