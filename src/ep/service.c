// The service thread: takes calls, hears hang-ups, frees retired links. It never waits for one peer.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "ep/engine.h"

enum {
  CALLERS = 64,            // that have connected and not yet greeted
  GREETING_TIME_MS = 5000, // for them to do so
  MUTE_MS = 100,           // without a look at the listener, when a call cannot be taken
  TAG_LISTENER = 1,        // epoll data: a tag, or a link's address (aligned: its low bits are 0)
  TAG_WAKE = 2,
  TAG_CALLER = 3, // and the socket above it
  TAG_BITS = 3,
};

struct callers {
  struct {
    int socket;
    uint64_t deadline_ns;
  } entry[CALLERS];
  int count;
  uint64_t muted_until_ns; // 0: the listener is looked at
};

int ep_host_name(char *out, size_t cap) {
  char boot[64] = "";
  int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t size = file >= 0 ? read(file, boot, sizeof boot - 1) : -1;
  int error = errno;
  if (file >= 0)
    close(file);
  if (size < 0)
    return fail_errno(error, "cannot tell which host this is from /proc/sys/kernel/random/boot_id");
  boot[strcspn(boot, "\n")] = '\0';
  struct stat network;
  if (stat("/proc/self/ns/net", &network) != 0)
    return fail_errno(errno, "cannot tell the network namespace from /proc/self/ns/net");
  snprintf(out, cap, "%s-%llu", boot, (unsigned long long)network.st_ino);
  return 0;
}

static int add(int epoll, int fd, uint64_t tag) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = tag};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
    return fail_errno(errno, "cannot watch a socket");
  return 0;
}

// Looks at the listener, or not: calls that it cannot take yet would wake the thread at once, again and again. They
// wait in the listener's queue.
static void look_at_listener(struct ep_links *links, bool look) {
  struct epoll_event event = {.events = look ? EPOLLIN : 0, .data.u64 = TAG_LISTENER};
  epoll_ctl(links->epoll, EPOLL_CTL_MOD, links->listener, &event);
}

int ep_service_watch(weft_ep_t *ep, struct ep_link *link) {
  return add(ep->links.epoll, link->socket, (uint64_t)(uintptr_t)link);
}

void ep_service_kick(weft_ep_t *ep) {
  uint64_t one = 1;
  ssize_t written = write(ep->links.wake, &one, sizeof one); // full means kicked already
  (void)written;
}

static void drop_caller(weft_ep_t *ep, struct callers *callers, int i) {
  if (callers->count == CALLERS && callers->muted_until_ns == 0)
    look_at_listener(&ep->links, true);
  callers->entry[i] = callers->entry[--callers->count];
}

static void take_calls(weft_ep_t *ep, struct callers *callers) {
  while (callers->count < CALLERS) {
    int socket = accept4(ep->links.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        log_warn("rank %d cannot take a call now: %s%s", ep->rank, strerror(errno),
                 errno == EMFILE ? " (see ulimit -n)" : "");
        callers->muted_until_ns = clock_deadline_ms(MUTE_MS);
        look_at_listener(&ep->links, false);
      }
      return;
    }
    if (add(ep->links.epoll, socket, ((uint64_t)socket << TAG_BITS) | TAG_CALLER) != 0) {
      close(socket);
      continue;
    }
    callers->entry[callers->count].socket = socket;
    callers->entry[callers->count++].deadline_ns = clock_deadline_ms(GREETING_TIME_MS);
  }
  look_at_listener(&ep->links, false);
}

static void hear_caller(weft_ep_t *ep, struct callers *callers, int socket) {
  for (int i = 0; i < callers->count; i++)
    if (callers->entry[i].socket == socket) {
      drop_caller(ep, callers, i);
      epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, socket, NULL);
      ep_answer(ep, socket);
      return;
    }
}

// Hangs up on callers that do not greet, ends a mute; returns the milliseconds to the next such deadline, -1 for none.
static int expire(weft_ep_t *ep, struct callers *callers) {
  int next = -1;
  if (callers->muted_until_ns != 0) {
    next = clock_left_ms(callers->muted_until_ns);
    if (next == 0) {
      callers->muted_until_ns = 0;
      look_at_listener(&ep->links, callers->count < CALLERS);
      next = -1;
    }
  }
  for (int i = callers->count - 1; i >= 0; i--) {
    int left = clock_left_ms(callers->entry[i].deadline_ns);
    if (left == 0) {
      epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, callers->entry[i].socket, NULL); // a child may hold it open
      close(callers->entry[i].socket);
      drop_caller(ep, callers, i);
    } else if (next < 0 || left < next) {
      next = left;
    }
  }
  return next;
}

