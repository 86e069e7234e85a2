// The connection between the lead of one host and its rank processes: memory that both map, and a socket for each rank.
//
// The lead writes a command to the socket; the rank answers with one byte when its result is in the board. The end of a
// rank process closes its socket, so that the lead learns of it at once.
#ifndef BENCH_EP_BOARD_H
#define BENCH_EP_BOARD_H

#include <stdatomic.h>

#include "base/fail.h"
#include "bench/common/store.h"
#include "bench/ep/ep.h"

enum { BENCH_EP_MAX_TIMES = 4, BENCH_EP_TEXT = 512 };

// The command for one measurement. If the rank reads end of file, the lead has ended, and the rank ends, too.
struct bench_ep_command {
  uint32_t point;    // number of the point in the sweep
  uint32_t sequence; // number of the measurement: each has its own group in the store
};

// The result of a rank.
struct bench_ep_result {
  int err; // 0, or why there is no result
  char error[BENCH_EP_TEXT];
  uint32_t count;                // timed iterations: fewer than requested after a stop
  uint64_t logical[2], wire[2];  // bytes of a dispatch, of a combine
  uint64_t pairs;                // (token, expert) pairs that this rank received
  uint64_t hottest_pairs;        // pairs of its busiest expert
  uint32_t gpu_index;            // as this host counts them
  char gpu[96];                  // "" on host memory
  uint8_t gpu_id[16];            // of the GPU: two ranks may share one
  char way[WEFT_EP_DETAIL_SIZE]; // how ranks on other hosts are reached: "ofi tcp eth0"; "": there are none
  double worst_diff;             // with --check
  uint64_t checked;              // operations that were judged
};

struct bench_ep_rank_board {
  _Atomic uint32_t done; // iterations, warm-up included
  struct bench_ep_result result;
};

struct bench_ep_board {
  struct bench_store_place place; // place of the store; written before the first command
  char prefix[256];               // prefix of the benchmark's keys, ending in '/'; written before the first command
  int32_t first_rank;             // number of this host's first rank; written before the first command
  bool others;                    // there are ranks on other hosts
  atomic_bool stop;               // end the measurement after the current operation, all ranks after the same one
  uint32_t iterations;
  struct bench_ep_rank_board rank[BENCH_EP_MAX_RANKS];
  uint64_t times[]; // [rank][BENCH_EP_MAX_TIMES][iterations], in ns
};

static inline size_t bench_ep_board_size(uint32_t ranks, uint32_t iterations) {
  return sizeof(struct bench_ep_board) + (size_t)ranks * BENCH_EP_MAX_TIMES * iterations * sizeof(uint64_t);
}

// The times number `which` of the loop, of local rank `index`.
static inline uint64_t *bench_ep_times(struct bench_ep_board *board, uint32_t index, uint32_t which) {
  return board->times + ((size_t)index * BENCH_EP_MAX_TIMES + which) * board->iterations;
}

// Runs the rank process of local rank `index`: executes commands from `socket` until the lead has closed it. Returns
// the exit status. The process must have been forked for this and have no threads.
int bench_ep_rank_main(const struct bench_ep_config *config, const struct bench_ep_sweep *sweep,
                       struct bench_ep_board *board, uint32_t index, int socket);

#endif
