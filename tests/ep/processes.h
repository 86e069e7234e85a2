// Rank processes under test: forked before this process has threads of its own, each with a client of one embedded
// store.
#ifndef TESTS_EP_PROCESSES_H
#define TESTS_EP_PROCESSES_H

#include <sys/types.h>

#include "rank.h"

enum { PROCESSES_MAX = 16 };

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

// Stops the store; all have been reaped.
void processes_end(struct processes *processes);

#endif
