// Where ranks of other hosts connect: a TCP listener, its addresses as in the claim, and connections to other ranks'
// listeners.
#ifndef EP_LINK_TCP_LISTENER_H
#define EP_LINK_TCP_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/ep.h>

enum {
  EP_ENDPOINT_SIZE = 56,        // "[<IPv6>]:<port>" and a NUL
  EP_ENDPOINTS = 4,             // for which a claim has room
  EP_ENDPOINT_TIMEOUT_MS = 4000 // if the other host does not answer for so long, the connection is broken
};

// Opens a listener on a free port. `at`: comma-separated addresses or names of interfaces; NULL: the addresses of all
// interfaces that are up, without loopback unless there is nothing else. `out`: "ADDRESS:PORT,...". INVALID: one of
// `at` is neither an address nor an interface.
int ep_endpoint_listen(const char *at, int *listener, char *out, size_t cap);

// Whether the connection was made to one of the addresses in `endpoints`, as ep_endpoint_listen() wrote them. (A
// listener with several addresses listens on all addresses of the host.)
bool ep_endpoint_is_ours(int socket, const char *endpoints);

// Calls the comma-separated `*endpoints` one after another until one answers; `*endpoints` then points behind that one.
// PEER_LOST: nobody listens there. UNREACHABLE: no answer.
int ep_endpoint_call(weft_ep_t *ep, const char **endpoints, int32_t rank, uint64_t deadline_ns, int *socket);

// Makes small messages leave at once, and detects that a peer's host has vanished even when nothing is sent.
void ep_endpoint_tune(int socket);

#endif
