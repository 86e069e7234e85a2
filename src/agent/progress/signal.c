// Notifications, events and completions for the application, and how it sleeps until there are some.
#include "agent/progress/signal.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/progress/progress.h"
#include "base/fail.h"
#include "base/time/clock.h"

enum { MOST_MS = 86400000 }; // fits the int of poll(2)

int agent_signal_open(weft_agent_t *agent) {
  agent->signal.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return agent->signal.fd >= 0 ? 0 : fail_errno(errno, "cannot make an event descriptor");
}

void agent_signal_close(weft_agent_t *agent) {
  if (agent->signal.outer >= 0)
    close(agent->signal.outer);
  if (agent->signal.fd >= 0)
    close(agent->signal.fd);
}

void agent_signal(weft_agent_t *agent) {
  struct agent_signal *signal = &agent->signal;
  atomic_thread_fence(memory_order_seq_cst);
  if (!atomic_load(&signal->watched) || atomic_exchange(&signal->signalled, true))
    return;
  uint64_t one = 1;
  ssize_t written = write(signal->fd, &one, sizeof one);
  (void)written; // it is readable already
}

// A thread that has said that it is readable and has not written yet will make it so: then the next call clears it.
void agent_signal_clear(weft_agent_t *agent) {
  struct agent_signal *signal = &agent->signal;
  uint64_t times;
  if (!atomic_load(&signal->signalled) || read(signal->fd, &times, sizeof times) != sizeof times)
    return;
  atomic_store(&signal->signalled, false);
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load(&signal->waiting) > 0)
    agent_signal(agent);
}

// If there is no thread, the caller sleeps on the descriptor that would wake the thread.
static int open_outer(weft_agent_t *agent) {
  int made = epoll_create1(EPOLL_CLOEXEC);
  if (made < 0)
    return fail_errno(errno, "cannot make an epoll descriptor");
  struct epoll_event ready = {.events = EPOLLIN};
  if (epoll_ctl(made, EPOLL_CTL_ADD, agent->epoll, &ready) != 0 ||
      epoll_ctl(made, EPOLL_CTL_ADD, agent->signal.fd, &ready) != 0) {
    int rc = fail_errno(errno, "cannot watch a descriptor");
    close(made);
    return rc;
  }
  agent->signal.outer = made;
  return 0;
}

int weft_agent_fd(weft_agent_t *agent, int *fd) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!fd)
    return fail(WEFT_ERR_INVALID, "the fd is NULL");
  bool threaded = agent->options.progress == WEFT_AGENT_PROGRESS_THREAD;
  int rc = threaded || agent->signal.outer >= 0 ? 0 : open_outer(agent);
  if (rc != 0)
    return rc;
  atomic_store(&agent->signal.watched, true);
  agent_signal(agent); // earlier ones were not watched
  *fd = threaded ? agent->signal.fd : agent->signal.outer;
  return 0;
}

static uint32_t round_up(uint64_t ns) {
  if (ns == CLOCK_NEVER)
    return WEFT_WAIT_FOREVER;
  uint64_t ms = ns / 1000000 + (ns % 1000000 != 0);
  return ms < MOST_MS ? (uint32_t)ms : MOST_MS;
}

// Drives the agent as its thread would. False: there is something to do.
static bool fall_asleep(weft_agent_t *agent, uint64_t *left_ns) {
  struct agent_signal *signal = &agent->signal;
  if (signal->armed) {
    signal->armed = false;
    agent_awake(agent, true);
  }
  uint32_t events = agent_drive(agent);
  agent_housekeep_if_due(agent, clock_ns());
  if (events > 0 || atomic_load(&signal->waiting) > 0)
    return false;
  agent_signal_clear(agent);
  if (!agent_fall_asleep(agent, CLOCK_NEVER, left_ns))
    return false;
  if (atomic_load(&signal->waiting) > 0 || *left_ns == 0) {
    agent_awake(agent, false);
    return false;
  }
  signal->armed = true;
  return true;
}

int weft_agent_arm(weft_agent_t *agent, uint32_t *timeout_ms) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!timeout_ms)
    return fail(WEFT_ERR_INVALID, "timeout_ms is NULL");
  uint64_t left_ns = CLOCK_NEVER;
  atomic_store(&agent->signal.watched, true);
  if (agent->options.progress == WEFT_AGENT_PROGRESS_THREAD)
    agent_signal_clear(agent);
  else if (!fall_asleep(agent, &left_ns))
    return 1;
  if (atomic_load(&agent->signal.waiting) > 0) {
    agent_signal(agent);
    return 1;
  }
  *timeout_ms = round_up(left_ns);
  return 0;
}
