// Completions of posts that requested one, until the application takes them: a list that links the transfers
// themselves.
#ifndef AGENT_TRANSFER_COMPLETIONS_H
#define AGENT_TRANSFER_COMPLETIONS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/agent.h>

struct agent_completions {
  _Atomic(struct weft_transfer *) pushed; // by any thread, the newest first
  pthread_mutex_t lock;                   // guards taking; no lock is taken while it is held
  struct weft_transfer *first, **last;    // the oldest first
};

// Completion of a transfer: one at a time.
struct agent_completion {
  struct weft_transfer *next;
  uint64_t tag;
  int err;
  _Atomic bool owed; // it was requested and not taken yet
};

void agent_completions_open(weft_agent_t *agent);
void agent_completions_close(weft_agent_t *agent);

// A post that requests a completion begins. False: the completion of the last post has not been taken. [transfer]
bool agent_completion_owe(struct weft_transfer *transfer, uint64_t tag);
// The post has ended. Allocates nothing, waits for nothing. [any]
void agent_completion_push(struct weft_transfer *transfer, int err);
// The transfer is closed: its completion is dropped. No thread pushes it any more. [any]
void agent_completion_withdraw(struct weft_transfer *transfer);

#endif
