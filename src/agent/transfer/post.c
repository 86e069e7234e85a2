// Post, poll, and how a transfer ends. This code allocates nothing, waits for no lock, and looks up no name.
#include "agent/transfer/post.h"

#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/metrics/metrics.h"
#include "agent/peer/message.h"
#include "agent/peer/message_send.h"
#include "agent/peer/table.h"
#include "agent/progress/progress.h"
#include "agent/progress/submit.h"
#include "base/fail.h"
#include "base/time/clock.h"
#include "base/time/ticks.h"

enum {
  POLLS_PER_LOOK = 64,   // a poll looks at the clock once in so many
  AHEAD_NS = 1000000000, // by which one processor's counter is surely not ahead of another's
};

static uint64_t not_ending(uint64_t number) {
  return number << 8;
}

// --- the end ---

// Notifies everybody who requested it; the transfer stays valid until `leaving` is 0.
static __attribute__((noinline, cold)) void report_end(weft_transfer_t *transfer, int state, int err) {
  if (state & AGENT_EVENT) {
    uint64_t one = 1;
    ssize_t written = write(transfer->event_fd, &one, sizeof one);
    (void)written; // it is readable already
  }
  if (state & AGENT_COMPLETES)
    agent_completion_push(transfer, err);
  atomic_fetch_sub(&transfer->leaving, 1);
}

