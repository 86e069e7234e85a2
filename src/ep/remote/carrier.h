// How data written to the windows of a link reaches the other host. Either the owner publishes it from a shadow
// (put.c), or it is collected from what kernels have written (gpu/remote/batches.c). Each engine has one carrier.
#ifndef EP_REMOTE_CARRIER_H
#define EP_REMOTE_CARRIER_H

#include <stdbool.h>
#include <stddef.h>

#include <weft/ep.h>

struct ep_post;
struct ep_remote;
struct ep_tcp_message;
struct ep_window;

struct ep_carrier_ops {
  // How many bytes of each link of this rank neighbours may read (neighbours.h); 0: none. [any]
  size_t (*shown_bytes)(const weft_ep_t *ep);
  // The descriptor of that memory, still owned by the link; -1: this link shows none. [links.lock]
  int (*shown)(const struct ep_remote *remote);
  // Creates the memory that the peer's transport writes. `*area_fd` is the area's descriptor before, and that memory's
  // afterwards (if it is replaced, the old one is closed). [owner, service]
  int (*open)(struct ep_remote *remote, int *area_fd);
  void (*close)(struct ep_remote *remote);
  // The memory that the peer's transport writes, and the memory that is sent from; both have to be registered.
  struct ep_window *(*written)(struct ep_remote *remote);
  struct ep_window *(*sent)(struct ep_remote *remote);
  // Registers other memory, describes it to the peer, and imports what the connected peer describes. All three NULL:
  // there is no other memory. [net lock]
  void (*enroll)(struct ep_remote *remote);
  int (*describe)(struct ep_remote *remote, struct ep_tcp_message *message);
  int (*import)(struct ep_remote *remote, const struct ep_tcp_message *message);
  // After that: prepares all requests. [net lock]
  int (*prepare)(struct ep_remote *remote);
  // Calls `visit` for each request of the link. Returns whether it returned true for any. [net lock]
  bool (*each)(const struct ep_remote *remote, bool (*visit)(const struct ep_remote *remote, struct ep_post *post));
  // Receives a message of the peer. [net lock]
  void (*receive)(struct ep_remote *remote, const void *bytes, size_t size);
  // Withdraws what enroll() registered. No request is in flight. `fenced`: writes that the peer's transport has begun
  // cannot arrive any more. May be NULL. [net lock]
  void (*withdraw)(struct ep_remote *remote, bool fenced);
  // The transport has closed, and all registrations with it. May be NULL. [net lock]
  void (*forget)(struct ep_remote *remote);
  // Requests in flight do not end: the windows must never be used again. May be NULL. [service]
  void (*abandon)(struct ep_remote *remote);
  // Carries the data that the link's finished kernels have left, for a moment at most. [any]
  void (*flush)(struct ep_remote *remote);
};

extern const struct ep_carrier_ops ep_put_carrier;

#endif
