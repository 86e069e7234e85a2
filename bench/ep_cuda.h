// What the files of bench_ep_cuda share: the board in memory that all its processes see, and what asks for kernels.
#ifndef BENCH_EP_CUDA_H
#define BENCH_EP_CUDA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
// GB/s of the slowest when all devices store to all others at once; one alone stores to itself. 0 or a cudaError_t.
int ep_cuda_rate(int devices, double *rate);
#ifdef __cplusplus
}
#else

#include <stdbool.h>

#include "support/ranks.h"

enum {
  EP_CUDA_RUN = 0, // marks that ride on operations
  EP_CUDA_END = 1,
  EP_CUDA_LOG = 1 << 17,
};

struct ep_cuda_setup {
  uint32_t ranks, tokens, hidden, topk, experts; // experts per rank
  uint32_t dtype, combine_dtype;
  uint32_t columns, late_weights, origins; // as deep_ep has them: scales column by column; weights with the combine;
                                           // rows with their token and ranges by rank
  uint32_t iterations, in_graph;           // pairs in a graph
  uint32_t rate;                           // GB/s; 0: to be measured
  uint32_t joins;                          // how many times
  uint32_t processors;                     // that a kernel may take; 0: all
  uint32_t hosts;                          // that ranks are on by turns, as far as they know
  bool json;
};

// Of one rank; times are medians or averages in us, bytes those of one operation.
struct ep_cuda_figures {
  double dispatch, combine; // between events, everything launched ahead
  double eager, graph;      // dispatch and combine, back to back
  double dispatch_wire, combine_wire, dispatch_logical, combine_logical, memory;
};

// One dispatch and combine that the host has waited for.
struct ep_cuda_pair {
  uint64_t end_ns;
  uint32_t num_ranks;
  bool lost, listed; // somebody was lost; the losses name the one that was killed
};

struct ep_cuda_board {
  struct ep_cuda_setup setup;
  char url[128];
  int devices;
  double rate;
  _Atomic uint64_t mark;
  _Atomic bool join;  // the joiner may connect
  _Atomic bool leave; // it is to go again
  struct {
    _Atomic bool open, measured;
    _Atomic uint64_t connect_ns, active_ns, first_ns; // of the joiner
    struct ep_cuda_figures figures;
    _Atomic uint64_t pairs; // those before it are in the log, at their number % EP_CUDA_LOG
    struct ep_cuda_pair log[EP_CUDA_LOG];
  } rank[BENCH_RANKS];
};

// A thread that does nothing but read the clock. When it stands, the machine has taken its processor from it: as often
// and as long as from a rank's thread, which is what a pair's time is to be seen beside. 0 or an errno.
int ep_cuda_clock_start(void);
// ms of the longest time that it stood and that touches this one; 0: none that is worth a word.
double ep_cuda_clock_longest(uint64_t begin_ns, uint64_t end_ns);

// The body of a rank's process: a founder measures, then runs pairs until the mark says END; the joiner, whose index is
// setup.ranks, runs pairs only. Ends the process with 5 and a sentence when something fails.
int ep_cuda_rank_main(struct ep_cuda_board *board, int32_t index);

#endif
#endif
