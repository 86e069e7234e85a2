#include <errno.h>
#include <sched.h>
#include <signal.h>

#include "base/clock.h"
#include "transport/shm/shm.h"

bool shm_gate_enter(const struct shm_peer *peer, const struct shm_remote *remote, uint32_t *place) {
  static _Thread_local char thread; // its address spreads the threads
  // Once it is closed nobody new comes even near, so that its owner need not wait for those who only look.
  if (atomic_load_explicit(&remote->gate->id, memory_order_relaxed) != remote->id)
    return false;
  uint32_t first = (uint32_t)((uintptr_t)&thread >> 12), i = 0;
  for (; i < SHM_INSIDE; i++) {
    uint32_t none = 0;
    *place = (first + i) % SHM_INSIDE;
    if (atomic_compare_exchange_strong(&peer->slot->inside[*place], &none, remote->gate_index + 1))
      break;
  }
  if (i == SHM_INSIDE) {
    *place = SHM_INSIDE;
    atomic_fetch_add(&remote->gate->users, 1);
  }
  if (atomic_load(&remote->gate->id) == remote->id)
    return true;
  shm_gate_leave(peer, remote, *place);
  return false;
}

void shm_gate_leave(const struct shm_peer *peer, const struct shm_remote *remote, uint32_t place) {
  if (place < SHM_INSIDE)
    atomic_store_explicit(&peer->slot->inside[place], 0, memory_order_release);
  else
    atomic_fetch_sub(&remote->gate->users, 1);
}

// A process that nobody has reaped yet is there for kill(), but a peer's pidfd knows.
static bool is_dead(const struct shm_worker *worker, pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH)
    return true;
  for (const struct shm_peer *peer = worker->peers; peer; peer = peer->next)
    if (peer->pid == pid && peer->pidfd >= 0)
      return !shm_road_alive(peer->pidfd);
  return false;
}

static bool is_inside(const struct shm_worker *worker, const struct shm_slot *slot, uint32_t index) {
  uint64_t owner = atomic_load(&slot->owner);
  if (owner == 0)
    return false;
  for (uint32_t i = 0; i < SHM_INSIDE; i++)
    if (atomic_load(&slot->inside[i]) == index + 1)
      return !is_dead(worker, (pid_t)(owner >> 32));
  return false;
}

static bool is_empty(const struct shm_worker *worker, uint32_t index) {
  uint32_t slots = atomic_load(&worker->page->slots_used);
  for (uint32_t i = 0; i < slots && i < SHM_SLOTS; i++)
    if (is_inside(worker, &worker->page->slots[i], index))
      return false;
  return atomic_load(&worker->page->gates[index].users) == 0;
}

bool shm_gate_close(struct shm_worker *worker, uint32_t index) {
  atomic_store(&worker->page->gates[index].id, 0);
  uint64_t deadline_ns = clock_deadline_ms(SHM_FENCE_MS);
  while (!is_empty(worker, index)) {
    if (clock_passed(deadline_ns))
      return false;
    sched_yield();
  }
  return true;
}
