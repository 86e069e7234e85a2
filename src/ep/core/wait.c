// How the owner waits: spin for a moment, then sleep on the doorbell.
#include "base/time/clock.h"
#include "ep/remote/remote_link.h"

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb"); // takes about as long as the other; "yield" takes no time at all
#endif
}

// A sleeper wakes so often in an operation's time limit, to say that it still waits, and says so when its wait ends.
// Whoever has not said so in SIGNS_MISSED of these times does not wait: half of the time limit, for on a crowded
// machine a sleeper wakes late, and one that has just given up a third rank needs a moment until it comes to this one.
enum { SIGNS_MISSED = 4 };

enum { ROUNDS_PER_DRIVE = 8 }; // where there are peers on other hosts: a look at the network takes longer

static uint64_t sign_ns(const weft_ep_t *ep) {
  return (uint64_t)ep->op_timeout_ms * 1000000u / EP_SIGNS;
}

// Looks at the clock. Time in which this rank did not look, because it was stopped, is none in which its peers were
// silent: it does not count. Such a rank finds its peers' rows, or that they have let go of it, before a deadline
// passes.
static uint64_t look_at_clock(weft_ep_t *ep, struct ep_pause *pause) {
  uint64_t now = clock_ns(), gap = now - pause->looked_ns;
  if (gap > 2 * sign_ns(ep)) // a sleep lasts one at most
    pause->absent_ns += gap;
  pause->looked_ns = now;
  return now;
}

// Sleeps until rung, the deadline, or the time for the next sign of life.
static void sleep_on_bell(weft_ep_t *ep, uint32_t begun, uint64_t now_ns, uint64_t deadline_ns) {
  uint64_t next = now_ns + sign_ns(ep);
  atomic_store_explicit(&ep_own_bell(ep)->waiting_ns, now_ns, memory_order_relaxed);
  ep_remote_sign(ep, now_ns);
  struct ep_net *net = atomic_load_explicit(&ep->net, memory_order_acquire);
  if (net)
    ep_net_hand_over(net);
  ep_doorbell_sleep(ep_own_bell(ep), begun, next < deadline_ns ? next : deadline_ns);
}

bool ep_link_waits(const weft_ep_t *ep, const struct ep_link *link) {
  uint64_t sign = atomic_load_explicit(&ep_link_bell(link)->waiting_ns, memory_order_relaxed);
  return ep_link_up(link) && sign + SIGNS_MISSED * sign_ns(ep) > clock_ns();
}

bool ep_pause(weft_ep_t *ep, struct ep_pause *pause, uint64_t deadline_ns) {
  if (pause->since_ns == 0) {
    pause->since_ns = pause->looked_ns = clock_ns();
    if (pause->since_ns >= deadline_ns) // it came late itself: a moment for those who did too
      pause->absent_ns = pause->since_ns - deadline_ns + sign_ns(ep);
  }
  if (pause->rounds < ep->spins) {
    pause->rounds++;
    relax();
    struct ep_net *net = atomic_load_explicit(&ep->net, memory_order_acquire);
    if (net && pause->rounds % ROUNDS_PER_DRIVE == 0)
      ep_net_drive_once(net);
    return true;
  }
  uint64_t now_ns = look_at_clock(ep, pause);
  if (pause->armed && now_ns - pause->absent_ns >= deadline_ns) {
    pause->absent_ns = 0; // the next deadline is set now
    return false;
  }
  if (!pause->armed || !ep_doorbell_begun(ep_own_bell(ep))) {
    pause->begun = ep_doorbell_begin(ep_own_bell(ep));
    pause->armed = true;
    return true; // the caller looks once more before we sleep
  }
  sleep_on_bell(ep, pause->begun, now_ns, deadline_ns + pause->absent_ns);
  pause->begun = ep_doorbell_begin(ep_own_bell(ep));
  return true;
}

uint64_t ep_pause_end(weft_ep_t *ep, struct ep_pause *pause) {
  uint64_t now_ns = pause->since_ns ? clock_ns() : 0, waited = now_ns - pause->since_ns;
  if (pause->armed) {
    atomic_store_explicit(&ep_own_bell(ep)->waiting_ns, now_ns, memory_order_relaxed);
    ep_doorbell_end(ep_own_bell(ep));
  }
  if (pause->since_ns)
    ep_remote_hand_over(ep);
  ep->stats.wait_ns += waited;
  *pause = (struct ep_pause){0};
  return waited;
}

bool ep_wait_word(weft_ep_t *ep, struct ep_link *link, const _Atomic uint64_t *word, uint64_t value,
                  uint64_t deadline_ns, const char *what) {
  struct ep_pause pause = {0};
  bool up = true;
  uint32_t extensions = 0;
  for (;;) {
    bool down = !ep_link_up(link); // before the word: what the peer wrote before it went down counts
    if (atomic_load_explicit(word, memory_order_acquire) >= value)
      break;
    if (down) {
      up = false;
      break;
    }
    if (ep_pause(ep, &pause, deadline_ns))
      continue;
    if (extensions++ < EP_EXTENSIONS && ep_link_waits(ep, link))
      deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
    else
      ep_link_down(ep, link, EP_LINK_SILENT, what);
  }
  link->wait_ns += ep_pause_end(ep, &pause);
  return up;
}
