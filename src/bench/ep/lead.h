// The lead of this host's ranks: their processes, and one measurement after the other.
#ifndef BENCH_EP_LEAD_H
#define BENCH_EP_LEAD_H

#include "bench/common/children.h"
#include "bench/ep/found.h"

// What the lead asks in every wait, which that bounds.
struct bench_ep_watch {
  int (*failed)(void *arg);                                // why everything is to end now: an error with its sentence
  void (*progress)(void *arg, uint32_t done, uint32_t of); // iterations of the measurement under way
  void *arg;
};

struct bench_ep_lead {
  const struct bench_ep_config *config;
  const struct bench_ep_sweep *sweep;
  struct bench_ep_watch watch;
  struct bench_ep_board *board;
  size_t board_size;
  int32_t lost;                   // rank that a failure is about; -1: none
  struct bench_children children; // a rank each
};

// Starts the rank processes: before this process has any thread. They wait for the first command. What is started is
// ended by bench_ep_lead_close(), also after an error.
int bench_ep_lead_open(struct bench_ep_lead *lead, const struct bench_ep_config *config,
                       const struct bench_ep_sweep *sweep, const struct bench_ep_watch *watch);
// `failed`: they are not waited for.
void bench_ep_lead_close(struct bench_ep_lead *lead, bool failed);

// Ranks of this host that take part in the point.
uint32_t bench_ep_lead_takes(const struct bench_ep_lead *lead, const struct bench_ep_point *point);

// Has the ranks of this host measure a point, and returns when all have answered; their results stand in the board.
// PEER_LOST names a rank that died; the other errors are those of the ranks, with the rank that had it. CANCELED: a
// signal came, and the ranks did not end the operation under way in time. After an error no further point is measured.
int bench_ep_lead_measure(struct bench_ep_lead *lead, const struct bench_ep_command *command);

#endif
