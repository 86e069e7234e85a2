// Interrupts a wait of the owner, from another thread or from a handler of a signal.
//
// A handler may only store atomic words and make system calls. So a ring ends the owner's sleep on its doorbell, a
// descriptor ends its polls, and the service thread, which is kicked, ends its waits on condition variables.
#include <errno.h>
#include <unistd.h>

#include "ep/core/engine.h"

void weft_ep_interrupt(weft_ep_t *ep) {
  int error = errno;
  uint64_t one = 1;
  if (!ep)
    return;
  atomic_store(&ep->interrupt.asked, true);
  (void)!write(ep->interrupt.fd, &one, sizeof one);
  ep_doorbell_ring(ep_own_bell(ep));
  ep_service_kick(ep);
  errno = error;
}
