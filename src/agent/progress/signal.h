// What an application waits for: notifications, events and completions that it has not taken, and the descriptor that
// shows them: weft_agent_fd(), weft_agent_arm().
#ifndef AGENT_PROGRESS_SIGNAL_H
#define AGENT_PROGRESS_SIGNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/agent.h>

struct agent_signal {
  int fd;                          // an eventfd: readable when there is something
  int outer;                       // an epoll of it and of the agent's own: what a caller without a thread sleeps on
  _Atomic uint32_t waiting;        // things that the application has not taken; counted before they can be
  _Atomic bool signalled, watched; // fd: readable, or about to be; asked for
  bool armed;                      // the caller may have slept since; agents without a thread
};

int agent_signal_open(weft_agent_t *agent);
void agent_signal_close(weft_agent_t *agent);

// There is something, which was counted. [any]
void agent_signal(weft_agent_t *agent);
// A caller found nothing more of one kind: the descriptor stays readable only while there is something. [any]
void agent_signal_clear(weft_agent_t *agent);

#endif
