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
  uint32_t slot;         // its process slot on its node: local_rank
  int32_t gpu;           // its device, -1 with host memory
  uint32_t phase;        // first phase in which it takes part
  uint32_t wait_limit_s; // how long it waits for a store that does not answer when it starts
  uint64_t launch_ns;    // when the node decided to launch it
  int64_t agent_pid;
  int message_fd;  // pipe to the node (rank_pipe.h)
  int counters_fd; // memory of the counters (counters.h), if num_counters is not 0
  uint32_t counters_place, num_counters;
};

// The caller wipes and frees the text with secret_free(). NULL when memory ran out.
char *run_task_to_text(const struct run_task *task);

// `*owner` owns the strings: call run_task_free() on it last. PROTOCOL: no node has written this text; the error does
// not quote it.
int run_task_from_text(struct run_task *task, const char *text, json_t **owner);

// Makes a descriptor (close-on-exec) from which a rank receives the task.
int run_task_to_descriptor(const struct run_task *task, int *fd);

// Reads the task from the descriptor that the environment names, closes the descriptor and removes the variable, so it
// works once in a process. INVALID: there is no variable. PROTOCOL: the variable or the descriptor is not from a node.
int run_task_receive(struct run_task *task, json_t **owner);

// Wipes the secrets and frees all; NULL is legal.
void run_task_free(json_t *owner);

// Fills the options to open the store that the task names.
void run_task_store_options(const struct run_task *task, struct weft_store_options *options);

#endif
