// The lead of this host's ranks: their processes, and one measurement after the other.
#ifndef BENCH_EP_LEAD_H
#define BENCH_EP_LEAD_H

#include "bench/common/children.h"
#include "bench/ep/found.h"

// Functions that the lead calls during every wait; they can end it.
struct bench_ep_watch {
  int (*failed)(void *arg);                                // a reason to end everything now: an error with its sentence
  void (*progress)(void *arg, uint32_t done, uint32_t of); // iterations of the current measurement
  void *arg;
};

struct bench_ep_lead {
  const struct bench_ep_config *config;
  const struct bench_ep_sweep *sweep;
  struct bench_ep_watch watch;
  struct bench_ep_board *board;
  size_t board_size;
  int32_t lost;                   // rank that caused a failure; -1: none
  struct bench_children children; // one for each rank
};

// Starts the rank processes, which wait for the first command. To be called before this process has any thread.
// bench_ep_lead_close() ends them, also after an error.
int bench_ep_lead_open(struct bench_ep_lead *lead, const struct bench_ep_config *config,
                       const struct bench_ep_sweep *sweep, const struct bench_ep_watch *watch);
// `failed`: do not wait for the processes.
void bench_ep_lead_close(struct bench_ep_lead *lead, bool failed);

// Ranks of this host that take part in the point.
uint32_t bench_ep_lead_takes(const struct bench_ep_lead *lead, const struct bench_ep_point *point);

// Makes the ranks of this host measure a point, and returns when all have answered; their results are in the board.
// PEER_LOST names a rank that died; the other errors are those of the ranks, with the rank that had it. CANCELED: a
// signal came, and the ranks did not end the current operation in time. After an error no further point is measured.
int bench_ep_lead_measure(struct bench_ep_lead *lead, const struct bench_ep_command *command);

#endif
