// The process of one rank: it takes commands from the lead, and makes one measurement after the other.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/ep/rank.h"

static int measure_in_group(struct bench_ep_rank *r, uint32_t sequence) {
  int err = bench_ep_group_open(r, sequence);
  if (!err)
    err = bench_ep_rehearse(r);
  if (!err)
    err = r->home.api ? bench_ep_loop_cuda(r) : bench_ep_loop_host(r);
  if (!err)
    bench_ep_note_bytes(r);
  if (!err && r->config->check)
    err = bench_ep_judge_last(r);
  if (!err && r->config->check) // once more with spoiled buffers, so that no older contents count as right
    err = bench_ep_rehearse(r);
  return err ? err : weft_ep_barrier(r->ep); // no rank leaves while others operate
}

static void measure(struct bench_ep_rank *r, const struct bench_ep_command *command) {
  r->point = &r->sweep->points[command->point];
  r->rank = r->board->first_rank + (int32_t)r->index;
  r->result = (struct bench_ep_result){0};
  r->result.err = measure_in_group(r, command->sequence);
  if (r->result.err)
    snprintf(r->result.error, sizeof r->result.error, "%s", weft_last_error());
  bench_ep_group_close(r);
  r->board->rank[r->index].result = r->result;
}

// False: the lead has ended, or has no more commands.
static bool read_command(int socket, struct bench_ep_command *command) {
  ssize_t got;
  do
    got = read(socket, command, sizeof *command);
  while (got < 0 && errno == EINTR);
  return got == sizeof *command;
}

int bench_ep_rank_main(const struct bench_ep_config *config, const struct bench_ep_sweep *sweep,
                       struct bench_ep_board *board, uint32_t index, int socket) {
  struct bench_ep_rank rank = {.config = config, .sweep = sweep, .board = board, .index = index, .gpu = -1};
  struct bench_ep_command command;
  signal(SIGPIPE, SIG_IGN);
  while (read_command(socket, &command)) {
    measure(&rank, &command);
    if (write(socket, "", 1) != 1)
      break;
  }
  bench_store_close(&rank.store);
  return 0;
}
