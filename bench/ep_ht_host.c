// A rank of bench_ep_ht on host memory, with its own process, pinned to its own processor.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/time/clock.h"
#include "ep/kernels/kernels.h"
#include "ep_ht.h"

enum { HUGE_PAGE = 2 << 20, WARM_UP = 2 };

struct buffers {
  size_t rows; // of the receive buffer
  uint16_t *x, *y, *out;
  uint8_t *cast, *received;
  float *cast_scales, *scales, *weights, *received_weights;
  int64_t *topk_idx;
  int32_t *counts, *local_expert, *slot, *expert_end;
  uint32_t *sent; // tokens that go to the other rank
  uint32_t num_sent, num_own;
  uint32_t *own; // tokens that stay
};

struct host {
  struct ht_rank r;
  struct buffers b;
};

// --- buffers ---

static void *take(const struct host *h, size_t size) {
  void *at = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    ht_fail(h->r.board, h->r.rank, "no memory for buffers");
  madvise(at, size, MADV_HUGEPAGE); // with small pages each row would cost a miss of the TLB
  return at;
}

static void give(void *at, size_t size) {
  munmap(at, size + HUGE_PAGE);
}

static size_t value_bytes(const struct host *h) {
  return h->r.setup->hidden * (ht_is_fp8(h->r.point) ? sizeof(uint8_t) : sizeof(uint16_t));
}

static size_t scale_bytes(const struct host *h) {
  return ht_is_fp8(h->r.point) ? h->r.setup->hidden / WEFT_EP_BLOCK * sizeof(float) : 0;
}

static size_t room_of(const struct ht_setup *s, const struct ht_point *p) {
  size_t pairs = (size_t)HT_PAIR * p->tokens;
  uint32_t most = s->topk < s->experts ? s->topk : s->experts;
  return p->layout == WEFT_EP_PACKED ? pairs * most + (size_t)s->experts * (s->alignment ? s->alignment : 1) : pairs;
}

static void *each_buffer(struct host *h, void *(*with)(const struct host *h, void *at, size_t size)) {
  const struct ht_setup *s = h->r.setup;
  struct buffers *b = &h->b;
  size_t tokens = h->r.point->tokens, hidden = s->hidden, pairs = (size_t)HT_PAIR * tokens;
  b->x = with(h, b->x, tokens * hidden * sizeof *b->x);
  b->out = with(h, b->out, tokens * hidden * sizeof *b->out);
  b->y = with(h, b->y, b->rows * hidden * sizeof *b->y);
  b->cast = with(h, b->cast, tokens * hidden);
  b->cast_scales = with(h, b->cast_scales, tokens * hidden / WEFT_EP_BLOCK * sizeof *b->cast_scales);
  b->received = with(h, b->received, b->rows * value_bytes(h));
  b->scales = with(h, b->scales, b->rows * hidden / WEFT_EP_BLOCK * sizeof *b->scales);
  b->topk_idx = with(h, b->topk_idx, tokens * s->topk * sizeof *b->topk_idx);
  b->weights = with(h, b->weights, tokens * s->topk * sizeof *b->weights);
  b->received_weights = with(h, b->received_weights, pairs * s->topk * sizeof *b->received_weights);
  b->counts = with(h, b->counts, s->experts * sizeof *b->counts);
  b->local_expert = with(h, b->local_expert, pairs * s->topk * sizeof *b->local_expert);
  b->slot = with(h, b->slot, b->rows * s->topk * sizeof *b->slot);
  b->expert_end = with(h, b->expert_end, s->experts * sizeof *b->expert_end);
  b->sent = with(h, b->sent, tokens * sizeof *b->sent);
  b->own = with(h, b->own, tokens * sizeof *b->own);
  return NULL;
}

static void *open_one(const struct host *h, void *at, size_t size) {
  (void)at;
  return take(h, size);
}

static void *close_one(const struct host *h, void *at, size_t size) {
  (void)h;
  give(at, size);
  return NULL;
}

// --- input ---

static bool goes_to(const struct host *h, uint32_t token, int rank) {
  for (uint32_t k = 0; k < h->r.setup->topk; k++) {
    int64_t expert = h->b.topk_idx[(size_t)token * h->r.setup->topk + k];
    if (expert >= 0 && expert / h->r.setup->experts == rank)
      return true;
  }
  return false;
}

static void make_input(struct host *h) {
  const struct ht_setup *s = h->r.setup;
  struct buffers *b = &h->b;
  ht_fill(&h->r, b->x, b->topk_idx, b->weights);
  for (size_t t = 0; t < h->r.point->tokens && ht_is_fp8(h->r.point); t++)
    ep_kernels_best()->cast_fp8(b->cast + t * s->hidden, b->cast_scales + t * (s->hidden / WEFT_EP_BLOCK),
                                b->x + t * s->hidden, s->hidden, false);
  b->num_sent = b->num_own = 0;
  for (uint32_t t = 0; t < h->r.point->tokens; t++) {
    if (goes_to(h, t, 1 - h->r.rank))
      b->sent[b->num_sent++] = t;
    if (goes_to(h, t, h->r.rank))
      b->own[b->num_own++] = t;
  }
}

