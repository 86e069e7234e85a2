// The host side of a rank on CUDA memory; the plug-in has the device side (device/device.h).
//
// Kernels do all work of an operation, and number the operations. The host does everything else: it gives each link a
// seat and a device window in each direction, publishes the agreed views, sets which seats are gone or masked, and
// reads the kernels' report once in a millisecond. Memory that a kernel may still access is freed only under `lock`,
// and only when no active or future view has its seat.
//
// Order of locks: `lock` here, then weft_ep.lock, then links.lock.
#ifndef EP_GPU_GPU_H
#define EP_GPU_GPU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "device/device.h"
#include "ep/core/engine.h"
#include "ep/core/op_state.h"
#include "ep/core/route.h"
#include "ep/gpu/remote/share.h"
#include "ep/gpu/remote/sharers.h"

enum {
  GPU_OWN_SEAT = 0,
  GPU_VIEWS = 16,                 // published views that are kept
  GPU_QUARANTINE = 4,             // windows that stay mapped although their links were freed
  GPU_STEPS = DEVICE_ACTIVATIONS, // decided views whose predecessors may still be in use
};

_Static_assert((int)DEVICE_EXTENSIONS == (int)EP_EXTENSIONS, "waits are extended alike on all memory");

// A captured launch has a number with this bit, which is not the number of an operation.
#define GPU_CAPTURED (UINT64_C(1) << 63)

// A window in host memory that stays mapped after its link was freed: a late write of a peer that could not be fenced
// lands there, and not in other data.
struct gpu_quarantined {
  struct device_window window;
  void *host; // NULL: none
};

struct gpu_published {
  const struct group_view *view; // a reference
  uint64_t seats;
};

// From operation `op` on, kernels run in `view` (a reference).
struct gpu_step {
  uint64_t op;
  const struct group_view *view;
};

// An ACTIVATED event that the watcher has to emit.
struct gpu_news {
  uint64_t op, epoch;
  bool adopted;
};

// What a dispatch sends, and on how many processors. The receiving half needs both, since it also moves this rank's own
// rows to their places.
struct gpu_input {
  const void *x, *scales;
  uint32_t row_stride, scale_row_stride, scale_block_stride;
  uint32_t processors;
};

// What the host has launched of an operation. The pointers refer to device memory of the caller.
struct gpu_op {
  uint64_t number;
  uint64_t capture; // the capture that its dispatch belongs to; 0: none
  enum ep_op_state state;
  bool begun, received, combined; // these were launched; they stay true after the operation has ended
  bool barrier;                   // a barrier that all ranks have reached; if it is open, its end could not be launched
  bool has_weights, rank_major;
  bool packed;                     // received as PACKED, in a group for throughput
  uint32_t alignment;              // alignment of its parts
  uint32_t row_bytes, scale_bytes; // sizes of opaque rows
  weft_ep_route_t *route;          // the route that the dispatch fills, or uses (`keeps`)
  bool keeps;
  bool no_rows;                    // received without rows, as far as results were asked for
  uint32_t num_tokens, rows, topk; // num_tokens: an upper bound if the device has the number
  enum weft_ep_dtype dtype;
  enum weft_ep_combine_dtype combine_dtype; // of its newest combine
  uint32_t round;                           // combines so far that left it open
  const void *topk_idx;
  bool narrow; // topk_idx is int32_t, else int64_t
  const float *topk_weights;
  struct gpu_input input; // only in a group for throughput
  void *stream;           // of the last launch
};

// A route on the device.
struct gpu_route {
  const struct device_api *api;
  struct device *device; // opened once more, since a route may outlive its rank
  struct device_route *memory;
  struct weft_ep_route_options options; // without zeros
  bool planned, filled;                 // by the launches so far
  uint32_t num_tokens, topk;            // of the newest plan; num_tokens: an upper bound
  bool has_weights, narrow;             // of the dispatch that filled it; narrow: also of the plan
  bool rank_major, packed;              // of the receive of that dispatch
  uint32_t rows, alignment;             // of that receive
  void *stream;                         // of the newest launch that fills it
};

// How long this rank has waited for a peer, not yet added to the statistics of its link.
struct gpu_wait {
  int32_t rank;
  uint64_t incarnation, ns;
};

