// What the files of this folder share: the net lock, as its holders use it, and the net thread.
#ifndef EP_REMOTE_NET_LOCK_H
#define EP_REMOTE_NET_LOCK_H

#include "ep/core/wait.h"
#include "ep/remote/net/net.h"

// --- lock.c ---

// Takes the net lock if it is free. A thread that has just queued a post either finds the lock free, or leaves the post
// to the lock's holder, who looks at the queue after it has unlocked: so this first look must not come before the post
// is visible. [any]
static inline bool ep_net_try_lock(struct ep_net *net) {
  return !atomic_load(&net->locked) && !atomic_exchange(&net->locked, true);
}

// Posts all that is queued. [net lock]
void ep_net_empty_queue(struct ep_net *net);
// Unlocks as ep_net_unlock() does, but lets the net thread sleep. [net lock]
void ep_net_leave(struct ep_net *net);
// Wakes the net thread, if it sleeps. [any]
void ep_net_wake(struct ep_net *net);

// How the owner drives the transport while it waits.
extern const struct ep_background ep_net_background;

// --- thread.c ---

// Starts the net thread. SYSTEM.
int ep_net_thread_start(struct ep_net *net);
// Ends it, if it was started. [owner]
void ep_net_thread_stop(struct ep_net *net);

#endif
