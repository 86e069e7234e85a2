// Declarations that the files of bench_ep_cuda share: the board in shared memory of all its processes, and functions
// that launch kernels.
#ifndef BENCH_EP_CUDA_H
#define BENCH_EP_CUDA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
// Measures the GB/s of the slowest device while all devices store to all others at once; a single device stores to
// itself. 0 or a cudaError_t.
int ep_cuda_rate(int devices, double *rate);
#ifdef __cplusplus
}
#else

#include <stdbool.h>

#include "support/ranks.h"

enum {
  EP_CUDA_RUN = 0, // marks that are sent with operations
  EP_CUDA_END = 1,
  EP_CUDA_LOG = 1 << 17,
};

struct ep_cuda_setup {
  uint32_t ranks, tokens, hidden, topk, experts; // experts per rank
  uint32_t dtype, combine_dtype;
  // as in deep_ep: scales column by column; weights with the combine; rows with their token and ranges by rank
  uint32_t columns, late_weights, origins;
  uint32_t iterations, in_graph; // pairs in a graph
  uint32_t rate;                 // GB/s; 0: to be measured
  uint32_t joins;                // how many times
  uint32_t processors;           // processors that a kernel may use; 0: all
  uint32_t hosts;                // hosts over which ranks appear to be distributed in turn
  bool json;
};

// Figures of one rank; times are medians or averages in us, bytes are those of one operation.
struct ep_cuda_figures {
  double dispatch, combine; // between events, everything launched ahead
  double eager, graph;      // dispatch and combine together, back to back
  double dispatch_wire, combine_wire, dispatch_logical, combine_logical, memory;
};

// One dispatch and combine that the host has waited for.
struct ep_cuda_pair {
  uint64_t end_ns;
  uint32_t num_ranks;
  bool lost, listed; // a rank was lost; the losses name the killed rank
};

struct ep_cuda_board {
  struct ep_cuda_setup setup;
  char url[128];
  int devices;
  double rate;
  _Atomic uint64_t mark;
  _Atomic bool join;  // the joiner may connect
  _Atomic bool leave; // the joiner has to leave again
  struct {
    _Atomic bool open, measured;
    _Atomic uint64_t connect_ns, active_ns, first_ns; // of the joiner
    struct ep_cuda_figures figures;
    _Atomic uint64_t pairs; // number of pairs; earlier ones are in the log at their number % EP_CUDA_LOG
    struct ep_cuda_pair log[EP_CUDA_LOG];
  } rank[BENCH_RANKS];
};

// Starts a thread that only reads the clock. A gap in its readings means that the machine took its processor away. A
// rank's thread loses its processor as often and for as long, so pair times have to be compared with these gaps. 0 or
// an errno.
int ep_cuda_clock_start(void);
// The longest gap in ms that overlaps this time; 0: there is none worth reporting.
double ep_cuda_clock_longest(uint64_t begin_ns, uint64_t end_ns);

// The body of a rank's process: a founder measures, then runs pairs until the mark is END; the joiner, whose index is
// setup.ranks, only runs pairs. If something fails, it ends the process with exit status 5 and a sentence.
int ep_cuda_rank_main(struct ep_cuda_board *board, int32_t index);

#endif
#endif
