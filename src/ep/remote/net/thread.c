// The net thread: it drives the transport while the owner does something else, and sleeps while there is nothing to do.
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/affinity.h"
#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/core/engine.h"
#include "ep/remote/net/lock.h"

enum {
  IDLE_ROUNDS = 16,    // without events, before the thread sleeps; twice as many while the transport is busy
  NAP_NS = 1000000,    // how long it sleeps if the transport has no descriptor, or while the owner drives
  BUSY_NAP_NS = 50000, // the same if the transport has work that it cannot do yet
};

enum armed {
  ARMED, // there is no work; the transport's descriptor becomes readable when there is
  BUSY,  // there is work, but it cannot be done now
  AWAKE, // something happened, or another thread drives
};

// Prepares to sleep. `*fd` is the descriptor that will become readable; -1: there is none.
static enum armed arm(struct ep_net *net, int *fd) {
  *fd = -1;
  if (!ep_net_try_lock(net))
    return AWAKE;
  atomic_store(&net->asleep, true); // before the check: posts after it come with a kick
  enum armed armed = ep_net_progress(net) == 0 ? ARMED : AWAKE;
  if (armed == ARMED && net->worker)
    *fd = net->transport->fd(net->worker);
  if (*fd >= 0 && net->transport->arm && net->transport->arm(net->worker) != 0) {
    armed = BUSY;
    *fd = -1;
  }
  uint64_t posts = net->num_posts;
  ep_net_empty_queue(net); // nothing may be posted after arming
  if (net->num_posts != posts)
    armed = AWAKE;
  if (armed == AWAKE)
    atomic_store(&net->asleep, false);
  ep_net_leave(net);
  return armed;
}

// Sleeps until `fd` or a kick wakes it, for `nap_ns` at most; 0: for any time, but NAP_NS without a descriptor (-1).
static void sleep_until_news(struct ep_net *net, int fd, uint64_t nap_ns) {
  struct pollfd entries[] = {{.fd = net->kick, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
  if (nap_ns == 0 && fd < 0)
    nap_ns = NAP_NS;
  struct timespec nap = clock_timespec(nap_ns);
  ppoll(entries, 2, nap_ns ? &nap : NULL, NULL);
  atomic_store(&net->asleep, false);
  uint64_t drained;
  if (entries[0].revents)
    (void)!read(net->kick, &drained, sizeof drained);
}

// One round; true if something happened.
static bool drive(struct ep_net *net) {
  if (atomic_load(&net->wanted) || !ep_net_try_lock(net)) {
    sched_yield();
    return false;
  }
  uint32_t news = ep_net_progress(net);
  if (net->ep->engine->poll)
    news += net->ep->engine->poll(net);
  ep_net_leave(net);
  return news > 0;
}

// Sleeps after `idle` rounds without events, if there is no work. True: the count of rounds starts again. On CUDA
// memory, where kernels wake no thread, the sleep is longer the more time has passed since the last event at `last_ns`.
static bool rest(struct ep_net *net, uint32_t idle, uint64_t last_ns) {
  bool polls = net->ep->engine->poll != NULL;
  uint64_t nap_ns = net->ep->engine->nap_ns(last_ns);
  if (polls && nap_ns == 0) {
    sched_yield();
    return false;
  }
  int fd;
  enum armed armed = arm(net, &fd);
  if (armed == AWAKE || (armed == BUSY && idle < 2 * IDLE_ROUNDS))
    return false;
  sleep_until_news(net, fd, armed == BUSY ? BUSY_NAP_NS : nap_ns);
  return armed == ARMED && !polls;
}

static void *run(void *arg) {
  struct ep_net *net = arg;
  uint32_t idle = 0;
  uint64_t last_ns = 0; // time of the last event, on CUDA memory
  while (!atomic_load(&net->stop)) {
    if (atomic_load(&net->driving) && net->ep->engine->owner_drives) {
      atomic_store(&net->asleep, true);
      if (atomic_load(&net->driving))
        sleep_until_news(net, -1, 0);
      idle = IDLE_ROUNDS; // the owner has just checked
      continue;
    }
    if (drive(net)) {
      idle = 0;
      last_ns = net->ep->engine->poll ? clock_ns() : 0;
    } else if (++idle > IDLE_ROUNDS && rest(net, idle, last_ns)) {
      idle = 0;
    }
  }
  return NULL;
}

int ep_net_thread_start(struct ep_net *net) {
  net->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (net->kick < 0)
    return fail_errno(errno, "cannot start the net thread");
  struct affinity_place place; // near the GPU whose windows the thread carries, or near the NICs
  affinity_find(NULL, net->ep->pci, &place);
  int error = affinity_create(&place, &net->thread, run, net);
  if (error != 0)
    return fail_thread(error, "the net thread");
  net->running = true;
  return 0;
}

void ep_net_thread_stop(struct ep_net *net) {
  if (!net->running)
    return;
  atomic_store(&net->stop, true);
  atomic_store(&net->driving, false);
  atomic_store(&net->asleep, true);
  ep_net_wake(net);
  pthread_join(net->thread, NULL);
  net->running = false;
}
