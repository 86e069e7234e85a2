// The flag of weft_ep_interrupt(), as the owner's waits check it.
#include "ep/core/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "ep/core/engine.h"

int ep_interrupt_open(struct ep_interrupt *interrupt) {
  interrupt->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return interrupt->fd < 0 ? fail_errno(errno, "no descriptor for weft_ep_interrupt") : 0;
}

void ep_interrupt_close(struct ep_interrupt *interrupt) {
  if (interrupt->fd >= 0)
    close(interrupt->fd);
}

static void drain(weft_ep_t *ep) {
  uint64_t drained;
  (void)!read(ep->interrupt.fd, &drained, sizeof drained);
}

// Drains the descriptor first: an interrupt that makes it readable after that has set the flag before.
bool ep_interrupted(weft_ep_t *ep) {
  if (!atomic_load_explicit(&ep->interrupt.asked, memory_order_relaxed))
    return false;
  drain(ep);
  return atomic_exchange(&ep->interrupt.asked, false);
}

int ep_canceled(const char *what) {
  return fail(WEFT_ERR_CANCELED, "%s: weft_ep_interrupt has ended the wait", what);
}

void ep_interrupt_forget(weft_ep_t *ep) {
  ep->interrupt.waited_ns = ep->interrupt.extensions = 0;
}

int ep_interrupt_settle(weft_ep_t *ep, int rc) {
  if (rc != WEFT_ERR_CANCELED)
    ep_interrupt_forget(ep);
  return rc;
}

int ep_interrupt_poll(weft_ep_t *ep, int socket, short events, uint64_t deadline_ns) {
  struct pollfd entries[] = {{.fd = socket, .events = events}, {.fd = ep->interrupt.fd, .events = POLLIN}};
  for (;;) {
    if (ep_interrupted(ep))
      return ep_canceled("connect");
    int n = poll(entries, 2, clock_left_ms(deadline_ns));
    if (n < 0 && errno != EINTR)
      return n;
    if (n > 0 && entries[0].revents != 0)
      return 1;
    if (n > 0) // from an interrupt that was handled already, or the flag is set now
      drain(ep);
    if (n <= 0 && clock_passed(deadline_ns))
      return 0;
  }
}
