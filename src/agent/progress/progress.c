// Progress: drives the workers, runs housekeeping when it is due, and sleeps; in a thread or for a caller.
#include "agent/progress/progress.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/progress/loopback.h"
#include "base/affinity.h"
#include "base/fail.h"
#include "base/time/clock.h"

enum {
  SHORT_NAP_NS = 100000, // a transport without a descriptor, something in flight
  LONG_NAP_NS = 1000000, // nothing in flight: messages may come
  LOOK_NS = 10000000,    // deadlines of transfers in flight
  WATCHES_AT_ONCE = 16,
  WATCHES_NS = 500000, // that they may take together
};

uint32_t agent_drive(weft_agent_t *agent) {
  uint32_t events = 0;
  for (uint32_t i = 0; i < agent->num_workers; i++)
    events += agent_drive_worker(&agent->workers[i]);
  return events;
}

// --- housekeeping ---

// Descriptors of transports, and `wake`, only wake the sleeping thread. Ready descriptors are handled one at a time,
// since each may remove others, and for a limited time; then the transfers get their turn.
static void serve_watches(weft_agent_t *agent) {
  uint64_t begun = clock_ns();
  struct epoll_event event;
  for (int i = 0; i < WATCHES_AT_ONCE && epoll_wait(agent->epoll, &event, 1, 0) == 1; i++) {
    struct agent_watch *watch = event.data.ptr;
    if (watch && watch != (void *)agent)
      watch->ready(watch);
    if (i + 1 == WATCHES_AT_ONCE || clock_ns() - begun > WATCHES_NS) {
      atomic_store(&agent->attention, true); // there may be more
      return;
    }
  }
}

static void housekeep(weft_agent_t *agent, uint64_t now_ns) {
  atomic_exchange(&agent->attention, false); // a read, too: stores of its writer before this one are visible below
  serve_watches(agent);
  atomic_store(&agent->housekeeping_ns, agent->hooks->tick(agent, now_ns));
}

void agent_housekeep_if_due(weft_agent_t *agent, uint64_t now_ns) {
  if (now_ns < atomic_load(&agent->housekeeping_ns) && !atomic_load(&agent->attention))
    return;
  if (pthread_mutex_trylock(&agent->housekeeping) != 0)
    return;
  housekeep(agent, now_ns);
  pthread_mutex_unlock(&agent->housekeeping);
}

int agent_watch_add(weft_agent_t *agent, struct agent_watch *watch) {
  struct epoll_event event = {.events = watch->events, .data.ptr = watch};
  if (epoll_ctl(agent->epoll, EPOLL_CTL_ADD, watch->fd, &event) != 0)
    return fail_errno(errno, "cannot watch a descriptor");
  return 0;
}

void agent_watch_remove(weft_agent_t *agent, struct agent_watch *watch) {
  pthread_mutex_lock(&agent->housekeeping);
  epoll_ctl(agent->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
  pthread_mutex_unlock(&agent->housekeeping);
}

void agent_wake(weft_agent_t *agent) {
  atomic_store(&agent->attention, true);
  if (!atomic_exchange(&agent->asleep, false))
    return;
  uint64_t one = 1;
  ssize_t written = write(agent->wake, &one, sizeof one);
  (void)written; // it is readable already
}

// --- sleep ---

// False: there is something to do. `*nap`: no longer than this, for transports that nothing wakes.
static bool arm_all(weft_agent_t *agent, uint64_t *nap) {
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    struct agent_worker *worker = &agent->workers[i];
    if (!agent_worker_trylock(worker))
      return false; // another thread is at it
    int rc = 0;
    if (worker->fd >= 0 && worker->transport->arm)
      rc = worker->transport->arm(worker->worker);
    agent_worker_unlock(worker);
    if (rc != 0)
      return false;
    bool busy = atomic_load(&agent->in_flight) > 0;
    bool receives = !(worker->worker->abilities.flags & TRANSPORT_SELF_ONLY);
    if (worker->fd < 0 && worker->transport != &agent_transport_self && (busy || receives))
      *nap = busy ? SHORT_NAP_NS : LONG_NAP_NS;
  }
  return true;
}

// A thread may have posted since the last housekeeping while this one was awake; that post may have a deadline.
static void mind_deadlines(weft_agent_t *agent) {
  if (atomic_load(&agent->in_flight) > 0 && atomic_load(&agent->housekeeping_ns) > clock_ns() + LOOK_NS)
    atomic_store(&agent->attention, true);
}

// First sets that it sleeps, then checks once more; a posting thread does both in the opposite order.
bool agent_fall_asleep(weft_agent_t *agent, uint64_t until_ns, uint64_t *left_ns) {
  uint64_t nap = CLOCK_NEVER;
  atomic_store(&agent->asleep, true);
  atomic_thread_fence(memory_order_seq_cst);
  mind_deadlines(agent);
  bool quiet =
      agent_drive(agent) == 0 && arm_all(agent, &nap) && !atomic_load(&agent->attention) && !atomic_load(&agent->stop);
  if (!quiet) {
    atomic_store(&agent->asleep, false);
    return false;
  }
  uint64_t due = atomic_load(&agent->housekeeping_ns), until = due < until_ns ? due : until_ns;
  uint64_t left = until == CLOCK_NEVER ? CLOCK_NEVER : clock_left_ns(until);
  *left_ns = left < nap ? left : nap;
  return true;
}