// The word may be gone already: then no thread sleeps on it.
static void wake_sleepers(weft_transfer_t *transfer) {
  syscall(SYS_futex, &transfer->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

// What failed in the transfer before its time was up, where a transport tried it again; NULL: nothing.
static const char *find_failure(const weft_transfer_t *transfer) {
  static const size_t size = sizeof TRANSPORT_CANCELED_AFTER - 1;
  for (uint32_t i = 0; i < transfer->num_parts; i++)
    if (strncmp(transfer->parts[i].request.why, TRANSPORT_CANCELED_AFTER, size) == 0)
      return transfer->parts[i].request.why + size;
  return NULL;
}

static __attribute__((noinline, cold)) void explain_timeout(weft_transfer_t *transfer) {
  const char *failure = find_failure(transfer);
  snprintf(transfer->why, sizeof transfer->why, "%s: it did not end within %" PRIu64 " ms%s%s", transfer->peer->name,
           transfer->timeout_ns / 1000000, failure ? "; the last attempt failed: " : "", failure ? failure : "");
}

// Ends the transfer: nothing uses its memory any more. Setting the state is the last access, except for those that
// `leaving` counts.
static void finish(weft_transfer_t *transfer, int err) {
  weft_agent_t *agent = transfer->agent;
  int asked = -(int)(atomic_load(&transfer->ending) & 0xFF);
  if (err != 0 && asked != 0) {
    err = asked;
    if (asked == WEFT_ERR_TIMEOUT)
      explain_timeout(transfer);
    else if (asked == WEFT_ERR_PEER_LOST)
      snprintf(transfer->why, sizeof transfer->why, "%s: %s", transfer->peer->name, transfer->peer->why);
  }
  if (transfer->message)
    agent_credit_end(transfer->peer, transfer->sequence, err);
  int64_t ticks = (int64_t)(ticks_now() - transfer->posted_ticks); // less than nothing on another processor, perhaps
  transfer->took_ticks = ticks > 0 ? (uint64_t)ticks : 0;
  agent_metrics_transfer(transfer->link, transfer->op, transfer->bytes, ticks > 0 ? ticks_to_ns((uint64_t)ticks) : 0,
                         err);
  trace_end(transfer->range);
  atomic_fetch_sub_explicit(&agent->in_flight, 1, memory_order_relaxed);
  int state = atomic_load_explicit(&transfer->state, memory_order_relaxed);
  bool leaving = false;
  do {
    if ((state & (AGENT_EVENT | AGENT_COMPLETES)) && !leaving) {
      atomic_fetch_add(&transfer->leaving, 1);
      leaving = true;
    }
  } while (!atomic_compare_exchange_weak_explicit(&transfer->state, &state, err, memory_order_acq_rel,
                                                  memory_order_relaxed));
  if (state & AGENT_SLEEPER)
    wake_sleepers(transfer);
  if (leaving)
    report_end(transfer, state, err);
}

static void keep_err(weft_transfer_t *transfer, const struct agent_post *post, int err) {
  int none = 0;
  if (atomic_compare_exchange_strong(&transfer->err, &none, err))
    snprintf(transfer->why, sizeof transfer->why, "%s: %s: %s", transfer->peer->name, post->worker->transport->name,
             post->request.why[0] ? post->request.why : weft_strerror(err));
}

void agent_part_ended(struct agent_post *post, int err) {
  weft_transfer_t *transfer = post->owner;
  if (err != 0)
    keep_err(transfer, post, err);
  if (transfer->num_parts > 1) {
    if (atomic_fetch_sub(&transfer->left, 1) != 1)
      return;
    err = atomic_load(&transfer->err);
  }
  if (err == 0 && transfer->outgoing)
    agent_post_leave(transfer->outgoing, atomic_load_explicit(&transfer->number, memory_order_relaxed));
  else
    finish(transfer, err);
}

void agent_transfer_notification_ended(struct agent_post *post, int err) {
  weft_transfer_t *transfer = post->owner;
  if (err != 0)
    keep_err(transfer, post, err);
  finish(transfer, err);
}

void agent_transfer_stop(weft_transfer_t *transfer, uint64_t number, int code) {
  uint64_t expected = not_ending(number);
  if (!atomic_compare_exchange_strong(&transfer->ending, &expected, expected | (uint64_t)-code))
    return;                                        // another thread has asked, or it is another post's time
  for (uint32_t i = 0; i < transfer->num_all; i++) // a part that this post has not started stays unchanged
    agent_post_cancel(&transfer->all_parts[i], number);
  if (transfer->sender)
    agent_post_cancel(transfer->sender, number);
  if (atomic_load(&transfer->agent->asleep))
    agent_wake(transfer->agent);
}

uint64_t agent_transfer_left_ns(const weft_transfer_t *transfer) {
  uint64_t deadline = atomic_load_explicit(&transfer->deadline_ticks, memory_order_acquire), now = ticks_now();
  uint64_t most = atomic_load_explicit(&transfer->timeout_ticks, memory_order_relaxed) + ticks_of_ns(AHEAD_NS);
  uint64_t left = deadline - now;
  return (int64_t)left <= 0 || left > most ? 0 : ticks_to_ns(left); // more: the counter began anew, as after a sleep
}

uint64_t agent_transfers_housekeep(weft_agent_t *agent, uint64_t now_ns) {
  uint64_t next = CLOCK_NEVER;
  if (atomic_load(&agent->in_flight) == 0)
    return next;
  pthread_mutex_lock(&agent->lock);
  for (weft_transfer_t *transfer = agent->transfers; transfer; transfer = transfer->next) {
    uint64_t number = atomic_load(&transfer->number);
    if (!agent_transfer_flies(transfer))
      continue;
    uint64_t left_ns = agent_transfer_left_ns(transfer);
    if (left_ns == 0)
      agent_transfer_stop(transfer, number, WEFT_ERR_TIMEOUT);
    else if (now_ns + left_ns < next)
      next = now_ns + left_ns;
  }
  pthread_mutex_unlock(&agent->lock);
  return next;
}

// --- post ---

static int fail_to_post(weft_transfer_t *transfer, int err) {
  switch (err) {
  case WEFT_ERR_BUSY:
    return fail(err, "%s has %d notifications that it has not read", transfer->peer->name, AGENT_CREDITS);
  case WEFT_ERR_NOT_FOUND:
    return fail(err, "%s has deregistered region %" PRIu64 "", transfer->peer->name,
                atomic_load(&transfer->remote->broken));
  default:
    snprintf(transfer->why, sizeof transfer->why, "%s: %s" AGENT_COME_BACK, transfer->peer->name, transfer->peer->why);
    return fail(err, "%s", transfer->why);
  }
}

static void set_status(weft_transfer_t *transfer, int err) {
  for (uint32_t i = 0; i < transfer->num_pieces; i++)
    transfer->status[i] = err;
}

// A peer that has ended never gives credit again, so BUSY would be wrong.
static __attribute__((noinline, cold)) int refuse_without_credit(weft_transfer_t *transfer) {
  int failed = atomic_load(&transfer->peer->failed);
  if (failed == 0)
    return fail_to_post(transfer, WEFT_ERR_BUSY);
  set_status(transfer, failed);
  atomic_store(&transfer->state, failed);
  return fail_to_post(transfer, failed);
}

static int take_credit(weft_transfer_t *transfer) {
  transfer->sequence = agent_credit_take(transfer->peer);
  if (transfer->sequence == 0)
    return refuse_without_credit(transfer);
  agent_header_fill(transfer->peer, transfer->message, AGENT_NOTIFICATION, transfer->message_size - AGENT_HEADER,
                    transfer->sequence);
  return 0;
}

// The peer has failed: the post counts for none. A thread that cancels may have seen it in flight, and sleeps.
static __attribute__((noinline, cold)) int take_back(weft_transfer_t *transfer, uint64_t number, int failed) {
  if (transfer->message)
    agent_credit_end(transfer->peer, transfer->sequence, failed);
  set_status(transfer, failed);
  atomic_fetch_sub_explicit(&transfer->agent->in_flight, 1, memory_order_relaxed);
  atomic_store_explicit(&transfer->number, number - 1, memory_order_relaxed);
  if (atomic_exchange(&transfer->state, failed) & AGENT_SLEEPER)
    wake_sleepers(transfer);
  return fail_to_post(transfer, failed);
}

// A thread that ends a peer first marks the peer as failed, then looks at the states of its transfers. A post does the
// two in the other order, so at least one of the two threads sees the other.
static inline __attribute__((always_inline)) int begin(weft_transfer_t *transfer) {
  uint64_t number = atomic_load_explicit(&transfer->number, memory_order_relaxed) + 1;
  uint64_t now = ticks_now();
  transfer->why[0] = '\0';
  uint64_t timeout = atomic_load_explicit(&transfer->timeout_ticks, memory_order_relaxed);
  atomic_store_explicit(&transfer->deadline_ticks, now + timeout, memory_order_relaxed);
  atomic_store_explicit(&transfer->err, 0, memory_order_relaxed);
  atomic_store_explicit(&transfer->left, transfer->num_parts, memory_order_relaxed);
  atomic_store_explicit(&transfer->number, number, memory_order_relaxed);
  atomic_store_explicit(&transfer->ending, not_ending(number), memory_order_relaxed);
  atomic_fetch_add_explicit(&transfer->agent->in_flight, 1, memory_order_relaxed);
  atomic_store(&transfer->state, transfer->begin_state);
  int failed = atomic_load(&transfer->peer->failed);
  if (failed != 0)
    return take_back(transfer, number, failed);
  transfer->posted_ticks = now;
  return 0;
}

static inline __attribute__((always_inline)) int launch(weft_transfer_t *transfer) {
  if (atomic_load_explicit(&transfer->remote->broken, memory_order_relaxed) != 0)
    return fail_to_post(transfer, WEFT_ERR_NOT_FOUND);
  int rc = transfer->message ? take_credit(transfer) : 0;
  if (rc == 0)
    rc = begin(transfer);
  if (rc != 0)
    return rc;
  uint64_t number = atomic_load_explicit(&transfer->number, memory_order_relaxed);
  transfer->range = trace_begin(&transfer->link->worker->traces[transfer->op], transfer->bytes);
  for (uint32_t i = 0; i < transfer->num_parts; i++)
    agent_post_start(&transfer->parts[i], number);
  weft_agent_t *agent = transfer->agent;
  if (atomic_load(&agent->asleep) && agent_transfer_flies(transfer))
    agent_wake(agent);
  return 0;
}

int agent_life_fail(uint32_t life, const char *what) {
  return life == AGENT_CLOSED ? fail(WEFT_ERR_CLOSED, "%s belongs to an agent that is closed: free it", what)
                              : forked_check(life, what);
}

static inline __attribute__((always_inline)) int may_post(const weft_transfer_t *transfer) {
  if (__builtin_expect(forked_since(transfer->life), 0))
    return agent_life_fail(transfer->life, "the transfer");
  int state = atomic_load_explicit(&transfer->state, memory_order_acquire);
  return state > 0 && (state & AGENT_IN_FLIGHT) ? fail(WEFT_ERR_BUSY, "the transfer is in flight") : 0;
}

int agent_transfer_may_post(weft_transfer_t *transfer) {
  return may_post(transfer);
}

int agent_transfer_launch(weft_transfer_t *transfer) {
  return launch(transfer);
}

int weft_transfer_post(weft_transfer_t *transfer) {
  if (!transfer)
    return fail(WEFT_ERR_INVALID, "the transfer is NULL");
  int rc = may_post(transfer);
  if (rc != 0)
    return rc;
  if (transfer->special)
    agent_transfer_as_made(transfer);
  return launch(transfer);
}

// --- poll ---

static void look_at_clock(weft_transfer_t *transfer) {
  if (agent_transfer_left_ns(transfer) == 0)
    agent_transfer_stop(transfer, atomic_load(&transfer->number), WEFT_ERR_TIMEOUT);
  if (!transfer->agent->has_thread)
    agent_housekeep_if_due(transfer->agent, clock_ns());
}

int weft_transfer_poll(weft_transfer_t *transfer) {
  if (!transfer)
    return fail(WEFT_ERR_INVALID, "the transfer is NULL");
  if (__builtin_expect(forked_since(transfer->life), 0))
    return agent_life_fail(transfer->life, "the transfer");
  int state = atomic_load_explicit(&transfer->state, memory_order_acquire);
  if (state > 0 && (state & AGENT_IN_FLIGHT)) {
    agent_drive_worker(transfer->link->worker);
    if (transfer->outgoing)
      agent_drive_worker(transfer->outgoing->worker);
    if (++transfer->polls % POLLS_PER_LOOK == 0)
      look_at_clock(transfer);
    state = atomic_load_explicit(&transfer->state, memory_order_acquire);
    if (state > 0)
      return 1;
  }
  if (state == 0)
    return 0;
  if (state == AGENT_NEVER)
    return fail(WEFT_ERR_INVALID, "the transfer has not been posted");
  return fail(state, "%s", transfer->why);
}

// --- the peer's end ---

void agent_transfers_stop(struct agent_peer *peer) {
  for (weft_transfer_t *transfer = peer->transfers; transfer; transfer = transfer->next_of_peer)
    if (agent_transfer_flies(transfer))
      agent_transfer_stop(transfer, atomic_load(&transfer->number), WEFT_ERR_PEER_LOST);
}
