// Declarations that the two processes of bench_ep_pair and its report share.
#ifndef BENCH_EP_PAIR_H
#define BENCH_EP_PAIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

enum {
  TOKENS = 128,
  HIDDEN = 7168,
  TOPK = 8,
  EXPERTS = 8, // per rank: each token goes to both ranks
  RANKS = 2,
  ROUNDS = 200,
  WARM_UP = 20,
};

enum half { DISPATCH, COMBINE, HALVES };

// The measures of each half: the operation; the same bytes copied in and out by the C library, or by one of the kernels
// that the operation uses; and for these three copies also only the part into the other's window, until both ranks have
// finished it.
enum way { LIBC, PLAIN, STREAM, WAYS };

enum measure { OPERATION, COPY, WRITE = COPY + WAYS, MEASURES = WRITE + WAYS };

struct shape {
  const char *name;
  enum weft_ep_dtype dtype;
  enum weft_ep_layout layout;
  bool in_place;    // rows are read where they arrived; rank-major answers are already in place when combine begins
  bool cast_before; // x is dispatched as e4m3 with scales
};

extern const struct shape shapes[];
enum { SHAPES = 10 };

// The processes' shared memory: barriers, flags, and the times in ns.
struct board {
  _Alignas(64) _Atomic uint32_t arrived;
  _Alignas(64) _Atomic uint64_t ball;
  _Alignas(64) _Atomic uint64_t flag[RANKS][8];
  double ping_ns[SHAPES][ROUNDS]; // one-way time from processor to processor, measured before the round
  uint64_t ns[SHAPES][HALVES][MEASURES][RANKS][ROUNDS];
  uint64_t wire_bytes[SHAPES][HALVES]; // of rank 0
};

void report_pair(const struct board *board, bool json);

#endif
