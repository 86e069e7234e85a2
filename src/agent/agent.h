// The inside of an agent: its parts and its locks.
//
// Locks, in the order in which they are taken:
//   housekeeping  (recursive) one thread at a time handles deadlines, peers and descriptors
//   lock          regions, lists, transfers, the table of peers
//   worker locks  one for each worker, in their order: calls of the worker's transport, and what its callbacks read
//   events.lock   events that the application has not taken: held for the time of a copy
// post and poll wait for none of them: they only try a worker's lock, and otherwise leave their work to its holder
// (progress/submit.c). Callbacks of transports run with a worker's lock held, so they touch nothing that `lock` guards.
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/agent.h>

#include "agent/hooks.h"
#include "agent/limits.h"
#include "agent/memory/region.h"
#include "agent/peer/events.h"
#include "agent/peer/peer.h"
#include "agent/progress/signal.h"
#include "agent/progress/watch.h"
#include "agent/progress/worker.h"
#include "agent/transfer/transfer.h"
#include "base/fail.h"
#include "base/forked.h"
#include "secure/exchange.h"

struct weft_agent {
  // What post, poll and a sleeping thread touch comes first.
  _Atomic uint64_t in_flight;       // transfers
  _Atomic uint64_t housekeeping_ns; // when housekeeping is due next
  _Atomic bool attention;           // housekeeping is due now
  _Atomic bool asleep;              // the thread sleeps, or the caller that waits in its place
  _Atomic bool stop;                // the thread is to end
  bool has_thread;
  uint32_t life; // forked_now() when it was opened
  int epoll, wake;
  const struct agent_hooks *hooks; // open.c

  char name[WEFT_AGENT_MAX_NAME];
  uint64_t incarnation;
  char host[AGENT_MAX_HOST];
  struct exchange exchange;      // its key pair; the public key determines the incarnation
  bool seals;                    // it has a token
  uint8_t seal[SECRET_KEY_SIZE]; // derived from the token: metadata has to be sealed with this key
  uint64_t pid_namespace, start_ticks;
  struct weft_agent_options options; // completed; its strings are the agent's own
  char *strings;                     // memory of these strings

  pthread_mutex_t housekeeping;
  pthread_mutex_t lock;
  struct agent_worker workers[AGENT_MAX_WORKERS];
  _Atomic uint32_t num_workers; // grows with `lock` held, when the new worker is complete: add_transport.c

  // the lock `lock` guards these:
  weft_region_t next_region;
  uint64_t change;   // counts changes of the regions that are published
  uint32_t foreign;  // number of regions of all peers
  uint64_t numbered; // the highest number of a notification to a peer that has ended
  struct agent_peers peers;
  struct agent_peer self;
  struct weft_transfer *transfers;
  struct agent_peer *dying; // peers that have ended, and are not torn down yet
  bool closing;

  // messages that have arrived, first in, first out: notifications, and control messages (peer/message_recv.c)
  struct agent_inbox {
    _Alignas(64) _Atomic(struct agent_note *) last; // pushed by any thread
    _Alignas(64) struct agent_note *first;          // popped by one thread at a time
    struct agent_note *held;                        // handed out to the application
  } inbox, control;
  struct agent_events events;           // peer/events.c
  struct agent_completions completions; // transfer/completions.c
  struct agent_signal signal;           // progress/signal.c
  _Atomic uint64_t dropped;             // messages of unknown senders, and messages beyond the credits

  pthread_t thread; // progress thread

  struct agent_services *services; // services.c: liveness, exchange, metrics
};

// 0, or the error with which a call with this handle fails: INVALID, or CLOSED in a forked child. [any]
static inline int agent_handle_check(const weft_agent_t *agent) {
  return agent ? forked_check(agent->life, "the agent") : fail(WEFT_ERR_INVALID, "the agent is NULL");
}

_Static_assert(offsetof(struct weft_agent, hooks) + sizeof(void *) <= 64, "what post and poll touch comes first");

#endif