struct ep_gpu {
  // Fixed after open.
  const struct device_api *api;
  struct device *device;
  struct device_ep *engine;
  const struct device_report *report;
  int index;
  uint8_t uuid[16];
  char pci[sizeof((struct device_info *)0)->pci];
  uint32_t processors; // processors of the device
  struct device_ep_options options;
  size_t area_bytes;
  uint64_t workspace_bytes;

  pthread_mutex_t lock;
  pthread_cond_t wake;
  // Under lock.
  struct ep_link *seats[DEVICE_SEATS];               // NULL: free, or this rank's own seat
  struct gpu_quarantined quarantine[GPU_QUARANTINE]; // the newest; under lock
  uint32_t num_quarantined;                          // so far
  struct device_control control;                     // as the device has them
  _Atomic uint64_t masked; // copy of control.masked, for launches: a thread that publishes holds the lock for long
  uint64_t publish_from;   // first epoch in which this rank can run; UINT64_MAX: not known yet
  uint64_t begins_from;    // no view before this epoch can be the first one of this rank; 0: not known
  uint64_t looked_at;      // newest epoch that was published, or that could not be published
  uint64_t published_last; // newest epoch that was published
  uint64_t last_seats;     // of that view
  bool behind;             // the device had no room for the next view
  bool holds_back;         // `ready` does not include the published views yet
  uint64_t hold_until_ns;
  struct gpu_published published[GPU_VIEWS];
  uint32_t num_published;
  struct gpu_step steps[GPU_STEPS]; // ascending; the first is the oldest view whose areas kernels may use
  uint32_t num_steps;
  uint64_t ask_at_ns; // when to ask how far the kernels are, if there is more than one step
  uint64_t seen;      // entries of report->activation that were read
  struct gpu_news news[DEVICE_ACTIVATIONS];
  uint32_t num_news;
  uint64_t lost_seen, lost_pending; // seats
  bool stop;

  struct ep_sharer_groups sharers; // [net lock]
  struct ep_share_stamps shared;   // [net lock]

  pthread_t watcher;
  bool watching;
  _Atomic uint64_t activations;

  // The owner's.
  struct gpu_op ops[EP_DEPTH], captured[EP_DEPTH];
  uint64_t captures;
  void *stream;                 // of the last launch that was not captured
  uint64_t followed, next_step; // what ep->view is based on: activations, and up to which operation
  uint64_t first_op, launched_receives, launched_ends; // number + 1
  uint64_t counted_dispatch, counted_combine;          // operations before these numbers are in the statistics already
  struct gpu_wait wait;
  int32_t *counts;   // device memory [E], for barriers
  int64_t *experts;  // [M][K], for lists of missing selections; int32_t if the caller's are
  uint64_t *missing; // [M], for the same lists
};

// A query of the device takes its driver some 10 us, and launches may wait meanwhile. So it is not made while ranks
// wait for each other.
enum { GPU_ASK_NS = 10000000 };

