// How the owner waits: spin for a moment, then sleep on the doorbell.
#include "ep/core/wait.h"

#include "base/time/clock.h"
#include "ep/core/engine.h"

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb"); // takes about as long as x86's "pause"; "yield" takes no time at all
#endif
}

enum { ROUNDS_PER_DRIVE = 8 }; // with peers on other hosts: driving the network takes longer than a check

uint64_t ep_heartbeat_ns(const weft_ep_t *ep) {
  return (uint64_t)ep->op_timeout_ms * 1000000u / EP_HEARTBEATS;
}

// Reads the clock. Time in which this rank itself was stopped does not count as silence of its peers. So a rank that
// was stopped finds its peers' rows, or that they have removed it, before a deadline passes.
static uint64_t look_at_clock(weft_ep_t *ep, struct ep_pause *pause) {
  uint64_t now = clock_ns(), gap = now - pause->looked_ns;
  if (gap > 2 * ep_heartbeat_ns(ep)) // a sleep lasts at most one interval
    pause->absent_ns += gap;
  pause->looked_ns = now;
  return now;
}

// Sleeps until rung, the deadline, or the time for the next heartbeat.
static void sleep_on_bell(weft_ep_t *ep, uint32_t begun, uint64_t now_ns, uint64_t deadline_ns) {
  uint64_t next = now_ns + ep_heartbeat_ns(ep);
  atomic_store_explicit(&ep_own_bell(ep)->waiting_ns, now_ns, memory_order_relaxed);
  const struct ep_background *background = atomic_load_explicit(&ep->background, memory_order_acquire);
  if (background) {
    background->heartbeat(ep, now_ns);
    background->hand_over(ep);
  }
  ep_doorbell_sleep(ep_own_bell(ep), begun, next < deadline_ns ? next : deadline_ns);
}

// The time that earlier attempts at an interrupted call have waited: the deadline is earlier by so much. Otherwise a
// caller that interrupts its waits often, to look for signals, would never see the time limit pass.
static uint64_t waited_before(const weft_ep_t *ep, const struct ep_pause *pause) {
  return pause->limited ? ep->interrupt.waited_ns : 0;
}

static void note_attempt(weft_ep_t *ep, const struct ep_pause *pause, uint64_t now_ns) {
  uint64_t waited_ns = now_ns - pause->limit_ns;
  if (!pause->interrupted)
    ep_interrupt_forget(ep);
  else if (waited_ns > pause->absent_ns)
    ep->interrupt.waited_ns += waited_ns - pause->absent_ns;
}

bool ep_pause(weft_ep_t *ep, struct ep_pause *pause, uint64_t deadline_ns) {
  if (pause->since_ns == 0) {
    pause->since_ns = pause->limit_ns = pause->looked_ns = clock_ns();
    if (pause->since_ns >= deadline_ns) // this rank itself was late: gives others that were late a moment
      pause->absent_ns = pause->since_ns - deadline_ns + ep_heartbeat_ns(ep);
  }
  if (pause->rounds < ep->spins) {
    pause->rounds++;
    relax();
    const struct ep_background *background = atomic_load_explicit(&ep->background, memory_order_acquire);
    if (background && pause->rounds % ROUNDS_PER_DRIVE == 0)
      background->drive(ep);
    return true;
  }
  if (!pause->steady && ep_interrupted(ep)) {
    pause->interrupted = true;
    return false;
  }
  uint64_t now_ns = look_at_clock(ep, pause), waited_ns = waited_before(ep, pause);
  if (pause->armed && now_ns - pause->absent_ns + waited_ns >= deadline_ns) {
    pause->absent_ns = 0; // the next deadline is set now
    pause->limit_ns = now_ns;
    if (pause->limited)
      ep->interrupt.waited_ns = 0;
    return false;
  }
  if (!pause->armed || !ep_doorbell_begun(ep_own_bell(ep))) {
    pause->begun = ep_doorbell_begin(ep_own_bell(ep));
    pause->armed = true;
    return true; // the caller checks once more before we sleep
  }
  // A caller without a deadline gives UINT64_MAX.
  sleep_on_bell(ep, pause->begun, now_ns,
                deadline_ns < UINT64_MAX - pause->absent_ns ? deadline_ns + pause->absent_ns - waited_ns : UINT64_MAX);
  pause->begun = ep_doorbell_begin(ep_own_bell(ep));
  return true;
}

void ep_hand_over(weft_ep_t *ep) {
  const struct ep_background *background = atomic_load_explicit(&ep->background, memory_order_acquire);
  if (background && !ep->holds)
    background->hand_over(ep);
}

uint64_t ep_pause_end(weft_ep_t *ep, struct ep_pause *pause) {
  uint64_t now_ns = pause->since_ns ? clock_ns() : 0, waited = now_ns - pause->since_ns;
  if (pause->armed) {
    atomic_store_explicit(&ep_own_bell(ep)->waiting_ns, now_ns, memory_order_relaxed);
    ep_doorbell_end(ep_own_bell(ep));
  }
  if (pause->since_ns && pause->limited)
    note_attempt(ep, pause, now_ns);
  if (pause->since_ns)
    ep_hand_over(ep);
  ep->stats.wait_ns += waited;
  *pause = (struct ep_pause){0};
  return waited;
}
