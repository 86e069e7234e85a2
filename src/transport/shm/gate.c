// Gates: a region is closed to peers when it is deregistered.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "transport/shm/shm.h"

int shm_gate_take(struct shm_worker *worker, uint32_t *gate) {
  for (uint32_t i = 0; i < SHM_REGIONS; i++) {
    uint32_t index = (worker->next_gate + i) % SHM_REGIONS;
    if ((worker->taken[index / 32] & (1u << index % 32)) == 0) {
      worker->taken[index / 32] |= 1u << index % 32;
      worker->next_gate = index + 1;
      *gate = index;
      return 0;
    }
  }
  return fail(WEFT_ERR_LIMIT, "shared memory takes %u regions at a time", (unsigned)SHM_REGIONS);
}

void shm_gate_give(struct shm_worker *worker, uint32_t index) {
  worker->taken[index / 32] &= ~(1u << index % 32);
}

uint64_t shm_gate_open(struct shm_worker *worker, uint32_t index) {
  uint64_t id = worker->next_id++;
  atomic_store(&worker->page->gates[index].id, id);
  return id;
}

bool shm_gate_fenced(const struct shm_peer *peer) {
  return atomic_load(&peer->slot->fenced) != 0;
}

bool shm_gate_enter(const struct shm_peer *peer, const struct shm_remote *remote, uint32_t *place) {
  static _Thread_local char thread; // its address spreads the threads over the places
  // After the gate is closed no thread takes an entry, so the owner does not wait for threads that only check.
  if (atomic_load_explicit(&remote->gate->id, memory_order_acquire) != remote->id)
    return false; // and who closed it had marked the page before, if it closes altogether
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
  if (atomic_load(&remote->gate->id) == remote->id && !shm_gate_fenced(peer))
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

// kill() finds a process until it is reaped; the pidfd of a peer shows that it has died.
static bool is_dead(const struct shm_worker *worker, pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH)
    return true;
  for (const struct shm_peer *peer = worker->peers; peer; peer = peer->next)
    if (peer->pid == pid && peer->pidfd >= 0)
      return !shm_proc_alive(peer->pidfd);
  return false;
}

// Not by the pid in the slot: its sender could write this process's number there.
static bool is_ours(const struct shm_home *home, uint32_t slot) {
  return (atomic_load(&home->ours[slot / 64]) & UINT64_C(1) << slot % 64) != 0;
}

// How long to wait for the threads that are inside by that slot; 0: there are none.
static uint32_t wait_limit_ms(const struct shm_worker *worker, uint32_t at, uint32_t index) {
  const struct shm_slot *slot = &worker->page->slots[at];
  uint64_t owner = atomic_load(&slot->owner);
  pid_t pid = (pid_t)(owner >> 32);
  if (owner == 0)
    return 0;
  for (uint32_t i = 0; i < SHM_INSIDE; i++)
    if (atomic_load(&slot->inside[i]) == index + 1)
      return is_ours(worker->home, at) ? SHM_FENCE_OWN_MS : is_dead(worker, pid) ? 0 : SHM_FENCE_MS;
  return 0;
}

// The longest such time of all slots.
static uint32_t longest_ms(const struct shm_worker *worker, uint32_t index) {
  uint32_t slots = atomic_load(&worker->page->slots_used);
  uint32_t longest = atomic_load(&worker->page->gates[index].users) > 0 ? SHM_FENCE_MS : 0;
  for (uint32_t i = 0; i < slots && i < SHM_SLOTS; i++) {
    uint32_t wait_limit = wait_limit_ms(worker, i, index);
    longest = wait_limit > longest ? wait_limit : longest;
  }
  return longest;
}

bool shm_gate_close(struct shm_worker *worker, uint32_t index) {
  atomic_store(&worker->page->gates[index].id, 0);
  uint64_t begun_ns = clock_ns();
  for (uint32_t wait_limit; (wait_limit = longest_ms(worker, index)) > 0;) {
    if (clock_ns() - begun_ns >= wait_limit * UINT64_C(1000000))
      return false;
    sched_yield();
  }
  return true;
}

static bool is_inside(const struct shm_slot *slot) {
  for (uint32_t i = 0; i < SHM_INSIDE; i++)
    if (atomic_load(&slot->inside[i]) != 0)
      return true;
  return false;
}

// Threads that are only counted may be of any sender.
static bool is_any_inside(const struct shm_worker *worker) {
  for (const struct shm_region *region = worker->regions; region; region = region->next)
    if (atomic_load(&worker->page->gates[region->gate].users) > 0)
      return true;
  return false;
}

// Fences the slots that the worker has now. Slots that it takes later belong to a new connection, which is allowed.
static void fence_slots(struct shm_worker *worker, uint64_t sender) {
  uint32_t slots = atomic_load(&worker->page->slots_used);
  for (uint32_t i = 0; i < slots && i < SHM_SLOTS; i++) {
    struct shm_slot *slot = &worker->page->slots[i];
    if (atomic_load(&slot->state) == SHM_SLOT_READY && slot->sender == sender)
      atomic_store(&slot->fenced, 1);
  }
}

// Whether the worker is inside at any gate by a fenced slot.
static bool is_fenced_inside(const struct shm_worker *worker, uint64_t sender) {
  uint32_t slots = atomic_load(&worker->page->slots_used);
  for (uint32_t i = 0; i < slots && i < SHM_SLOTS; i++) {
    const struct shm_slot *slot = &worker->page->slots[i];
    if (atomic_load(&slot->state) == SHM_SLOT_READY && slot->sender == sender && atomic_load(&slot->fenced) &&
        is_inside(slot))
      return true;
  }
  return is_any_inside(worker);
}

void shm_fence(struct transport_peer *base) {
  struct shm_peer *peer = (struct shm_peer *)base;
  uint64_t deadline = clock_deadline_ms(SHM_FENCE_MS);
  fence_slots(peer->worker, peer->cookie);
  while (is_fenced_inside(peer->worker, peer->cookie)) {
    if (is_dead(peer->worker, peer->pid))
      return;
    if (clock_passed(deadline)) {
      log_warn("process %d is lost, but was stopped in a transfer: when it continues it may still change up to %d MiB",
               (int)peer->pid, SHM_STRETCH >> 20);
      return;
    }
    sched_yield();
  }
}
