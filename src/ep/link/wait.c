// Waits for a word that a peer writes.
#include "base/time/clock.h"
#include "ep/core/engine.h"

// A rank that waits sends a heartbeat in each interval of ep_heartbeat_ns(), and one when its wait ends. A peer without
// a heartbeat for HEARTBEATS_MISSED intervals counts as not waiting. That is half of the time limit of an operation: on
// a crowded machine a sleeper wakes late, and a peer that has just given up a third rank needs a moment until it waits
// for this one.
enum { HEARTBEATS_MISSED = 4 };

bool ep_link_waits(const weft_ep_t *ep, const struct ep_link *link) {
  uint64_t heartbeat_ns = atomic_load_explicit(&ep_link_bell(link)->waiting_ns, memory_order_relaxed);
  return ep_link_up(link) && heartbeat_ns + HEARTBEATS_MISSED * ep_heartbeat_ns(ep) > clock_ns();
}

enum ep_wait ep_wait_word(weft_ep_t *ep, struct ep_link *link, const _Atomic uint64_t *word, uint64_t value,
                          uint64_t deadline_ns, const char *what) {
  struct ep_pause pause = {.limited = true};
  enum ep_wait end = EP_WAIT_CAME;
  for (;;) {
    bool down = !ep_link_up(link); // before the word: what the peer wrote before it went down counts
    if (atomic_load_explicit(word, memory_order_acquire) >= value)
      break;
    if (down) {
      end = EP_WAIT_DOWN;
      break;
    }
    if (ep_pause(ep, &pause, deadline_ns))
      continue;
    if (pause.interrupted) {
      end = EP_WAIT_INTERRUPTED;
      break;
    }
    if (ep->interrupt.extensions++ < EP_EXTENSIONS && ep_link_waits(ep, link))
      deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
    else
      ep_link_down(ep, link, EP_LINK_SILENT, what);
  }
  link->wait_ns += ep_pause_end(ep, &pause);
  return end;
}
