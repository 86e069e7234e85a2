// How what is written to the windows of a link to another host gets there: published by the owner, out of a shadow
// (put.c), or collected from what kernels have written (gpu/remote/batches.c). Each engine has one.
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
  // What neighbours may read of the links of this rank (neighbours.h): so many bytes of each; 0: nothing. [any]
  size_t (*shown_bytes)(const weft_ep_t *ep);
  // The descriptor of that memory, which stays the link's; -1: this link shows none. [links.lock]
  int (*shown)(const struct ep_remote *remote);
  // Makes what the peer's transport writes; `*area_fd` is its descriptor, which is the area's before (closed where it
  // is replaced). [owner, service]
  int (*open)(struct ep_remote *remote, int *area_fd);
  void (*close)(struct ep_remote *remote);
  // What the peer's transport writes, and what is sent from: to be registered.
  struct ep_window *(*written)(struct ep_remote *remote);
  struct ep_window *(*sent)(struct ep_remote *remote);
  // Registers what there is besides, shows it to the peer, and looks at what the connected peer shows. NULL, all three:
  // there is nothing. [net lock]
  void (*enroll)(struct ep_remote *remote);
  int (*describe)(struct ep_remote *remote, struct ep_tcp_message *message);
  int (*import)(struct ep_remote *remote, const struct ep_tcp_message *message);
  // Then: makes all requests. [net lock]
  int (*prepare)(struct ep_remote *remote);
  // Calls `visit` for each request of the link. Whether it returned true for any. [net lock]
  bool (*each)(const struct ep_remote *remote, bool (*visit)(const struct ep_remote *remote, struct ep_post *post));
  // A message of the peer's. [net lock]
  void (*receive)(struct ep_remote *remote, const void *bytes, size_t size);
  // No request is under way: takes back what enroll() registered. `fenced`: nothing that the peer's transport has begun
  // comes any more. NULL likewise. [net lock]
  void (*withdraw)(struct ep_remote *remote, bool fenced);
  // The transport has closed, and what was registered has gone. NULL likewise. [net lock]
  void (*forget)(struct ep_remote *remote);
  // What is under way does not end: the windows are never used again. NULL likewise. [service]
  void (*abandon)(struct ep_remote *remote);
  // Carries what the link's kernels, which have ended, have left, for a moment at most. [any]
  void (*flush)(struct ep_remote *remote);
};

extern const struct ep_carrier_ops ep_put_carrier;

#endif
