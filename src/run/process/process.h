// A rank process of a node. The node starts it, watches it through a pidfd, and reads its messages from a pipe. When
// the node ends, the process ends too.
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
  uint64_t kill_ns;  // when it reported that it was about to die as planned; 0: it did not report that
  uint64_t still_ns; // since when it has stood still (node/standstill.c); 0: it does not stand still
  uint64_t ticks;    // its processor time at the last look, if it stood still then
  bool reported_still;
  char line[RUN_MESSAGE_MAX];
  size_t line_size;
};

// Starts `weft rank` with this task, and fills the message_fd and agent_pid of the task. The process writes its output
// to `log_fd`, which the caller still owns. It dies with the calling thread. It has its own process group, so that only
// the node receives a Ctrl-C from the terminal.
int run_child_start(struct run_child *child, const struct run_task *task, int log_fd);

// Reads the messages that have arrived, and calls `fn` for each. It does not wait. `fn` only borrows `json`.
typedef void (*run_child_message_fn)(void *arg, struct run_child *child, json_t *json);
void run_child_read(struct run_child *child, run_child_message_fn fn, void *arg);

// Whether the process has ended. The caller still has to read its last messages and to reap it.
bool run_child_has_ended(const struct run_child *child);

// Gets the exit status of a child that has ended, as waitpid() does, and closes its descriptors. False: it has not
// ended yet.
bool run_child_reap(struct run_child *child, int *status);

void run_child_signal(const struct run_child *child, int signal_number);

#endif
