// The lead of this host's ranks: their processes, and one measurement after the other.
#ifndef BENCH_EP_LEAD_H
#define BENCH_EP_LEAD_H

#include <sys/types.h>

#include "bench/ep/found.h"

// A signal that asks to end, or news of other hosts: asked in every wait, which it bounds. *err 0: nothing is to end.
struct bench_ep_watch {
  bool (*stopped)(void *arg); // a signal has come
  int (*failed)(void *arg);   // why everything is to end now, with the sentence in the last error; or 0
  void (*progress)(void *arg, uint32_t done, uint32_t of); // iterations of the measurement under way
  void *arg;
};

struct bench_ep_child {
  pid_t pid; // 0: none, or it has ended
  int socket;
};

struct bench_ep_lead {
  const struct bench_ep_config *config;
  const struct bench_ep_sweep *sweep;
  struct bench_ep_watch watch;
  struct bench_ep_board *board;
  size_t board_size;
  uint32_t num_ranks; // of this host
  int32_t lost;       // rank that a failure is about; -1: none
  struct bench_ep_child child[BENCH_EP_MAX_RANKS];
};

// Starts the rank processes: before this process has any thread. They wait for the first command. What is started is
// ended by bench_ep_lead_close(), also after an error.
int bench_ep_lead_open(struct bench_ep_lead *lead, const struct bench_ep_config *config,
                       const struct bench_ep_sweep *sweep, const struct bench_ep_watch *watch);
void bench_ep_lead_close(struct bench_ep_lead *lead);

// Ranks of this host that take part in the point.
uint32_t bench_ep_lead_takes(const struct bench_ep_lead *lead, const struct bench_ep_point *point);

// Has the ranks of this host measure a point, and returns when all have answered; their results stand in the board.
// PEER_LOST names a rank that died; the other errors are those of the ranks, with the rank that had it. CANCELED: a
// signal came, and the ranks did not end the operation under way in time. After an error no further point is measured.
int bench_ep_lead_measure(struct bench_ep_lead *lead, const struct bench_ep_command *command);

#endif
