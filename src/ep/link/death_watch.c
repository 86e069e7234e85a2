// The thread that holds this rank's robust futex and waits on those of all peers of this host.
#include "ep/link/death_watch.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/thread.h"
#include "ep/core/engine.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

// linux/futex.h has these from 5.16 on.
enum { WAIT_SIZE_U32 = 2, WAIT_PRIVATE = 128 };
struct wait {
  uint64_t value, address;
  uint32_t flags, reserved;
};

// The kernel's list of the futexes that this thread holds: one futex, which need not lie beside its entry.
struct robust {
  struct robust_list_head head;
  struct robust_list entry;
};

// If the kernel accepts no list, the word stays 0: otherwise it would never show that this process has died.
static void hold(struct robust *robust, _Atomic uint32_t *word) {
  robust->entry.next = &robust->head.list;
  robust->head =
      (struct robust_list_head){.list = {&robust->entry}, .futex_offset = (char *)word - (char *)&robust->entry};
  if (syscall(SYS_set_robust_list, &robust->head, sizeof robust->head) != 0)
    return;
  // Marked as waited on, so that the kernel wakes a waiter when the owner dies.
  atomic_store(word, (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS);
}

static void let_go(struct robust *robust, _Atomic uint32_t *word) {
  atomic_store(word, 0);
  robust->head.list.next = &robust->head.list;
}

static bool died(const struct ep_link *link) {
  return atomic_load(&ep_link_bell(link)->life) & FUTEX_OWNER_DIED;
}

bool ep_death_watch_alive(const struct ep_link *link) {
  uint32_t life = atomic_load(&ep_link_bell(link)->life);
  return life != 0 && !(life & FUTEX_OWNER_DIED);
}

// Returns a link that is up although its peer has died. It is held, so that no thread frees it. NULL: none.
static struct ep_link *take_dead(weft_ep_t *ep) {
  struct ep_link *found = NULL;
  pthread_mutex_lock(&ep->links.lock);
  for (uint32_t rank = 0; rank < ep->capacity && !found; rank++) {
    struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
    if (link && ep_link_up(link) && died(link))
      found = link;
  }
  if (found)
    found->holds++;
  pthread_mutex_unlock(&ep->links.lock);
  return found;
}

static void put_down(weft_ep_t *ep, struct ep_link *link) {
  // The kernel has woken only one of the waiters: wakes the others first.
  syscall(SYS_futex, &ep_link_bell(link)->life, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  bool left = atomic_load(&ep_link_in(link)->notice.left) != 0;
  ep_link_down(ep, link, left ? EP_LINK_LEFT : EP_LINK_DEAD, left ? "it left" : "its process was killed");
  pthread_mutex_lock(&ep->links.lock);
  link->holds--;
  pthread_mutex_unlock(&ep->links.lock);
  ep_service_kick(ep); // it may have been retired in between
}

// Collects the words to wait on: the kicks, and the futex of each living peer.
static uint32_t collect(weft_ep_t *ep, uint32_t kicks, struct wait *waits) {
  uint32_t count = 0;
  waits[count++] = (struct wait){kicks, (uintptr_t)&ep->death_watch.kicks, WAIT_SIZE_U32 | WAIT_PRIVATE, 0};
  pthread_mutex_lock(&ep->links.lock);
  for (uint32_t rank = 0; rank < ep->capacity && count <= DEATH_WATCH_PEERS; rank++) {
    struct ep_link *link = atomic_load(&ep->links.by_rank[rank]);
    if (!link || !ep_link_up(link))
      continue;
    uint32_t life = atomic_load(&ep_link_bell(link)->life);
    if (life != 0)
      waits[count++] = (struct wait){life, (uintptr_t)&ep_link_bell(link)->life, WAIT_SIZE_U32, 0};
  }
  pthread_mutex_unlock(&ep->links.lock);
  return count;
}

// Waits until a word has changed. A link may be unmapped meanwhile: the kernel identifies a futex by its page, and
// returns EFAULT if the page is unmapped.
static void wait_for_change(weft_ep_t *ep, const struct wait *waits, uint32_t count) {
  if (!ep->death_watch.single) {
    if (syscall(SYS_futex_waitv, waits, count, 0, NULL, 0) >= 0 || errno == EAGAIN || errno == EINTR || errno == EFAULT)
      return;
    ep->death_watch.single = errno == ENOSYS || errno == EPERM;
  }
  syscall(SYS_futex, &ep->death_watch.kicks, FUTEX_WAIT_PRIVATE, (uint32_t)waits[0].value, NULL, NULL, 0);
}

static void *run(void *arg) {
  weft_ep_t *ep = arg;
  struct robust robust;
  struct wait waits[1 + DEATH_WATCH_PEERS];
  hold(&robust, &ep_own_bell(ep)->life);
  sem_post(&ep->death_watch.held);
  for (;;) {
    uint32_t kicks = atomic_load(&ep->death_watch.kicks);
    if (atomic_load(&ep->death_watch.stop))
      break;
    uint32_t count = collect(ep, kicks, waits); // a word that changes after this ends the wait
    struct ep_link *dead = take_dead(ep);
    if (dead)
      put_down(ep, dead);
    else
      wait_for_change(ep, waits, count);
  }
  let_go(&robust, &ep_own_bell(ep)->life);
  return NULL;
}

int ep_death_watch_start(weft_ep_t *ep) {
  if (sem_init(&ep->death_watch.held, 0, 0) != 0)
    return fail_errno(errno, "cannot start the death watch");
  int error = thread_create(&ep->death_watch.thread, NULL, run, ep);
  if (error != 0) {
    sem_destroy(&ep->death_watch.held);
    return fail_thread(error, "the death watch");
  }
  ep->death_watch.running = true;
  while (sem_wait(&ep->death_watch.held) != 0) // posted by the thread's first steps, which nothing delays
    ;
  return 0;
}

void ep_death_watch_stop(weft_ep_t *ep) {
  if (!ep->death_watch.running)
    return;
  atomic_store(&ep->death_watch.stop, true);
  ep_death_watch_kick(ep);
  pthread_join(ep->death_watch.thread, NULL);
  sem_destroy(&ep->death_watch.held);
  ep->death_watch.running = false;
}

void ep_death_watch_kick(weft_ep_t *ep) {
  atomic_fetch_add(&ep->death_watch.kicks, 1);
  syscall(SYS_futex, &ep->death_watch.kicks, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