static void set_arguments(struct host *h) {
  const struct ht_point *p = h->r.point;
  struct buffers *b = &h->b;
  bool rank_major = p->layout == WEFT_EP_RANK_MAJOR, given = ht_is_fp8(p) && !p->casts;
  h->r.dispatch = (struct weft_ep_dispatch_args){.size = sizeof h->r.dispatch,
                                                 .x = given ? (const void *)b->cast : b->x,
                                                 .scales = given ? b->cast_scales : NULL,
                                                 .num_tokens = p->tokens,
                                                 .topk_idx = b->topk_idx,
                                                 .topk_weights = b->weights,
                                                 .route = h->r.route};
  h->r.recv = (struct weft_ep_recv_args){.size = sizeof h->r.recv,
                                         .layout = p->layout,
                                         .rows = (uint32_t)b->rows,
                                         .x = b->received,
                                         .scales = ht_is_fp8(p) ? b->scales : NULL,
                                         .counts = b->counts,
                                         .local_expert = rank_major ? b->local_expert : NULL,
                                         .weights = rank_major ? b->received_weights : NULL,
                                         .slot = rank_major ? NULL : b->slot,
                                         .expert_end = rank_major ? NULL : b->expert_end,
                                         .alignment = rank_major ? 0 : h->r.setup->alignment};
  h->r.combine = (struct weft_ep_combine_args){.size = sizeof h->r.combine, .y = b->y, .out = b->out};
}

// --- operations ---

// 0, or an error if the point is refused, which happens at the first operation, on both ranks alike.
static int operate(struct host *h, uint64_t ns[2]) {
  uint64_t op;
  h->r.info = (struct weft_ep_info)WEFT_EP_INFO_INIT;
  h->r.result = (struct weft_ep_result)WEFT_EP_RESULT_INIT;
  ht_meet(h->r.board);
  uint64_t begin = clock_ns();
  int err = weft_ep_dispatch(h->r.ep, &h->r.dispatch, &h->r.recv, &h->r.info, &op);
  ns[0] = clock_ns() - begin;
  if (err)
    return err;
  ht_meet(h->r.board);
  begin = clock_ns();
  err = weft_ep_combine(h->r.ep, op, &h->r.combine, &h->r.result);
  ns[1] = clock_ns() - begin;
  if (!err && h->r.info.num_lost + h->r.result.num_lost + h->r.result.num_missing > 0)
    ht_fail(h->r.board, h->r.rank, "a rank was lost");
  return err;
}

// The experts return what they received: y is written once, so that its pages exist.
static void fill_y(struct host *h) {
  size_t rows = h->r.point->layout == WEFT_EP_PACKED ? h->r.info.rows_needed : h->r.info.num_rows;
  memset(h->b.y, 0, rows * h->r.setup->hidden * sizeof *h->b.y);
}

static int start(struct host *h) {
  uint64_t ns[2];
  int err = ht_make_route(&h->r);
  if (err)
    return err;
  set_arguments(h);
  err = operate(h, ns);
  if (err)
    return err;
  fill_y(h);
  ht_go_by_route(&h->r);
  for (int i = 0; i < WARM_UP && !err; i++)
    err = operate(h, ns);
  return err;
}

// --- bare copies ---

static struct ht_load dispatch_load(const struct host *h) {
  const struct buffers *b = &h->b;
  size_t values = value_bytes(h), scales = scale_bytes(h);
  struct ht_load load = {.rows = b->num_sent, .rows_in = h->r.info.num_rows, .order = b->sent, .num_parts = 1};
  load.part[0] =
      (struct ht_part){ht_is_fp8(h->r.point) ? b->cast : (uint8_t *)b->x, b->received, values, values, values};
  if (scales) {
    load.part[1] = (struct ht_part){(uint8_t *)b->cast_scales, (uint8_t *)b->scales, scales, scales, scales};
    load.num_parts = 2;
  }
  return load;
}

static struct ht_load combine_load(const struct host *h, uint32_t rows_in) {
  size_t row = h->r.setup->hidden * sizeof(uint16_t);
  struct ht_load load = {.rows = rows_in, .rows_in = h->b.num_sent, .num_parts = 1};
  load.part[0] = (struct ht_part){(uint8_t *)h->b.y, (uint8_t *)h->b.out, row, row, row};
  return load;
}

