// Who moves things on: the agent's thread, or whoever polls.
#ifndef AGENT_PROGRESS_PROGRESS_H
#define AGENT_PROGRESS_PROGRESS_H

#include "agent/agent.h"
#include "agent/progress/submit.h"

// Moves a worker on unless another thread does. Returns the number of things that happened. [any]
static inline uint32_t agent_drive_worker(struct agent_worker *worker) {
  if (!agent_worker_trylock(worker))
    return 0;
  uint32_t events = worker->transport->progress(worker->worker);
  agent_worker_unlock(worker);
  return events;
}

// All workers. [any]
uint32_t agent_drive(weft_agent_t *agent);

// Housekeeping, if its time has come and no other thread is at it. [any, no lock held]
void agent_housekeep_if_due(weft_agent_t *agent, uint64_t now_ns);

// Sleeps until a transport has something to do, a watched descriptor is ready, the agent is woken, or the time
// has come. May return at once. One thread at a time: the agent's, or its only caller.
void agent_sleep(weft_agent_t *agent, uint64_t until_ns);
// Its parts, for a caller that sleeps by itself on agent->epoll. False: there is something to do. `*left_ns`: no longer
// than this; CLOCK_NEVER: for ever. `ready`: the descriptor may have been readable.
bool agent_fall_asleep(weft_agent_t *agent, uint64_t until_ns, uint64_t *left_ns);
void agent_awake(weft_agent_t *agent, bool ready);

int agent_progress_open(weft_agent_t *agent);
// Sleepers wake by that worker, too, from here on.
int agent_progress_add(weft_agent_t *agent, struct agent_worker *worker);
int agent_progress_start(weft_agent_t *agent); // the thread
void agent_progress_stop(weft_agent_t *agent);
void agent_progress_close(weft_agent_t *agent);

#endif
