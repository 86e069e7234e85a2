// What the service thread watches: sockets in an epoll set, and a kick.
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fail.h"
#include "ep/core/engine.h"

int ep_service_watch_socket(weft_ep_t *ep, int socket, uint64_t tag) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = tag};
  int epoll = ep->links.epoll;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event) != 0 && // a caller that becomes a link is watched already
      (errno != EEXIST || epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event) != 0))
    return fail_errno(errno, "cannot watch a socket");
  return 0;
}

int ep_service_watch(weft_ep_t *ep, struct ep_link *link) {
  return ep_service_watch_socket(ep, link->socket, (uint64_t)(uintptr_t)link);
}

void ep_service_kick(weft_ep_t *ep) {
  uint64_t one = 1;
  ssize_t written = write(ep->links.wake, &one, sizeof one); // full means kicked already
  (void)written;
}
