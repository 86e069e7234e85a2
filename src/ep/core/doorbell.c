// Rings and sleeps on a futex in a page that peers map.
#include "ep/core/doorbell.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/time/clock.h"

void ep_doorbell_ring(struct ep_doorbell *bell) {
  atomic_thread_fence(memory_order_seq_cst);
  if (!atomic_load_explicit(&bell->sleeping, memory_order_relaxed))
    return;
  atomic_fetch_add(&bell->rings, 1);
  syscall(SYS_futex, &bell->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t ep_doorbell_begin(struct ep_doorbell *bell) {
  uint32_t rings = atomic_load(&bell->rings);
  atomic_store(&bell->sleeping, 1);
  atomic_thread_fence(memory_order_seq_cst);
  return rings;
}

void ep_doorbell_sleep(struct ep_doorbell *bell, uint32_t begun, uint64_t deadline_ns) {
  struct timespec until = clock_timespec(deadline_ns);
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC.
  syscall(SYS_futex, &bell->rings, FUTEX_WAIT_BITSET, begun, &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

bool ep_doorbell_begun(struct ep_doorbell *bell) {
  return atomic_load_explicit(&bell->sleeping, memory_order_relaxed) != 0;
}

void ep_doorbell_end(struct ep_doorbell *bell) {
  atomic_store_explicit(&bell->sleeping, 0, memory_order_relaxed);
}
