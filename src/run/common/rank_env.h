// The task that a node gives to a rank process. It contains secrets. So it is neither in the arguments, which every
// user can see, nor in the environment, which the rank's own children inherit. It is in sealed memory with a
// descriptor, whose number is in an environment variable.
#ifndef RUN_COMMON_RANK_ENV_H
#define RUN_COMMON_RANK_ENV_H

#include <stdint.h>

#include <jansson.h>

#include "run/common/config.h"
#include "run/common/keys.h"

#define RUN_TASK_VARIABLE "WEFT_RANK_TASK"

struct run_task {
  const char *endpoints;                                                // of the store
  const char *token, *ca_file, *cert_file, *key_file, *user, *password; // or NULL
  const char *job, *run;
  int32_t rank;
  uint32_t slot;         // its place on its node: local_rank
  int32_t gpu;           // its device, -1 with host memory
  uint32_t phase;        // the first that it takes part in
  uint32_t wait_limit_s; // how long it waits for a store that does not answer when it starts
  uint64_t launch_ns;    // when the node decided
  int64_t agent_pid;
  int message_fd;  // pipe to the node (rank_pipe.h)
  int counters_fd; // memory to count in (counters.h), where num_counters is not 0
  uint32_t counters_place, num_counters;
};

// The caller wipes and frees it by secret_free(). NULL when memory ran out.
char *run_task_to_text(const struct run_task *task);

// `*owner` holds the strings: run_task_free() it last. PROTOCOL: not what a node writes; what it was is not told.
int run_task_from_text(struct run_task *task, const char *text, json_t **owner);

// A descriptor (close-on-exec) that a rank receives the task from.
int run_task_to_descriptor(const struct run_task *task, int *fd);

// Takes the task from the descriptor that the environment names, closes it and removes the variable: once in a process.
// INVALID: there is no variable; PROTOCOL: it or the descriptor is not a node's.
int run_task_receive(struct run_task *task, json_t **owner);

// Wipes the secrets and frees all; NULL is legal.
void run_task_free(json_t *owner);

// How to open the store that the task names.
void run_task_store_options(const struct run_task *task, struct weft_store_options *options);

#endif
