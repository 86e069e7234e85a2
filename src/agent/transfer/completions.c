// Completions: the thread that ends a post pushes them, and any caller takes them, in the order of the ends.
#include "agent/transfer/completions.h"

#include "agent/agent.h"
#include "agent/progress/signal.h"
#include "agent/transfer/transfer.h"
#include "base/fail.h"

void agent_completions_open(weft_agent_t *agent) {
  pthread_mutex_init(&agent->completions.lock, NULL);
  agent->completions.last = &agent->completions.first;
}

void agent_completions_close(weft_agent_t *agent) {
  pthread_mutex_destroy(&agent->completions.lock);
}

bool agent_completion_owe(weft_transfer_t *transfer, uint64_t tag) {
  if (atomic_load_explicit(&transfer->completion.owed, memory_order_acquire))
    return false;
  transfer->completion.tag = tag;
  atomic_store_explicit(&transfer->completion.owed, true, memory_order_relaxed);
  return true;
}

void agent_completion_push(weft_transfer_t *transfer, int err) {
  weft_agent_t *agent = transfer->agent;
  transfer->completion.err = err;
  atomic_fetch_add(&agent->signal.waiting, 1);
  struct weft_transfer *before = atomic_load_explicit(&agent->completions.pushed, memory_order_relaxed);
  do
    transfer->completion.next = before;
  while (!atomic_compare_exchange_weak(&agent->completions.pushed, &before, transfer));
  agent_signal(agent);
}

// Appends the pushed completions to the list, the oldest first. [completions.lock]
static void gather(struct agent_completions *completions) {
  struct weft_transfer *newest = atomic_exchange(&completions->pushed, NULL), *oldest = NULL;
  struct weft_transfer **last = newest ? &newest->completion.next : completions->last;
  while (newest) {
    struct weft_transfer *before = newest->completion.next;
    newest->completion.next = oldest;
    oldest = newest;
    newest = before;
  }
  *completions->last = oldest;
  completions->last = last;
}

// Unlinks the first one. [completions.lock]
static void pop(struct agent_completions *completions, struct weft_transfer *first) {
  completions->first = first->completion.next;
  if (!completions->first)
    completions->last = &completions->first;
}

void agent_completion_withdraw(weft_transfer_t *transfer) {
  weft_agent_t *agent = transfer->agent;
  if (!atomic_load_explicit(&transfer->completion.owed, memory_order_acquire))
    return;
  struct agent_completions *completions = &agent->completions;
  pthread_mutex_lock(&completions->lock);
  gather(completions);
  struct weft_transfer **place = &completions->first;
  while (*place && *place != transfer)
    place = &(*place)->completion.next;
  if (*place) {
    *place = transfer->completion.next;
    if (!*place)
      completions->last = place;
    atomic_fetch_sub(&agent->signal.waiting, 1);
  }
  pthread_mutex_unlock(&completions->lock);
}

int weft_agent_completions(weft_agent_t *agent, struct weft_completion *done, uint32_t cap, uint32_t *count) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!count || (cap > 0 && !done))
    return fail(WEFT_ERR_INVALID, "the %s is NULL", !count ? "count" : "array");
  struct agent_completions *completions = &agent->completions;
  uint32_t number = 0;
  pthread_mutex_lock(&completions->lock);
  gather(completions);
  for (; number < cap && completions->first; number++) {
    struct weft_transfer *transfer = completions->first;
    pop(completions, transfer);
    done[number] = (struct weft_completion){
        .tag = transfer->completion.tag, .transfer = transfer, .err = transfer->completion.err};
    atomic_store_explicit(&transfer->completion.owed, false, memory_order_release); // the last look at the transfer
  }
  pthread_mutex_unlock(&completions->lock);
  if (number > 0)
    atomic_fetch_sub(&agent->signal.waiting, number);
  if (number < cap)
    agent_signal_clear(agent);
  *count = number;
  return 0;
}
