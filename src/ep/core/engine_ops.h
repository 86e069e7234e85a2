// What an engine does for a rank. There are two engines: on host memory (host/engine.c) and on CUDA memory
// (gpu/engine.c). The choice is made once, when the rank opens; no code checks it after that.
//
// The calls of weft/ep.h check everything that needs no access to memory before they call these functions.
#ifndef EP_CORE_ENGINE_OPS_H
#define EP_CORE_ENGINE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/ep.h>

#include "group/group.h"

struct ep_carrier_ops; // remote/carrier.h
struct ep_link;
struct ep_net;

// How the peer's memory is reached.
enum ep_route {
  EP_ROUTE_MAPPED,    // on this host: mapped by descriptors
  EP_ROUTE_FABRIC,    // GPUs on another host, or in another container: mapped by name, over NVLink
  EP_ROUTE_TRANSPORT, // on another host: by a transport
};

// What a handshake message says about the device that holds the area.
struct ep_device_card {
  uint64_t bytes;   // size of a window on it; 0: none
  uint8_t uuid[16]; // of the GPU
};

struct ep_engine_ops {
  enum weft_ep_memory memory; // HOST or CUDA
  uint32_t descriptors;       // that a handshake on one host passes: so many of enum ep_fd from the first on, and
                              // ZERO_COPY if a device has such memory
  bool has_fabric;            // NVLink may join its devices across hosts

  // --- opening and closing, in this order; `stop`, `close` are legal after any of the calls before them. [owner] ---
  int (*allocate)(weft_ep_t *ep, const struct weft_ep_options *options);
  int (*start)(weft_ep_t *ep, const struct weft_ep_options *options); // the rank and its incarnation are known
  int (*watch)(weft_ep_t *ep);                                        // calls of peers are answered from here on
  void (*flush)(weft_ep_t *ep);                                       // waits a moment until what was sent has left
  void (*unwatch)(weft_ep_t *ep);
  void (*stop)(weft_ep_t *ep); // called before the links are freed
  void (*close)(weft_ep_t *ep);

  // --- the calls of weft/ep.h of the same names. [owner] ---
  // Checks of the arguments that need no operation: INVALID, UNSUPPORTED.
  int (*check_send)(weft_ep_t *ep, const struct weft_ep_dispatch_args *args);
  int (*check_recv)(weft_ep_t *ep, const struct weft_ep_recv_args *recv);
  int (*check_combine)(weft_ep_t *ep, const struct weft_ep_combine_args *args, const char *call);
  int (*dispatch_send)(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, uint64_t *number);
  int (*dispatch_recv)(weft_ep_t *ep, uint64_t number, const struct weft_ep_recv_args *recv, struct weft_ep_info *info);
  int (*dispatch)(weft_ep_t *ep, const struct weft_ep_dispatch_args *args, const struct weft_ep_recv_args *recv,
                  struct weft_ep_info *info, uint64_t *number);
  int (*combine_rows)(weft_ep_t *ep, uint64_t number, void **rows_at);
  int (*combine_send)(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args);
  int (*combine_recv)(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                      struct weft_ep_result *result);
  int (*combine)(weft_ep_t *ep, uint64_t number, const struct weft_ep_combine_args *args,
                 struct weft_ep_result *result);
  int (*finish)(weft_ep_t *ep, uint64_t number);
  int (*barrier)(weft_ep_t *ep);
  int (*await)(weft_ep_t *ep, uint64_t number, struct weft_ep_info *info, struct weft_ep_result *result,
               uint32_t timeout_ms);
  // Routes. If route_create is NULL, this engine has no routes, and the others are never called. Defaults in the
  // options are filled in: they have no zeros.
  int (*route_create)(weft_ep_t *ep, const struct weft_ep_route_options *options, weft_ep_route_t *route);
  void (*route_free)(weft_ep_route_t *route); // also after its group was closed, and after a route_create that failed
  int (*route_plan)(weft_ep_route_t *route, const int64_t *topk_idx, uint32_t num_tokens, void *stream);
  int (*route_get_arrays)(weft_ep_route_t *route, struct weft_ep_route_arrays *arrays);
  int (*route_await)(weft_ep_route_t *route, struct weft_ep_route_info *info, uint32_t timeout_ms);
  int (*combine_route)(weft_ep_t *ep, weft_ep_route_t *route, const struct weft_ep_combine_args *args,
                       struct weft_ep_result *result, uint64_t *number);
  uint64_t (*next_op)(const weft_ep_t *ep);
  void (*set_mark)(weft_ep_t *ep, uint64_t mark);
  void (*mask)(weft_ep_t *ep, int32_t rank, uint64_t incarnation); // 0: the rank is not masked
  int (*mask_read)(weft_ep_t *ep, int32_t *masked, uint32_t cap, void *stream);
  void (*add_stats)(const weft_ep_t *ep, struct weft_ep_stats *stats);

