// Descriptors that housekeeping watches, and how to wake an agent that sleeps: progress.c.
#ifndef AGENT_PROGRESS_WATCH_H
#define AGENT_PROGRESS_WATCH_H

#include <stdint.h>

#include <weft/agent.h>

struct agent_watch {
  int fd;
  uint32_t events;                          // EPOLLIN...
  void (*ready)(struct agent_watch *watch); // [housekeeping]
  void *arg;
};

// ready() does not run any more when remove has returned. [takes housekeeping]
int agent_watch_add(weft_agent_t *agent, struct agent_watch *watch);
void agent_watch_remove(weft_agent_t *agent, struct agent_watch *watch);
// Makes the agent's thread check everything soon. [any]
void agent_wake(weft_agent_t *agent);

#endif
