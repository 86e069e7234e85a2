// Ends of posts that asked to be told, until the application takes them: a list through the transfers themselves.
#ifndef AGENT_TRANSFER_COMPLETIONS_H
#define AGENT_TRANSFER_COMPLETIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/agent.h>

struct agent_completions {
  _Atomic(struct weft_transfer *) pushed; // by any thread, the newest first
  pthread_mutex_t lock;                   // of those that take; the last one of all
  struct weft_transfer *first, **last;    // the oldest first
};

// Of a transfer: one completion at a time.
struct agent_completion {
  struct weft_transfer *next;
  uint64_t tag;
  int err;
  _Atomic bool owed; // asked for, and not taken
};

void agent_completions_open(weft_agent_t *agent);
void agent_completions_close(weft_agent_t *agent);

// A post that asks for it begins. False: the one before has not been taken. [transfer]
bool agent_completion_owe(struct weft_transfer *transfer, uint64_t tag);
// The post has ended. Allocates nothing, waits for nothing. [any]
void agent_completion_push(struct weft_transfer *transfer, int err);
// The transfer goes: nobody will be told. No thread pushes it any more. [any]
void agent_completion_withdraw(struct weft_transfer *transfer);

#endif