void agent_awake(weft_agent_t *agent, bool ready) {
  if (ready) {
    atomic_store(&agent->attention, true); // a watch may be ready
    uint64_t times; // no other thread reads it: the writer takes the sleeper for awake, and does not write again
    ssize_t got = read(agent->wake, &times, sizeof times);
    (void)got;
  }
  atomic_store(&agent->asleep, false);
}

void agent_sleep(weft_agent_t *agent, uint64_t until_ns) {
  uint64_t left_ns;
  if (!agent_fall_asleep(agent, until_ns, &left_ns))
    return;
  struct timespec time = clock_timespec(left_ns);
  struct pollfd fd = {.fd = agent->epoll, .events = POLLIN};
  agent_awake(agent, ppoll(&fd, 1, &time, NULL) > 0);
}

// --- the thread ---

// Near the only GPU that this process sees, if a transport serves it, else near the NICs, if one reaches other hosts.
// False: it does not matter where.
static bool find_near(weft_agent_t *agent, struct affinity_place *place) {
  const struct device_api *api;
  struct device_info info;
  char why[DEVICE_WHY];
  int count = 0;
  bool gpu = false, nic = affinity_asked();
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    gpu |= agent->workers[i].worker->abilities.local_kinds & 1u << WEFT_MEMORY_CUDA &&
           agent->workers[i].transport != &agent_transport_self;
    nic |= agent->workers[i].worker->abilities.flags & TRANSPORT_OTHER_HOSTS;
  }
  if (gpu && device_load(&api) == 0 && api->count(&count, why) == 0 && count == 1 && api->describe(0, &info, why) == 0)
    affinity_find(NULL, info.pci, place);
  else if (nic)
    affinity_find(NULL, NULL, place);
  else
    return false;
  return true;
}

static void *run(void *arg) {
  weft_agent_t *agent = arg;
  uint64_t spin_ns = agent->options.spin_us * UINT64_C(1000), busy_ns = clock_ns(), looked_ns = busy_ns;
  while (!atomic_load_explicit(&agent->stop, memory_order_relaxed)) {
    uint32_t events = agent_drive(agent);
    uint64_t now = clock_ns();
    if (now - looked_ns >= LOOK_NS) { // the descriptors, when no sleep looks at them
      atomic_store(&agent->attention, true);
      looked_ns = now;
    }
    agent_housekeep_if_due(agent, now);
    if (events > 0) {
      busy_ns = now;
    } else if (now - busy_ns < spin_ns) {
      sched_yield(); // to threads that want a worker's lock, or the processor
    } else {
      agent_sleep(agent, CLOCK_NEVER);
      looked_ns = clock_ns();
      if (atomic_load(&agent->attention)) // woken: there is more to come
        busy_ns = looked_ns;
    }
  }
  return NULL;
}

int agent_progress_add(weft_agent_t *agent, struct agent_worker *worker) {
  struct epoll_event ready = {.events = EPOLLIN, .data.ptr = NULL};
  worker->fd = worker->transport->fd ? worker->transport->fd(worker->worker) : -1;
  if (worker->fd >= 0 && epoll_ctl(agent->epoll, EPOLL_CTL_ADD, worker->fd, &ready) != 0)
    return fail_errno(errno, "cannot watch the descriptor of %s", worker->transport->name);
  return 0;
}

int agent_progress_open(weft_agent_t *agent) {
  agent->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (agent->epoll < 0)
    return fail_errno(errno, "cannot make an epoll descriptor");
  agent->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (agent->wake < 0)
    return fail_errno(errno, "cannot make an event descriptor");
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = agent};
  if (epoll_ctl(agent->epoll, EPOLL_CTL_ADD, agent->wake, &event) != 0)
    return fail_errno(errno, "cannot watch a descriptor");
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < agent->num_workers; i++)
    rc = agent_progress_add(agent, &agent->workers[i]);
  return rc;
}

int agent_progress_start(weft_agent_t *agent) {
  struct affinity_place place;
  bool is_near = find_near(agent, &place);
  int error = affinity_create(is_near ? &place : NULL, &agent->thread, run, agent);
  if (error != 0)
    return fail_thread(error, "the thread of an agent");
  agent->has_thread = true;
  return 0;
}

void agent_progress_stop(weft_agent_t *agent) {
  if (!agent->has_thread)
    return;
  atomic_store(&agent->stop, true);
  agent_wake(agent);
  pthread_join(agent->thread, NULL);
  agent->has_thread = false;
}

void agent_progress_close(weft_agent_t *agent) {
  if (agent->wake >= 0)
    close(agent->wake);
  if (agent->epoll >= 0)
    close(agent->epoll);
}

int weft_agent_progress(weft_agent_t *agent, uint32_t *events) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  uint32_t happened = agent_drive(agent);
  agent_housekeep_if_due(agent, clock_ns());
  if (events)
    *events = happened;
  return 0;
}