// Reads a word of the report, which the device writes, with acquire order.
static inline uint64_t ep_gpu_read(const volatile uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

// --- engine.c ---

extern const struct ep_engine_ops ep_gpu_engine;

// --- open.c ---

// Finds the device that `options` asks for. With AUTO and no suitable device, ep->gpu stays NULL, and a log line says
// why.
int ep_gpu_open(weft_ep_t *ep, const struct weft_ep_options *options);
// Allocates the memory from which peers read rows without a copy, if the options ask for it.
int ep_gpu_allocate(weft_ep_t *ep, const struct weft_ep_options *options);
// Opens the engine; the rank is known.
int ep_gpu_start(weft_ep_t *ep, const struct weft_ep_options *options);
// Waits for running kernels to end, and closes the engine. To be called before the links are freed.
void ep_gpu_stop(weft_ep_t *ep);
void ep_gpu_close(weft_ep_t *ep);

// --- view/seats.c ---

// Gives the link a seat, and the window that its peer will write. For a peer on this host, *fd is the window's
// descriptor. For a peer that is reached by NVLink only, the window has a name, link->device.name. For other peers on
// another host, both windows are in this host's memory. LIMIT: no seat is free. UNSUPPORTED: there are no such windows.
int ep_gpu_link_open(weft_ep_t *ep, struct ep_link *link, enum ep_route route, int *fd);
// Maps the window of that name, which the peer reads. UNSUPPORTED: NVLink does not reach the peer.
int ep_gpu_link_map_fabric(weft_ep_t *ep, struct ep_link *link, const uint8_t *name);
// Maps the window that the peer, on the device of that uuid, reads.
int ep_gpu_link_map(weft_ep_t *ep, struct ep_link *link, const int *fds, const uint8_t uuid[16]);
void ep_gpu_link_free(weft_ep_t *ep, struct ep_link *link);
void ep_gpu_quarantine_free(struct ep_gpu *gpu); // the transports are closed
// The link is down: kernels no longer wait for it. [any]
void ep_gpu_link_down(weft_ep_t *ep, struct ep_link *link);
void ep_gpu_hold_links(const weft_ep_t *ep);
void ep_gpu_unhold_links(const weft_ep_t *ep);
// Frees the rank's link now, or when no view needs it any more. NOT_FOUND: there is none. [owner]
int ep_gpu_unmap(weft_ep_t *ep, int32_t rank);
// Frees all links that nothing needs any more. [any]
void ep_gpu_sweep(weft_ep_t *ep);
// Writes the control words to the device. Under lock.
void ep_gpu_control(weft_ep_t *ep);
// Computes which seats receive no tokens. Under lock.
void ep_gpu_set_masks(weft_ep_t *ep);
void ep_gpu_mask(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
void ep_gpu_set_mark(weft_ep_t *ep, uint64_t mark);

// --- view/views.c ---

// The number of the next operation, as far as it is known from launches and replays.
uint64_t ep_gpu_next_op(const weft_ep_t *ep);
// Publishes the agreed views whose members have links, and then includes them in `ready`. [any]
void ep_gpu_publish(weft_ep_t *ep);
// The same for a rank that has not begun, and that begins in the view of that epoch or in a newer one (0: not known).
// These views must reach the device, so it may have them instead of older ones. [owner]
void ep_gpu_publish_from(weft_ep_t *ep, uint64_t epoch);
// ep_gpu_publish() under lock.
void ep_gpu_publish_locked(weft_ep_t *ep);
// Operation 0 runs in `view`.
int ep_gpu_found(weft_ep_t *ep, const struct group_view *view);
// This rank is in a view, the first one after epoch `base` (0: not known).
void ep_gpu_joined(weft_ep_t *ep, uint64_t base);
// This rank runs operations from `op` on; under lock.
void ep_gpu_started(weft_ep_t *ep, uint64_t op, const struct group_view *view);
// Reads from the report what the kernels have decided. Under lock.
void ep_gpu_take_activations(weft_ep_t *ep);
// Drops views whose areas no operation from `left` on uses. Under lock.
void ep_gpu_drop_passed(weft_ep_t *ep, uint64_t left);
// Sets ep->view to the view of the next operation, as far as it is decided. [owner]
void ep_gpu_follow(weft_ep_t *ep);
// The view of exactly that epoch, NULL if it is not kept any more. Returns a reference. [owner]
const struct group_view *ep_gpu_view(weft_ep_t *ep, uint64_t epoch);
void ep_gpu_views_free(weft_ep_t *ep);

// --- view/await.c ---

// Before this rank proposes a view with itself: wakes its links to the running ranks.
void ep_gpu_wake_links(weft_ep_t *ep);
// Waits until a running rank has published this rank's first operation, and begins with it. If all running ranks have
// gone, this rank may begin by itself (view/awaiting.h). `*view` is a reference.
int ep_gpu_await_start(weft_ep_t *ep, uint64_t deadline_ns, uint64_t *op, const struct group_view **view);

// --- view/watcher.c ---

int ep_gpu_watch_start(weft_ep_t *ep);
void ep_gpu_watch_stop(weft_ep_t *ep);

// Whether the group is for throughput.
static inline bool ep_gpu_flows(const weft_ep_t *ep) {
  return ep->gpu->options.throughput;
}

#endif
