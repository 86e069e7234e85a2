// Measures each operation and size, and reports each result at once. The other end, a target or storage, is reached
// through a table of functions.
#ifndef P2P_BENCH_H
#define P2P_BENCH_H

#include "p2p/measure.h"
#include "p2p/report.h"

struct p2p_bench;

struct p2p_bench_ends {
  // Fills both ends for `places` times the load's bytes: the source gets the contents of bench->seed, the destination
  // other contents.
  int (*fill)(struct p2p_bench *bench, const struct p2p_load *load, uint32_t places);
  // DATA: the destination does not have the contents of the source.
  int (*check)(struct p2p_bench *bench, const struct p2p_load *load, uint32_t places);
  // Runs the load while the peer runs the same load towards this side's buffer. Fills in the two rates and their
  // window, or the reason why there are none. NULL: there is no peer.
  int (*both_ways)(struct p2p_bench *bench, const struct p2p_load *load, struct p2p_result *result);
};

struct p2p_bench {
  const struct p2p_config *config;
  const struct p2p_sizes *sizes;
  const struct p2p_bench_ends *ends;
  struct p2p_session session;
  struct p2p_buffer buffer;
  struct p2p_remote remote;
  struct p2p_report report;
  uint64_t seed;
};

int p2p_bench_run(struct p2p_bench *bench);

#endif
