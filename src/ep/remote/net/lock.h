// What the files of this folder share: the net lock for its holders, and the net thread.
#ifndef EP_REMOTE_NET_LOCK_H
#define EP_REMOTE_NET_LOCK_H

#include "ep/core/wait.h"
#include "ep/remote/net/net.h"

// --- lock.c ---

// Takes the net lock if it is free. A thread that has just queued a post either finds the lock free, or leaves the post
// to the holder of the lock, which checks the queue after it has unlocked. So this function must not read `locked`
// before the post is visible. [any]
static inline bool ep_net_try_lock(struct ep_net *net) {
  return !atomic_load(&net->locked) && !atomic_exchange(&net->locked, true);
}

// Posts all that is queued. [net lock]
void ep_net_empty_queue(struct ep_net *net);
// Unlocks like ep_net_unlock(), but lets the net thread sleep. [net lock]
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