static void hear_link(weft_ep_t *ep, struct ep_link *link) {
  epoll_ctl(ep->links.epoll, EPOLL_CTL_DEL, link->socket, NULL);
  if (ep_link_takes_us_for_lost(link))
    ep_link_down(ep, link, EP_LINK_DOUBTED, "it takes this rank for lost");
  else if (atomic_load(&ep_link_in(link)->notice.left))
    ep_link_down(ep, link, EP_LINK_LEFT, "it left");
  else
    ep_link_down(ep, link, EP_LINK_DEAD, "its process ended");
}

// The retired links that nobody holds.
static struct ep_link *take_retired(struct ep_links *links) {
  struct ep_link *taken = NULL;
  pthread_mutex_lock(&links->lock);
  for (struct ep_link **at = &links->retired; *at;) {
    struct ep_link *link = *at;
    if (link->holds > 0) {
      at = &link->next;
      continue;
    }
    *at = link->next;
    link->next = taken;
    taken = link;
  }
  pthread_mutex_unlock(&links->lock);
  return taken;
}

static void free_retired(weft_ep_t *ep) {
  struct ep_links *links = &ep->links;
  struct ep_link *link = take_retired(links);
  while (link) {
    struct ep_link *next = link->next;
    epoll_ctl(links->epoll, EPOLL_CTL_DEL, link->socket, NULL);
    int32_t rank = link->rank;
    uint64_t incarnation = link->incarnation;
    ep_link_free(ep, link);
    ep_emit(ep, WEFT_EP_EVENT_RELEASED, rank, incarnation, 0, 0, "");
    link = next;
  }
}

static bool stopping(struct ep_links *links) {
  pthread_mutex_lock(&links->lock);
  bool stop = links->stop;
  pthread_mutex_unlock(&links->lock);
  return stop;
}

static void *serve(void *arg) {
  weft_ep_t *ep = arg;
  struct callers callers = {0};
  struct epoll_event events[64];
  while (!stopping(&ep->links)) {
    int count = epoll_wait(ep->links.epoll, events, 64, expire(ep, &callers));
    for (int i = 0; i < count; i++) {
      uint64_t data = events[i].data.u64;
      uint64_t tag = data & ((1u << TAG_BITS) - 1);
      uint64_t drained;
      if (tag == TAG_LISTENER)
        take_calls(ep, &callers);
      else if (tag == TAG_WAKE)
        (void)!read(ep->links.wake, &drained, sizeof drained);
      else if (tag == TAG_CALLER)
        hear_caller(ep, &callers, (int)(data >> TAG_BITS));
      else
        hear_link(ep, (struct ep_link *)(uintptr_t)data);
    }
    free_retired(ep); // after the whole batch: an event in it may mean a link that has been retired since
  }
  for (int i = 0; i < callers.count; i++)
    close(callers.entry[i].socket);
  return NULL;
}

int ep_service_listen(weft_ep_t *ep) {
  struct ep_links *links = &ep->links;
  char host[160], name[48];
  int rc = ep_host_name(host, sizeof host);
  if (rc != 0)
    return rc;
  uint64_t id;
  random_bytes(&id, sizeof id);
  int length = snprintf(name, sizeof name, "weft-%016llx", (unsigned long long)id);
  snprintf(links->address, sizeof links->address, "%s %s", host, name);
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  memcpy(at.sun_path + 1, name, (size_t)length);
  links->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (links->listener < 0 ||
      bind(links->listener, (struct sockaddr *)&at,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) != 0 ||
      listen(links->listener, 1024) != 0)
    return fail_errno(errno, "cannot listen for peers");
  return 0;
}

int ep_service_start(weft_ep_t *ep) {
  struct ep_links *links = &ep->links;
  links->epoll = epoll_create1(EPOLL_CLOEXEC);
  links->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (links->epoll < 0 || links->wake < 0)
    return fail_errno(errno, "cannot start the service thread");
  int rc = add(links->epoll, links->listener, TAG_LISTENER);
  if (rc == 0)
    rc = add(links->epoll, links->wake, TAG_WAKE);
  if (rc != 0)
    return rc;
  int error = pthread_create(&links->thread, NULL, serve, ep);
  if (error != 0)
    return fail_thread(error, "the service thread");
  links->running = true;
  return 0;
}

void ep_service_stop(weft_ep_t *ep) {
  struct ep_links *links = &ep->links;
  if (!links->running)
    return;
  pthread_mutex_lock(&links->lock);
  links->stop = true;
  pthread_mutex_unlock(&links->lock);
  ep_service_kick(ep);
  pthread_join(links->thread, NULL);
  links->running = false;
}

void ep_links_free(weft_ep_t *ep) {
  struct ep_links *links = &ep->links;
  for (uint32_t rank = 0; links->by_rank && rank < ep->capacity; rank++) {
    ep_link_free(ep, atomic_load(&links->by_rank[rank]));
    atomic_store(&links->by_rank[rank], NULL);
  }
  for (struct ep_link *link = links->superseded, *next; link; link = next) {
    next = link->next;
    ep_link_free(ep, link);
  }
  free_retired(ep);
  int fds[] = {links->listener, links->epoll, links->wake};
  for (int i = 0; i < 3; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}
