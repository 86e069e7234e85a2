// Waits for a word that a peer writes.
#include "base/time/clock.h"
#include "ep/core/engine.h"

// A sleeper wakes so often in an operation's time limit, to say that it still waits, and says so when its wait ends.
// A peer that sent no sign in SIGNS_MISSED of these times does not wait: half of the time limit, for on a crowded
// machine a sleeper wakes late, and one that has just given up a third rank needs a moment until it comes to this one.
enum { SIGNS_MISSED = 4 };

bool ep_link_waits(const weft_ep_t *ep, const struct ep_link *link) {
  uint64_t sign = atomic_load_explicit(&ep_link_bell(link)->waiting_ns, memory_order_relaxed);
  return ep_link_up(link) && sign + SIGNS_MISSED * ep_sign_ns(ep) > clock_ns();
}

enum ep_wait ep_wait_word(weft_ep_t *ep, struct ep_link *link, const _Atomic uint64_t *word, uint64_t value,
                          uint64_t deadline_ns, const char *what) {
  struct ep_pause pause = {0};
  enum ep_wait end = EP_WAIT_CAME;
  uint32_t extensions = 0;
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
    if (extensions++ < EP_EXTENSIONS && ep_link_waits(ep, link))
      deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
    else
      ep_link_down(ep, link, EP_LINK_SILENT, what);
  }
  link->wait_ns += ep_pause_end(ep, &pause);
  return end;
}
