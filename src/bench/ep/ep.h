// `weft bench ep`: dispatch and combine of expert parallelism, measured among ranks of this host or of several.
//
// The called process is the lead: it forks a rank process for each of its ranks, sends them the next point of the
// sweep, and makes rows from their measurements. Ranks share memory with the lead (board.h) and open a separate group
// for each measurement.
#ifndef BENCH_EP_EP_H
#define BENCH_EP_EP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <weft/ep.h>

#include "bench/common/options.h"

enum {
  BENCH_EP_MAX_RANKS = 256,  // of one host
  BENCH_EP_MAX_POINTS = 4096 // of a sweep
};

// The measured operations, in the order of bench_ep_op_names.
enum bench_ep_op {
  BENCH_EP_DISPATCH,
  BENCH_EP_COMBINE,
  BENCH_EP_BOTH,
  BENCH_EP_DISPATCH_SEND,
  BENCH_EP_DISPATCH_RECV,
  BENCH_EP_COMBINE_SEND,
  BENCH_EP_COMBINE_RECV,
  BENCH_EP_OPS,
};

// How operations follow each other in the timed loop.
enum bench_ep_loop {
  BENCH_EP_PARTS, // the ranks begin each half together; times of: dispatch, combine
  BENCH_EP_PAIR,  // a dispatch and its combine without a break; time of both
  BENCH_EP_SPLIT, // each half with its own two calls; times of the four parts
  BENCH_EP_GRAPH, // replays of a captured pair; time of both
  BENCH_EP_LOOPS,
};

enum bench_ep_mode { BENCH_EP_LATENCY, BENCH_EP_THROUGHPUT };

// How a dispatch finds the destinations.
enum bench_ep_route {
  BENCH_EP_FRESH, // from its top-k
  BENCH_EP_KEPT,  // from a kept route, which an untimed dispatch has filled
};

// Which experts tokens select.
enum bench_ep_skew_kind {
  BENCH_EP_UNIFORM, // all experts with the same probability
  BENCH_EP_ZIPF,    // the n-th most popular with a weight of 1 / n^value
  BENCH_EP_HOT,     // a share of `value` of the tokens selects one expert; the rest is uniform
};

struct bench_ep_skew {
  enum bench_ep_skew_kind kind;
  double value;
};

// A point of the sweep, measured by one of the loops.
struct bench_ep_point {
  uint32_t tokens, hidden, topk, ranks, experts; // experts of each rank
  enum weft_ep_dtype dtype;
  enum weft_ep_combine_dtype combine_dtype;
  enum weft_ep_layout layout;
  enum bench_ep_route route;
  uint32_t processors; // of each kernel, at most; 0: the library's default
  struct bench_ep_skew skew;
  enum weft_ep_memory memory;
  enum bench_ep_loop loop;
};

// The options. Lists are strings with commas between their values.
struct bench_ep_config {
  struct bench_options common;
  const char *ops, *tokens, *hidden, *topk, *ranks, *experts, *dtypes, *combine_dtypes, *layouts, *routes, *processors,
      *skews, *memories;
  enum bench_ep_mode mode;
  bool graph, check, share_gpus;
  uint32_t iterations, warmup;
  uint32_t window_bytes; // throughput: of a peer; 0: the library's default
  uint32_t alignment;    // of packed parts; 0: 1
  uint64_t seed;
  uint32_t local_ranks;  // rank processes of this host; 0: the maximum of the sweep
  uint32_t as_hosts;     // number of groups of ranks that reach each other as if on different hosts; 0 or 1: no groups
  const char *transport; // between hosts; NULL: the library chooses
};

struct bench_ep_sweep {
  struct bench_ep_point *points;
  uint32_t count;
  uint32_t max_ranks;
  bool wanted[BENCH_EP_OPS];
};

extern const char *const bench_ep_op_names[];   // end with NULL
extern const char *const bench_ep_mode_names[]; // the same

// Makes the points from the lists, with the first list outermost; no two points are equal. INVALID: a value is
// malformed, out of range or given twice, or values do not fit together; the sentence names the option and what would
// be right.
int bench_ep_sweep_parse(const struct bench_ep_config *config, struct bench_ep_sweep *sweep);
void bench_ep_sweep_free(struct bench_ep_sweep *sweep); // leaves it empty

// Names as in the lists.
const char *bench_ep_dtype_name(enum weft_ep_dtype dtype);
const char *bench_ep_combine_dtype_name(enum weft_ep_combine_dtype dtype);
const char *bench_ep_layout_name(enum weft_ep_layout layout);
const char *bench_ep_route_name(enum bench_ep_route route);
const char *bench_ep_memory_name(enum weft_ep_memory memory);
const char *bench_ep_skew_name(const struct bench_ep_skew *skew, char *out, size_t cap); // "zipf:1.2"

uint32_t bench_ep_times_of(enum bench_ep_loop loop);
enum bench_ep_op bench_ep_first_op(enum bench_ep_loop loop);

#endif
