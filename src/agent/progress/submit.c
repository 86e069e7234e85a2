// A worker's lock and its queue of submissions.
#include "agent/progress/submit.h"
#include "agent/agent.h"
#include "base/fail.h"

#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// The lock is a word, since a mutex of the C library takes three times the instructions in every post.
enum { FREE, TAKEN, AWAITED };

static inline bool try_lock(struct agent_worker *worker) {
  uint32_t free = FREE;
  return atomic_compare_exchange_strong(&worker->lock, &free, TAKEN);
}

static inline void release_lock(struct agent_worker *worker) {
  if (atomic_exchange(&worker->lock, FREE) == AWAITED)
    syscall(SYS_futex, &worker->lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

// The post was not started: keeps the reason, which the transport left as the thread's last error.
static void refuse(struct agent_post *post, int err, const char *why) {
  snprintf(post->request.why, sizeof post->request.why, "%s", why);
  for (uint32_t i = 0; post->request.status && i < post->request.num_pieces; i++)
    post->request.status[i] = err;
  post->ended(post, err);
}

static void start(struct agent_post *post) {
  int rc = post->worker->transport->post(&post->request);
  if (rc < 0)
    refuse(post, rc, weft_last_error());
}

static bool is_canceled(struct agent_post *post) {
  return atomic_load(&post->canceled) == atomic_load_explicit(&post->number, memory_order_relaxed);
}

// With the worker's lock: an earlier cancellation has found nothing to cancel, and a new one waits.
static void start_unless_canceled(struct agent_post *post) {
  if (is_canceled(post))
    refuse(post, WEFT_ERR_CANCELED, "it was cancelled before it began");
  else
    start(post);
}

static void serve(struct agent_post *post) {
  if (atomic_exchange(&post->wanted, false)) {
    start_unless_canceled(post);
    return; // it may have ended, and be freed; a cancellation meanwhile has put it into the queue again
  }
  // A thread that is posting it outside of the worker's lock looks for cancellations afterwards, and queues it again.
  int state = atomic_load_explicit(&post->request.state, memory_order_acquire);
  if (state == TRANSPORT_IN_FLIGHT && is_canceled(post) && !atomic_load(&post->posting))
    post->worker->transport->cancel(&post->request);
}

// In the order of their arrival.
static struct agent_post *reversed(struct agent_post *last) {
  struct agent_post *first = NULL;
  while (last) {
    struct agent_post *before = last->next;
    last->next = first;
    first = last;
    last = before;
  }
  return first;
}

static inline bool has_queue(struct agent_worker *worker) {
  return atomic_load_explicit(&worker->queue, memory_order_relaxed) != NULL;
}

static void serve_queue(struct agent_worker *worker) {
  while (has_queue(worker)) {
    struct agent_post *post = reversed(atomic_exchange(&worker->queue, NULL));
    while (post) {
      struct agent_post *next = post->next;
      atomic_store(&post->queued, false);
      serve(post);
      post = next;
    }
  }
}

void agent_worker_lock(struct agent_worker *worker) {
  if (try_lock(worker))
    return;
  atomic_fetch_add(&worker->waiting, 1);
  while (atomic_exchange(&worker->lock, AWAITED) != FREE)
    syscall(SYS_futex, &worker->lock, FUTEX_WAIT_PRIVATE, AWAITED, NULL, NULL, 0);
  atomic_fetch_sub(&worker->waiting, 1);
}

bool agent_worker_trylock(struct agent_worker *worker) {
  return atomic_load_explicit(&worker->waiting, memory_order_relaxed) == 0 && try_lock(worker);
}

void agent_worker_unlock(struct agent_worker *worker) {
  for (;;) {
    if (has_queue(worker))
      serve_queue(worker);
    release_lock(worker);
    atomic_thread_fence(memory_order_seq_cst); // sees the posts of threads that found the worker's lock taken
    if (!has_queue(worker) || !try_lock(worker))
      return;
  }
}

void agent_workers_lock(weft_agent_t *agent) {
  for (uint32_t i = 0; i < agent->num_workers; i++)
    agent_worker_lock(&agent->workers[i]);
}

void agent_workers_unlock(weft_agent_t *agent) {
  for (uint32_t i = agent->num_workers; i-- > 0;)
    agent_worker_unlock(&agent->workers[i]);
}

static void enqueue(struct agent_post *post) {
  if (atomic_exchange(&post->queued, true))
    return;
  struct agent_worker *worker = post->worker;
  struct agent_post *last = atomic_load_explicit(&worker->queue, memory_order_relaxed);
  do
    post->next = last;
  while (!atomic_compare_exchange_weak(&worker->queue, &last, post));
  atomic_thread_fence(memory_order_seq_cst);
}

// Serves the queue unless another thread is about to.
static void serve_if_free(struct agent_worker *worker) {
  if (agent_worker_trylock(worker))
    agent_worker_unlock(worker);
}

static void post_done(struct transport_request *request) {
  struct agent_post *post = request->arg;
  post->ended(post, atomic_load_explicit(&request->state, memory_order_acquire));
}

int agent_post_prepare(struct agent_post *post, struct agent_worker *worker, void *owner,
                       void (*ended)(struct agent_post *post, int err)) {
  post->worker = worker;
  post->owner = owner;
  post->ended = ended;
  post->request.done = post_done;
  post->request.arg = post;
  int rc = worker->transport->prepare(&post->request);
  post->prepared = rc == 0;
  return rc;
}

void agent_post_unprepare(struct agent_post *post) {
  if (!post->prepared)
    return;
  if (post->worker->worker)
    serve_queue(post->worker); // a late cancellation may still be in the queue
  post->worker->transport->unprepare(&post->request);
  post->prepared = false;
}

void agent_post_start(struct agent_post *post, uint64_t number) {
  struct agent_worker *worker = post->worker;
  atomic_store_explicit(&post->number, number, memory_order_relaxed);
  if (worker->concurrent) {
    atomic_store_explicit(&post->posting, true, memory_order_relaxed);
    start(post);
    atomic_store(&post->posting, false);
    if (is_canceled(post)) {
      enqueue(post);
      serve_if_free(worker);
    }
  } else if (agent_worker_trylock(worker)) {
    if (has_queue(worker)) // earlier ones
      serve_queue(worker);
    start_unless_canceled(post);
    agent_worker_unlock(worker);
  } else {
    atomic_store(&post->wanted, true);
    enqueue(post);
    serve_if_free(worker);
  }
}

void agent_post_start_held(struct agent_post *post, uint64_t number) {
  atomic_store_explicit(&post->number, number, memory_order_relaxed);
  serve_queue(post->worker);
  start(post);
}

void agent_post_leave(struct agent_post *post, uint64_t number) {
  struct agent_worker *worker = post->worker;
  atomic_store_explicit(&post->number, number, memory_order_relaxed);
  atomic_store(&post->wanted, true);
  enqueue(post);
  serve_if_free(worker);
}

void agent_post_cancel(struct agent_post *post, uint64_t number) {
  atomic_store(&post->canceled, number);
  enqueue(post);
  serve_if_free(post->worker);
}
