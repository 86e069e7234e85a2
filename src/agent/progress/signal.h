// The descriptor that signals notifications, events and completions that the application has not taken:
// weft_agent_fd(), weft_agent_arm().
#ifndef AGENT_PROGRESS_SIGNAL_H
#define AGENT_PROGRESS_SIGNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/agent.h>

struct agent_signal {
  int fd;    // an eventfd: readable if there is something to take
  int outer; // an epoll descriptor of `fd` and of the agent's own epoll: a caller without a thread sleeps on it
  _Atomic uint32_t waiting;        // things that the application has not taken; each is counted before it can be taken
  _Atomic bool signalled, watched; // fd: readable, or soon readable; requested
  bool armed;                      // the caller may have slept since; used by agents without a thread
};

int agent_signal_open(weft_agent_t *agent);
void agent_signal_close(weft_agent_t *agent);

// Signals that there is something to take, which was counted. [any]
void agent_signal(weft_agent_t *agent);
// A caller found nothing more of one kind. The descriptor stays readable only if there is something else. [any]
void agent_signal_clear(weft_agent_t *agent);

#endif
