// A rank process as its node sees it: started, watched through a pidfd, read through a pipe, and ended with the
// node.
#ifndef RUN_PROCESS_PROCESS_H
#define RUN_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "run/common/rank_env.h"
#include "run/common/rank_pipe.h"

// Zero-initialise; pid 0: no process.
struct run_child {
  int32_t rank;
  uint32_t slot, phase; // the phase that it was launched for
  pid_t pid;
  int pid_fd;        // readable when the process has ended
  int message_fd;    // readable when there are messages, or the writer is gone
  uint64_t kill_ns;  // when it said that it was about to die as planned; 0: it did not
  uint64_t still_ns; // since when it has stood still (standstill.h); 0: it does not
  uint64_t ticks;    // processor time that it had at the last look, while it stands still
  bool told_still;
  char line[RUN_MESSAGE_MAX];
  size_t line_size;
};

// Starts `weft rank` with this task (whose message_fd and agent_pid are filled here), its output written to `log_fd`,
// which stays the caller's. It dies with the calling thread, and has a process group of its own: a Ctrl-C on the
// terminal is the node's to handle.
int run_child_start(struct run_child *child, const struct run_task *task, int log_fd);

// Reads what has come and calls `fn` for each message. It does not wait. `json` is the callee's to look at only.
typedef void (*run_child_message_fn)(void *arg, struct run_child *child, json_t *json);
void run_child_read(struct run_child *child, run_child_message_fn fn, void *arg);

// Whether the process has ended; it may still have to be read, and is to be reaped.
bool run_child_has_ended(const struct run_child *child);

// The exit status of a child that has ended, as of waitpid(); frees what it had. False: it has not ended yet.
bool run_child_reap(struct run_child *child, int *status);

void run_child_signal(const struct run_child *child, int signal_number);

#endif
