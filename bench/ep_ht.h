// Declarations that the files of bench_ep_ht share: the points that it measures, and the board in shared memory of all
// its processes.
#ifndef BENCH_EP_HT_H
#define BENCH_EP_HT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

enum {
  HT_PAIR = 2, // ranks on host memory
  HT_MAX_RANKS = 8,
  HT_MAX_POINTS = 128,
  HT_MAX_ROUNDS = 200,
  HT_WHY = 300,
  HT_DEADLINE_MS = 60000,
  HT_SPINS = 10000,
};

// The measures of each round, timed in turn. COPY copies the rows that go to the other rank, from the buffers that the
// operation reads, through a window, to the buffers that it writes. ALL also copies this rank's own rows, each row to
// all of its places. On GPUs LINKS replaces both: the copy engines move the bytes that go to the other rank, in both
// directions at once.
enum ht_measure {
  HT_DISPATCH,
  HT_COMBINE,
  HT_DISPATCH_COPY,
  HT_COMBINE_COPY,
  HT_DISPATCH_ALL,
  HT_COMBINE_ALL,
  HT_MEASURES,
};

// The source of a dispatch's routing: given with each dispatch and not kept, given and kept in a route by each
// dispatch, or taken from a route that was filled before.
enum ht_way { HT_FRESH, HT_FILLS, HT_KEPT, HT_WAYS };

struct ht_point {
  uint32_t tokens;
  enum weft_ep_dtype dtype; // of the dispatch; e4m3 has scales, except with `casts`
  enum weft_ep_layout layout;
  enum ht_way way;
  bool casts;          // x is bf16, and the dispatch casts it
  uint32_t processors; // processors of a kernel
};

struct ht_setup {
  bool cuda, json;
  bool latency;                             // the group is opened for latency, for comparison: up to 1,024 tokens
  uint32_t hidden, topk, experts;           // experts per rank
  uint32_t alignment, window_bytes, rounds; // 0: by the size
  uint32_t ranks, hosts;                    // as they appear to the ranks
  uint32_t zero_copy;                       // CUDA, rows by rank: whether y lies in zero-copy memory
  uint32_t num_points;
  struct ht_point points[HT_MAX_POINTS];
};

// The results of a rank at one point.
struct ht_found {
  char refused[HT_WHY]; // the library's error; "": the point was measured
  uint32_t rounds;
  uint64_t wire_bytes[2]; // sent in a dispatch, in a combine
  uint64_t window_bytes;  // of the window that a peer writes to
  uint32_t piece_bytes;   // piece size of the fastest bare copy of a dispatch
  // CUDA: time of a matrix product on the other processors alone, divided by its time beside the operations; 0: not
  // measured
  double product;
  uint64_t ns[HT_MEASURES][HT_MAX_ROUNDS];
};

struct ht_flags {
  _Alignas(64) _Atomic uint64_t written; // pieces that the other rank has written into this rank's window
  _Alignas(64) _Atomic uint64_t taken;   // pieces that this rank has taken out of it
};

enum { HT_WINDOW = 64 << 20 };

struct ht_board {
  struct ht_setup setup;
  char url[128];
  _Alignas(64) _Atomic uint32_t arrived;
  _Atomic bool failed; // a rank has ended too early
  struct ht_flags flags[HT_MAX_RANKS];
  struct ht_found found[HT_MAX_RANKS][HT_MAX_POINTS];
  uint8_t *window[HT_MAX_RANKS]; // [HT_WINDOW], mapped before the ranks are forked; NULL on GPUs
};

// A rank at one point, on memory of either kind.
struct ht_rank {
  struct ht_board *board;
  const struct ht_setup *setup;
  const struct ht_point *point;
  struct ht_found *found;
  int rank;
  weft_ep_t *ep;
  weft_ep_route_t *route;
  struct weft_ep_dispatch_args dispatch;
  struct weft_ep_recv_args recv;
  struct weft_ep_combine_args combine;
  struct weft_ep_info info;
  struct weft_ep_result result;
};

// ep_ht_rank.c, for ranks of both kinds. Waits for the other ranks; it returns in all ranks at about the same moment.
// Ends the process if a rank does not come.
void ht_meet(struct ht_board *board);

// Ends the process with a sentence.
_Noreturn void ht_fail(struct ht_board *board, int rank, const char *what);

// Opens rank `rank` of the group of this point and activates it. NULL: the library refuses the mode, and the point has
// the reason. Any other error ends the process.
weft_ep_t *ht_open(struct ht_board *board, weft_store_t *store, int rank, uint32_t point, int32_t gpu);

// Makes the description of rank `rank` at this point; the rank is not open yet.
struct ht_rank ht_rank_at(struct ht_board *board, int rank, uint32_t point);
bool ht_is_fp8(const struct ht_point *point);
// Bytes of zero-copy memory for y; 0: y is not in zero-copy memory.
uint64_t ht_zero_copy_bytes(const struct ht_setup *setup, const struct ht_point *point);
// Fills the rows and the selections that the rank dispatches for its tokens.
void ht_fill(const struct ht_rank *r, uint16_t *x, int64_t *topk_idx, float *weights);
// Makes the route that a point fills or uses; HT_FRESH has none. 0 or a weft_err.
int ht_make_route(struct ht_rank *r);
// From now on dispatches of such a point only use the route.
void ht_go_by_route(struct ht_rank *r);

// ep_ht_host.c, ep_ht_cuda.c: measures one point on this rank.
void ht_measure_host(struct ht_board *board, weft_store_t *store, int rank, uint32_t point);
void ht_measure_cuda(struct ht_board *board, weft_store_t *store, int rank, uint32_t point);

// The GPU's processors with which the links alone, and the matrix product beside operations, are measured.
int ht_prepare_cuda(struct ht_board *board, int rank); // once for each rank, before its first point

// ep_ht_copies.c: bare copies in pieces through a window, in both directions at once between two processes, ranks 0 and
// 1. The source has `rows` rows of `parts` parts each, at from[p] + row * stride. The copy goes to `to` in rows of the
// same form.
struct ht_part {
  const uint8_t *from;
  uint8_t *to;
  size_t bytes, from_stride, to_stride;
};
struct ht_load {
  uint32_t rows;         // rows that go from this rank to the other
  uint32_t rows_in;      // rows that come to this rank
  const uint32_t *order; // [rows] which rows of `from`; NULL: the first ones
  struct ht_part part[2];
  uint32_t num_parts;
};
// Returns the ns from the common begin until the last row was sent and received on this rank. `way`: below
// ht_num_ways().
uint64_t ht_copy(struct ht_board *board, int rank, const struct ht_load *load, uint32_t way);
uint32_t ht_num_ways(void);
uint32_t ht_piece_bytes(uint32_t way);
// Tries each way a few times and returns the fastest one, which is the same for both ranks.
uint32_t ht_find_way(struct ht_board *board, int rank, const struct ht_load *load);

// ep_ht_report.c
void ht_report(const struct ht_board *board);

#endif
