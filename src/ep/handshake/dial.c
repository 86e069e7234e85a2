// Calls a rank at the address of its claim: on this host by its socket, on another by TCP.
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fail.h"
#include "ep/handshake/handshake.h"

#define NAME_BEGIN "weft-"

enum { NAME_SIZE = 5 + 16 };

// Whether it is the name of a listener: NAME_SIZE characters, as listener.c makes it.
static bool is_name(const char *name) {
  return strncmp(name, NAME_BEGIN, strlen(NAME_BEGIN)) == 0 && strlen(name) == NAME_SIZE &&
         strspn(name + strlen(NAME_BEGIN), "0123456789abcdef") == NAME_SIZE - strlen(NAME_BEGIN);
}

// `*far`: the part of the claim for callers on other hosts; NULL: the rank is on this host.
static int split_address(const weft_ep_t *ep, int32_t rank, const char *address, struct sockaddr_un *to,
                         socklen_t *size, const char **far) {
  char host[EP_HOST_SIZE], name[64], here[EP_HOST_SIZE];
  int end = 0;
  if (sscanf(address, "%159s %63s%n", host, name, &end) != 2)
    return fail(WEFT_ERR_PROTOCOL, "rank %d has a malformed address", rank);
  if (sscanf(ep->links.address, "%159s", here) != 1)
    return fail(WEFT_ERR_PROTOCOL, "this rank has no address");
  *far = strcmp(host, here) != 0 ? address + end : NULL;
  if (!*far && !is_name(name))
    return fail(WEFT_ERR_PROTOCOL, "rank %d has a malformed address", rank);
  *to = (struct sockaddr_un){.sun_family = AF_UNIX};
  memcpy(to->sun_path + 1, name, strlen(name)); // abstract socket: a NUL first, no file
  *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  return 0;
}

static int call(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *address, uint64_t deadline_ns,
                bool *yield) {
  struct sockaddr_un to;
  socklen_t size = 0;
  const char *far = NULL;
  int rc = split_address(ep, rank, address, &to, &size, &far);
  if (rc != 0)
    return rc;
  return far ? ep_call_tcp(ep, rank, incarnation, far, deadline_ns, yield)
             : ep_call_local(ep, rank, incarnation, &to, size, deadline_ns, yield);
}

int ep_dial(weft_ep_t *ep, int32_t rank, uint64_t incarnation, const char *address, uint64_t deadline_ns) {
  struct ep_links *links = &ep->links;
  bool yield = false;
  int rc;
  pthread_mutex_lock(&links->lock);
  while (!ep_await_call(ep, rank, incarnation, deadline_ns, yield, &rc)) {
    links->dialling[rank] = incarnation;
    pthread_mutex_unlock(&links->lock);
    yield = false;
    rc = call(ep, rank, incarnation, address, deadline_ns, &yield);
    pthread_mutex_lock(&links->lock);
    links->dialling[rank] = 0;
    if (rc != 0 || !yield)
      break;
  }
  pthread_mutex_unlock(&links->lock);
  if (rc != 0)
    ep->on_links(ep);
  return rc;
}
