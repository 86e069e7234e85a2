// How a rank sleeps until a peer has written something: a futex word in a page that its peers map.
//
// Only the owner's thread sleeps, and it has one bell for all events. A ringer first makes its change visible (a
// release store), then checks whether the owner sleeps. The owner first stores that it sleeps, then checks for changes.
// Both sides have a full fence between the two steps, so at least one of them sees the other's store, and no ring is
// missed.
#ifndef EP_CORE_DOORBELL_H
#define EP_CORE_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { EP_DOORBELL_SIZE = 4096 }; // one page

struct ep_doorbell {
  _Alignas(64) _Atomic uint32_t rings;
  _Atomic uint32_t sleeping;
  // When the owner last published that it waits for a peer (CLOCK_MONOTONIC). A peer that waits for this rank uses it
  // to distinguish a rank that waits from a rank that hangs.
  _Alignas(64) _Atomic uint64_t waiting_ns;
  // The robust futex that the rank's life thread holds (link/death_watch.h): 0 before and after.
  _Alignas(64) _Atomic uint32_t life;
};

// Wakes the owner if it sleeps. Call it after the store that the owner waits for. [any]
void ep_doorbell_ring(struct ep_doorbell *bell);

// How the owner sleeps: begin; check for the change once more; sleep until a ring, or `deadline_ns` (CLOCK_MONOTONIC)
// at the latest; end. Spurious wake-ups are possible.
uint32_t ep_doorbell_begin(struct ep_doorbell *bell);
void ep_doorbell_sleep(struct ep_doorbell *bell, uint32_t begun, uint64_t deadline_ns);
// Whether a sleep has begun and not ended. A wait inside another wait ends both.
bool ep_doorbell_begun(struct ep_doorbell *bell);
void ep_doorbell_end(struct ep_doorbell *bell);

#endif
