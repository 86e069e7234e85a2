// The net lock, the queue of posts that its holder empties, and how posts end.
#include "ep/remote/net/lock.h"

#include <sched.h>
#include <unistd.h>

#include "ep/core/doorbell.h"
#include "ep/core/engine.h"
#include "ep/remote/remote_link.h"

// --- posts ---

void ep_net_zero_copy(struct ep_net *net, struct ep_post *post) {
  post->zero_copy = true;
  atomic_fetch_add(&net->zero_copies, 1);
}

static void end_zero_copy(struct ep_post *post) {
  struct ep_net *net = post->remote->net;
  if (!post->zero_copy)
    return;
  post->zero_copy = false;
  if (atomic_fetch_sub(&net->zero_copies, 1) == 1)
    ep_doorbell_ring(ep_own_bell(net->ep));
}

static void taken(struct transport_request *request) {
  end_zero_copy(request->arg);
}

static void end(struct ep_post *post, int err) {
  post->in_flight = false;
  end_zero_copy(post);
  post->ended(post, err);
}

static void done(struct transport_request *request) {
  struct ep_post *post = request->arg;
  if (post->in_flight)
    end(post, atomic_load_explicit(&request->state, memory_order_acquire));
}

void ep_net_post_now(struct ep_net *net, struct ep_post *post) {
  if (ep_remote_failed(post->remote)) {
    end(post, WEFT_ERR_PEER_LOST);
    return;
  }
  post->request.arg = post;
  post->request.done = done;
  post->request.taken = taken;
  post->in_flight = true;
  net->num_posts++;
  int rc = net->transport->post(&post->request);
  if (rc != 0)
    end(post, rc);
}

void ep_net_empty_queue(struct ep_net *net) {
  struct ep_post *newest = atomic_exchange(&net->queue, NULL), *oldest = NULL;
  while (newest) { // reverses the queue
    struct ep_post *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest) {
    struct ep_post *next = oldest->next; // the post may be queued again when it has ended
    ep_net_post_now(net, oldest);
    oldest = next;
  }
}

// --- the lock ---

void ep_net_wake(struct ep_net *net) {
  if (!atomic_load(&net->asleep) || !atomic_exchange(&net->asleep, false))
    return;
  uint64_t one = 1;
  ssize_t written = write(net->kick, &one, sizeof one);
  (void)written;
}

// A thread that queued a post meanwhile and did not get the lock has left the post to this thread.
void ep_net_leave(struct ep_net *net) {
  do {
    ep_net_empty_queue(net);
    atomic_store(&net->locked, false);
  } while (atomic_load(&net->queue) && ep_net_try_lock(net));
}

// Wakes the net thread: otherwise it may sleep until a descriptor signals an event that this thread has already
// consumed.
void ep_net_unlock(struct ep_net *net) {
  ep_net_leave(net);
  ep_net_wake(net);
}

void ep_net_lock(struct ep_net *net) {
  atomic_fetch_add(&net->wanted, 1);
  while (!ep_net_try_lock(net))
    sched_yield();
  atomic_fetch_sub(&net->wanted, 1);
}

uint32_t ep_net_progress(struct ep_net *net) {
  ep_net_empty_queue(net);
  return net->worker ? net->transport->progress(net->worker) : 0;
}

void ep_net_post(struct ep_net *net, struct ep_post *post) {
  struct ep_post *head = atomic_load_explicit(&net->queue, memory_order_relaxed);
  do
    post->next = head;
  while (!atomic_compare_exchange_weak(&net->queue, &head, post));
  bool ended = false;
  if (ep_net_try_lock(net)) {
    ep_net_empty_queue(net);
    ended = !post->in_flight;
    ep_net_leave(net);
  }
  if (!ended && !atomic_load(&net->driving)) // no descriptor signals when the network can take the rest
    ep_net_wake(net);
}

// --- what the owner drives while it waits ---

// From here on the owner drives, until it hands over. The net thread sleeps, and uses neither the lock nor a processor.
static void take_over(struct ep_net *net) {
  if (!atomic_load_explicit(&net->driving, memory_order_relaxed))
    atomic_store(&net->driving, true);
}

void ep_net_drive_once(struct ep_net *net) {
  take_over(net);
  if (atomic_load_explicit(&net->wanted, memory_order_relaxed) || !ep_net_try_lock(net))
    return;
  ep_net_progress(net);
  ep_net_leave(net);
}

static void drive_for_owner(weft_ep_t *ep) {
  ep_net_drive_once(atomic_load_explicit(&ep->net, memory_order_relaxed));
}

// The owner does something else from now on: the net thread drives.
static void hand_over_for_owner(weft_ep_t *ep) {
  struct ep_net *net = atomic_load_explicit(&ep->net, memory_order_relaxed);
  if (atomic_exchange(&net->driving, false))
    ep_net_wake(net);
}

static void sign_for_owner(weft_ep_t *ep, uint64_t now_ns) {
  atomic_load_explicit(&ep->net, memory_order_relaxed)->events->heartbeat(ep, now_ns);
}

const struct ep_background ep_net_background = {drive_for_owner, hand_over_for_owner, sign_for_owner};