// Copies this rank's own rows, and each received row to its further places: these copies do not pass the window.
static uint64_t copy_own_by(const struct host *h, const struct ht_load *load, uint32_t places,
                            void (*copy)(void *to, const void *from, size_t size)) {
  uint64_t begin = clock_ns();
  places = h->b.num_own ? places : 0;
  for (uint32_t i = 0; i < places; i++)
    for (uint32_t p = 0; p < load->num_parts; p++) {
      const struct ht_part *part = &load->part[p];
      size_t row = load->order ? h->b.own[i % h->b.num_own] : i % h->b.num_own;
      size_t place = (load->order ? load->rows_in + i : i % h->b.num_own);
      copy(part->to + place * part->to_stride, part->from + row * part->from_stride, part->bytes);
    }
  ep_kernels_fence();
  return clock_ns() - begin;
}

static uint64_t copy_own(const struct host *h, const struct ht_load *load, uint32_t places) {
  const struct ep_kernels *best = ep_kernels_best();
  uint64_t through = copy_own_by(h, load, places, best->copy), past = copy_own_by(h, load, places, best->stream);
  return past < through ? past : through;
}

// How many rows the other rank has for this one. Both ranks draw in the same way, but each knows only its own number.
static uint32_t exchange(struct host *h, uint32_t own) {
  struct ht_flags *flags = h->r.board->flags;
  ht_meet(h->r.board);
  atomic_store(&flags[h->r.rank].written, own);
  ht_meet(h->r.board);
  uint32_t other = (uint32_t)atomic_load(&flags[1 - h->r.rank].written);
  ht_meet(h->r.board);
  return other;
}

static void take_rounds(struct host *h, uint32_t rounds) {
  struct ht_found *found = h->r.found;
  uint32_t rows_in = exchange(h, h->b.num_sent);
  uint32_t placed = h->r.point->layout == WEFT_EP_PACKED ? h->r.info.num_rows : rows_in + h->b.num_own;
  struct ht_load loads[2] = {dispatch_load(h), combine_load(h, rows_in)};
  loads[0].rows_in = rows_in;
  uint32_t ways[2];
  for (int half = 0; half < 2; half++)
    ways[half] = ht_find_way(h->r.board, h->r.rank, &loads[half]);
  found->piece_bytes = ht_piece_bytes(ways[0]);
  for (uint32_t i = 0; i < rounds; i++) {
    uint64_t ns[2];
    if (operate(h, ns))
      ht_fail(h->r.board, h->r.rank, "an operation");
    for (int half = 0; half < 2; half++) {
      uint64_t copy = ht_copy(h->r.board, h->r.rank, &loads[half], ways[half]);
      found->ns[HT_DISPATCH + half][i] = ns[half];
      found->ns[HT_DISPATCH_COPY + half][i] = copy;
      found->ns[HT_DISPATCH_ALL + half][i] = copy + copy_own(h, &loads[half], half ? h->b.num_own : placed - rows_in);
    }
  }
  found->rounds = rounds;
  found->wire_bytes[0] = h->r.info.wire_bytes;
  found->wire_bytes[1] = h->r.result.wire_bytes;
}

// Large points get fewer rounds.
static uint32_t rounds_of(const struct ht_setup *s, const struct ht_point *p) {
  uint32_t rounds = s->rounds ? s->rounds : 64 * 1024 / p->tokens;
  return rounds < 6 ? 6 : rounds > 60 && !s->rounds ? 60 : rounds;
}

void ht_measure_host(struct ht_board *board, weft_store_t *store, int rank, uint32_t point) {
  struct host h = {.r = ht_rank_at(board, rank, point)};
  struct weft_ep_peer_stats stats = WEFT_EP_PEER_STATS_INIT;
  if (board->found[0][point].refused[0]) // the point needs too much memory
    return;
  ht_meet(board); // what the other rank writes from here on is its own
  h.b.rows = room_of(h.r.setup, h.r.point);
  h.r.ep = ht_open(board, store, rank, point, -1);
  if (!h.r.ep)
    return;
  each_buffer(&h, open_one);
  make_input(&h);
  int err = start(&h);
  if (err == WEFT_ERR_UNSUPPORTED)
    snprintf(h.r.found->refused, sizeof h.r.found->refused, "%s", weft_last_error());
  else if (err)
    ht_fail(board, rank, "the first operations");
  else
    take_rounds(&h, rounds_of(h.r.setup, h.r.point));
  if (weft_ep_get_peer_stats(h.r.ep, 1 - rank, &stats) == 0)
    h.r.found->window_bytes = stats.window_bytes;
  ht_meet(board); // neither rank leaves while the other operates
  weft_ep_route_free(h.r.route);
  weft_ep_close(h.r.ep);
  each_buffer(&h, close_one);
}
