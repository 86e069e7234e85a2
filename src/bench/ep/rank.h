// Declarations for all files of a rank process. It has one thread.
#ifndef BENCH_EP_RANK_H
#define BENCH_EP_RANK_H

#include "bench/ep/board.h"
#include "bench/ep/routing.h"
#include "run/common/config.h"
#include "run/traffic/internal.h"

struct bench_ep_rank {
  const struct bench_ep_config *config;
  const struct bench_ep_sweep *sweep;
  struct bench_ep_board *board;
  uint32_t index;           // on this host
  struct bench_store store; // opened with the first measurement

  // The current measurement.
  const struct bench_ep_point *point;
  struct run_config sizes; // the sizes of the point, for the traffic's buffers
  int32_t rank;
  struct buffer_home home;
  int32_t gpu; // -1: host memory
  weft_ep_t *ep;
  struct traffic *traffic; // provides the buffers; the benchmark's own loops run the operations
  struct bench_ep_routing *routing;
  weft_ep_route_t *kept; // the kept route of a point that uses one; its first dispatch fills it
  struct weft_ep_dispatch_args dispatch;
  struct weft_ep_combine_args combine;
  struct bench_ep_result result;
};

// group.c: opens the group of this measurement and everything that its operations need; all ranks are active when it
// returns. What was opened stays for bench_ep_group_close(), also after an error.
int bench_ep_group_open(struct bench_ep_rank *rank, uint32_t sequence);
void bench_ep_group_close(struct bench_ep_rank *rank);
// PEER_LOST, with the reason, if a rank was lost in the last operation; else 0.
int bench_ep_group_whole(struct bench_ep_rank *rank);

// Reports the progress of the loop to the lead. True: this was the last iteration, for all ranks. `mark`: the mark from
// the last dispatch.
bool bench_ep_progress(struct bench_ep_rank *rank, uint32_t iteration, uint64_t mark);

// rehearse.c: the first operation. It leaves the experts' answers in place for all later operations, since each
// dispatches the same tokens. With --check both halves are judged. bench_ep_judge_last() does the same for an operation
// that has left its results in the buffers.
int bench_ep_rehearse(struct bench_ep_rank *rank);
int bench_ep_judge_last(struct bench_ep_rank *rank);

// Clears the fields that the next operation writes about itself.
void bench_ep_forget(struct bench_ep_rank *rank);
// Notes the bytes of the last operation, for the result. The first one is another: with a kept route it sends the
// routing, and ranks do not know yet which ranks of another host share rows.
void bench_ep_note_bytes(struct bench_ep_rank *rank);

// loop_host.c and loop_cuda.c: warm-up and timed operations by the point's loop. The times are in the board, their
// number in result.count.
int bench_ep_loop_host(struct bench_ep_rank *rank);
int bench_ep_loop_cuda(struct bench_ep_rank *rank);

#endif
