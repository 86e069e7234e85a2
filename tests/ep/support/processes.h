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

// A rank's life, in its process: rank->index and rank->setup are set, its store too. False: rank->error says why.
typedef bool (*process_body)(struct rank *rank, void *arg);

// Starts `count` processes, then the store that they wait for. Ends the test on failure.
void processes_start(struct processes *processes, uint32_t count, const struct setup *setup, process_body body,
                     void *arg);

// Waits for one, and kills it when it does not end within two minutes. Returns its status, -1 when it was killed so.
int processes_reap(struct processes *processes, uint32_t index);
// The same, for what takes longer on a slow machine.
int processes_reap_within(struct processes *processes, uint32_t index, uint32_t timeout_ms);

// Reaps one, which must have ended well, or by `signal` if that is not 0. False, with a message: it has not.
bool processes_expect(struct processes *processes, uint32_t index, int signal);

// Stops the store; all have been reaped.
void processes_end(struct processes *processes);

// Where processes wait for each other; in memory that they share, zero at first.
struct meeting {
  _Atomic uint32_t came;
};

// Waits until all `count` have come here for the `round`-th time, from 1. False when some have not after a minute.
bool meeting_wait(struct meeting *meeting, struct rank *rank, uint32_t count, uint32_t round);

// Zeroed memory that this process shares with those that it forks.
void *processes_share(size_t size);

#endif
