// Where ranks of other hosts connect: a TCP listener, its addresses as in the claim, and connections to another's.
#ifndef EP_LINK_TCP_LISTENER_H
#define EP_LINK_TCP_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/ep.h>

enum {
  EP_ENDPOINT_SIZE = 56,        // "[<IPv6>]:<port>" and a NUL
  EP_ENDPOINTS = 4,             // that a claim has room for
  EP_ENDPOINT_TIMEOUT_MS = 4000 // a connection whose host does not answer for so long is broken
};

// Opens a listener on a free port. `at`: comma-separated addresses or names of interfaces; NULL: the addresses of all
// interfaces that are up, without loopback unless there is nothing else. `out`: "ADDRESS:PORT,...". INVALID: one of
// `at` is neither.
int ep_endpoint_listen(const char *at, int *listener, char *out, size_t cap);

// Whether the connection came to one of the addresses in `endpoints`, as ep_endpoint_listen wrote them. (A listener of
// several addresses listens on all of the host's.)
bool ep_endpoint_is_ours(int socket, const char *endpoints);

// Calls one after the other of the comma-separated `*endpoints`, until one answers: `*endpoints` then is what stands
// behind it. PEER_LOST: nobody listens there. UNREACHABLE: no answer.
int ep_endpoint_call(weft_ep_t *ep, const char **endpoints, int32_t rank, uint64_t deadline_ns, int *socket);

// Small things leave at once, and a peer whose host has vanished is noticed without sending anything.
void ep_endpoint_tune(int socket);

#endif