  // --- views ---
  // Sets ep->view to the view of the next operation, as far as it is decided. [owner]
  void (*follow)(weft_ep_t *ep);
  // The same before the caller queries the view, for an engine that decides it outside of the caller's calls. [owner]
  void (*refresh)(weft_ep_t *ep);
  // A view has arrived, or a link that views wait for. [any]
  void (*views_changed)(weft_ep_t *ep);
  // Operation 0 is to run in `view`. [owner]
  int (*found)(weft_ep_t *ep, const struct group_view *view);
  // wake_links: before this rank proposes a view with itself. joined: when such a view is agreed on, the first one
  // after epoch `base` (0: not known). [owner]
  void (*wake_links)(weft_ep_t *ep);
  void (*joined)(weft_ep_t *ep, uint64_t base);
  // Waits until running ranks have fixed this rank's first operation. `*view` is a reference. [owner]
  int (*await_start)(weft_ep_t *ep, uint64_t deadline_ns, uint64_t *op, const struct group_view **view);
  // This rank runs operations from `op` on, in `view`. The links are held. [owner]
  void (*started)(weft_ep_t *ep, uint64_t op, const struct group_view *view);

  // --- links ---
  // Makes the windows of a new link that the engine itself needs; `*fd` is for the peer, and stays -1 if there is none.
  // [owner, service]
  int (*link_open)(weft_ep_t *ep, struct ep_link *link, enum ep_route route, int *fd);
  // Maps the peer's window, which was received as a descriptor, or for NVLink as a name. [owner, service]
  int (*link_map)(weft_ep_t *ep, struct ep_link *link, const int *fds, const uint8_t uuid[16]);
  int (*link_map_fabric)(weft_ep_t *ep, struct ep_link *link, const uint8_t *name);
  void (*link_free)(weft_ep_t *ep, struct ep_link *link);
  // The link is down: nothing waits for it any more. [any]
  void (*link_down)(weft_ep_t *ep, struct ep_link *link);
  // While links are held, no link in the table is freed. In an engine in which only the owner frees links, these do
  // nothing.
  void (*hold_links)(const weft_ep_t *ep);
  void (*unhold_links)(const weft_ep_t *ep);
  // Frees links that are not needed any more, if there may be some. [owner]
  void (*sweep)(weft_ep_t *ep);
  // Unmaps the rank's link now, or when nothing needs it any more. NOT_FOUND: there is none. [owner]
  int (*unmap)(weft_ep_t *ep, int32_t rank);
  void (*describe)(const weft_ep_t *ep, struct ep_device_card *card);

  // --- links to other hosts ---
  const struct ep_carrier_ops *carrier; // how data written to their windows reaches the peer
  bool owner_drives;                    // the owner drives the transport while it waits, and the net thread sleeps
  // Makes progress on work that the transport does not signal; returns how much happened. NULL: there is no such work.
  // [net]
  uint32_t (*poll)(struct ep_net *net);
  // How long the net thread may sleep; 0: until the transport signals an event. `last_ns`: when something happened
  // last. [net]
  uint64_t (*nap_ns)(uint64_t last_ns);
};

#endif
