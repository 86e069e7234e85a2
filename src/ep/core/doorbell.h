// How a rank sleeps until a peer has written something: a futex word in a page that its peers map.
//
// Only the owner's thread sleeps, on one bell for everything. A ringer first makes its change visible (a release
// store), then looks whether anybody sleeps; the sleeper first says that it sleeps, then looks for changes. With a full
// fence between the two steps on both sides one of them sees the other, so no ring is missed.
#ifndef EP_CORE_DOORBELL_H
#define EP_CORE_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { EP_DOORBELL_SIZE = 4096 }; // one page

struct ep_doorbell {
  _Alignas(64) _Atomic uint32_t rings;
  _Atomic uint32_t sleeping;
  // When the owner last published that it waits for a peer (CLOCK_MONOTONIC): a peer that waits for it in turn can
  // tell it from a rank that hangs.
  _Alignas(64) _Atomic uint64_t waiting_ns;
  // The robust futex that the rank's life thread holds (link/death_watch.h): 0 before and after.
  _Alignas(64) _Atomic uint32_t life;
};

// Wakes the owner if it sleeps. Call it after the store that it waits for. [any]
void ep_doorbell_ring(struct ep_doorbell *bell);

// The owner's sleep: begin, look for the change once more, then sleep until rung or `deadline_ns` (CLOCK_MONOTONIC) at
// most, then end. It may wake for nothing.
uint32_t ep_doorbell_begin(struct ep_doorbell *bell);
void ep_doorbell_sleep(struct ep_doorbell *bell, uint32_t begun, uint64_t deadline_ns);
// Whether a sleep has begun and not ended: a wait inside another one ends both.
bool ep_doorbell_begun(struct ep_doorbell *bell);
void ep_doorbell_end(struct ep_doorbell *bell);

#endif
