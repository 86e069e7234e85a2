// Rank processes under test: forked before this process has threads of its own, each with a client of one embedded
// store.
#ifndef TESTS_EP_PROCESSES_H
#define TESTS_EP_PROCESSES_H

#include <sys/types.h>

#include "ep/support/rank.h"

enum { PROCESSES_MAX = 256 };

struct processes {
  uint32_t count;
  pid_t pids[PROCESSES_MAX];
  weft_store_server_t *server;
  char (*errors)[1024]; // [count], in shared memory: why a rank failed
};

// The body of a rank's process: rank->index, rank->setup and its store are set. False: rank->error gives the reason.
typedef bool (*process_body)(struct rank *rank, void *arg);

// Starts `count` processes, then the store that they wait for. Ends the test on failure.
void processes_start(struct processes *processes, uint32_t count, const struct setup *setup, process_body body,
                     void *arg);

// Waits for one process, and kills it if it does not end within two minutes. Returns its status, -1 if it was killed.
int processes_reap(struct processes *processes, uint32_t index);
// The same with another limit, for processes that take longer on a slow machine.
int processes_reap_within(struct processes *processes, uint32_t index, uint32_t timeout_ms);

// Reaps a process. It must have ended successfully, or by `signal` if that is not 0. False, with a message: it has not.
bool processes_expect(struct processes *processes, uint32_t index, int signal);

// Stops the store; all processes have to be reaped already.
void processes_end(struct processes *processes);

// A barrier for processes; it has to be in shared memory and zero at first.
struct meeting {
  _Atomic uint32_t came;
};

// Waits until all `count` processes have called this for the `round`-th time, from 1. False: some have not after a
// minute.
bool meeting_wait(struct meeting *meeting, struct rank *rank, uint32_t count, uint32_t round);

// Zeroed memory that this process shares with the processes that it forks.
void *processes_share(size_t size);

#endif
