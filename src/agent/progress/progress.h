// Progress: the agent's thread makes it, or any thread that polls.
#ifndef AGENT_PROGRESS_PROGRESS_H
#define AGENT_PROGRESS_PROGRESS_H

#include "agent/agent.h"
#include "agent/progress/submit.h"

// Makes progress on a worker unless another thread does. Returns the number of events. [any]
static inline uint32_t agent_drive_worker(struct agent_worker *worker) {
  if (!agent_worker_trylock(worker))
    return 0;
  uint32_t events = worker->transport->progress(worker->worker);
  agent_worker_unlock(worker);
  return events;
}

// The same for all workers. [any]
uint32_t agent_drive(weft_agent_t *agent);

// Runs housekeeping if it is due and no other thread runs it. [any, no lock held]
void agent_housekeep_if_due(weft_agent_t *agent, uint64_t now_ns);

// Sleeps until a transport has something to do, a watched descriptor is ready, the agent is woken, or the time has
// come. May return at once. One thread at a time: the agent's thread, or its only caller.
void agent_sleep(weft_agent_t *agent, uint64_t until_ns);
// The two parts of agent_sleep(), for a caller that itself sleeps on agent->epoll. False: there is something to do.
// `*left_ns`: the longest time to sleep; CLOCK_NEVER: no limit. `ready`: the descriptor may have been readable.
bool agent_fall_asleep(weft_agent_t *agent, uint64_t until_ns, uint64_t *left_ns);
void agent_awake(weft_agent_t *agent, bool ready);

int agent_progress_open(weft_agent_t *agent);
// From then on that worker wakes sleeping threads, too.
int agent_progress_add(weft_agent_t *agent, struct agent_worker *worker);
int agent_progress_start(weft_agent_t *agent); // starts the thread
void agent_progress_stop(weft_agent_t *agent);
void agent_progress_close(weft_agent_t *agent);

#endif
