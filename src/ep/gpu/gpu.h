// The host's side of a rank on CUDA memory; the device's side is the plug-in's (device/device.h).
//
// Kernels do all that belongs to an operation, and number the operations. The host keeps what surrounds them: it gives
// each link a seat and a device window in each direction, publishes the agreed views, says which seats are gone or
// masked, and looks once in a millisecond at what the kernels report. Everything that a kernel may still touch is let
// go of under `lock` only, and only when no view that is active or to come has its seat.
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
  GPU_VIEWS = 16,                 // published ones that are remembered
  GPU_QUARANTINE = 4,             // windows that stay mapped, though their links have gone
  GPU_STEPS = DEVICE_ACTIVATIONS, // views decided whose predecessors may still be in use
};

_Static_assert((int)DEVICE_EXTENSIONS == (int)EP_EXTENSIONS, "waits are extended alike on all memory");

// A launch that is captured has a number of its own, which is none of an operation.
#define GPU_CAPTURED (UINT64_C(1) << 63)

// A window in host memory that stays mapped behind its link: a late write of a peer that could not be fenced lands
// there, and in no other data.
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

// ACTIVATED, for the watcher to emit.
struct gpu_news {
  uint64_t op, epoch;
  bool adopted;
};

// What a dispatch sends, and on how many processors: the receiving half needs both, and brings this rank's own rows to
// their places.
struct gpu_input {
  const void *x, *scales;
  uint32_t row_stride, scale_row_stride, scale_block_stride;
  uint32_t processors;
};

// What the host has launched of an operation. The pointers are to device memory of the caller's.
struct gpu_op {
  uint64_t number;
  uint64_t capture; // that its dispatch belongs to; 0: none
  enum ep_op_state state;
  bool begun, received, combined; // launched; they stay when the operation has ended
  bool barrier;                   // has come to all; where it is open its end could not be launched
  bool has_weights, rank_major;
  bool packed;                     // received, in a group for throughput, as what follows:
  uint32_t alignment;              // of its parts
  uint32_t row_bytes, scale_bytes; // of opaque rows
  weft_ep_route_t *route;          // that the dispatch fills, or whose ways it goes (`keeps`)
  bool keeps;
  bool no_rows;                    // received, as far as the caller has asked
  uint32_t num_tokens, rows, topk; // num_tokens: at most, where the device has the number
  enum weft_ep_dtype dtype;
  enum weft_ep_combine_dtype combine_dtype; // of its newest combine
  uint32_t round;                           // combines that have left it open
  const void *topk_idx;
  bool narrow; // it is of int32_t, else int64_t
  const float *topk_weights;
  struct gpu_input input; // in a group for throughput
  void *stream;           // of the last launch
};

// A route, on the device.
struct gpu_route {
  const struct device_api *api;
  struct device *device; // opened once more, for a route outlives its rank
  struct device_route *memory;
  struct weft_ep_route_options options; // without zeros
  bool planned, filled;                 // as far as launches went
  uint32_t num_tokens, topk;            // of the newest plan; num_tokens: at most
  bool has_weights, narrow;             // of the dispatch that filled it; narrow: of the plan too
  bool rank_major, packed;              // of its receive
  uint32_t rows, alignment;             // likewise
  void *stream;                         // of the newest launch that fills it
};

// What this rank has waited for a peer, and is not in the figures of its link yet.
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
  uint32_t processors; // that the device has
  struct device_ep_options options;
  size_t area_bytes;
  uint64_t workspace_bytes;

  pthread_mutex_t lock;
  pthread_cond_t wake;
  // Under lock.
  struct ep_link *seats[DEVICE_SEATS];               // NULL: free, or one's own
  struct gpu_quarantined quarantine[GPU_QUARANTINE]; // the newest; under lock
  uint32_t num_quarantined;                          // so far
  struct device_control control;                     // as the device has it
  _Atomic uint64_t masked; // control.masked, for launches: whoever publishes holds the lock for long
  uint64_t publish_from;   // first epoch that this rank can run in; UINT64_MAX: not known yet
  uint64_t looked_at;      // newest epoch that was published, or could not be
  uint64_t published_last; // newest that was
  bool behind;             // the device had no room for the next one
  bool holds_back;         // `ready` does not cover yet what was published
  uint64_t hold_until_ns;
  struct gpu_published published[GPU_VIEWS];
  uint32_t num_published;
  struct gpu_step steps[GPU_STEPS]; // ascending; the first is the oldest whose areas kernels may use
  uint32_t num_steps;
  uint64_t ask_at_ns; // how far the kernels are, if there is more than one
  uint64_t seen;      // entries of report->activation
  struct gpu_news news[DEVICE_ACTIVATIONS];
  uint32_t num_news;
  uint64_t lost_seen, lost_pending; // seats
  bool stop;

  struct ep_sharer_groups sharers; // [net lock]
  struct ep_share_stamps shared;   // likewise

  pthread_t watcher;
  bool watching;
  _Atomic uint64_t activations;

  // The owner's.
  struct gpu_op ops[EP_DEPTH], captured[EP_DEPTH];
  uint64_t captures;
  void *stream;                 // of the last launch that was not captured
  uint64_t followed, next_step; // what ep->view comes from: activations, and until which operation
  uint64_t first_op, launched_receives, launched_ends; // number + 1
  uint64_t counted_dispatch, counted_combine;          // operations before these numbers are in the statistics
  struct gpu_wait wait;
  int32_t *counts;   // device memory [E], for barriers
  int64_t *experts;  // [M][K], for lists of what is missing; of int32_t where the caller's are
  uint64_t *missing; // [M], likewise
};

// A question to the device takes its driver some 10 us, in which launches may wait: so not while ranks meet.
enum { GPU_ASK_NS = 10000000 };

// A word of the report, which the device writes; what it had written before is seen too.
static inline uint64_t ep_gpu_read(const volatile uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

// --- engine.c ---

extern const struct ep_engine_ops ep_gpu_engine;

// --- open.c ---

// Finds the device that `options` asks for. With AUTO and none that will do, ep->gpu stays NULL and a log line says
// why.
int ep_gpu_open(weft_ep_t *ep, const struct weft_ep_options *options);
// Makes the memory whose rows peers read where they lie, if the options have some.
int ep_gpu_allocate(weft_ep_t *ep, const struct weft_ep_options *options);
// Opens the engine; the rank is known now.
int ep_gpu_start(weft_ep_t *ep, const struct weft_ep_options *options);
// Lets kernels that are under way end, and closes the engine. Before the links are freed.
void ep_gpu_stop(weft_ep_t *ep);
void ep_gpu_close(weft_ep_t *ep);

// --- view/seats.c ---

// Gives the link a seat and the window that its peer will write. On this host *fd is for the peer; for one that no
// descriptor reaches, but NVLink, the window has a name, link->device.name; for one on another host, both windows are
// in this host's memory. LIMIT: no seat is free. UNSUPPORTED: there are no such windows.
int ep_gpu_link_open(weft_ep_t *ep, struct ep_link *link, enum ep_route route, int *fd);
// Maps the window of that name, which the peer reads. UNSUPPORTED: NVLink does not reach there.
int ep_gpu_link_map_fabric(weft_ep_t *ep, struct ep_link *link, const uint8_t *name);
// Maps the window that the peer, on the device of that uuid, reads.
int ep_gpu_link_map(weft_ep_t *ep, struct ep_link *link, const int *fds, const uint8_t uuid[16]);
void ep_gpu_link_free(weft_ep_t *ep, struct ep_link *link);
void ep_gpu_quarantine_free(struct ep_gpu *gpu); // the transports have closed
// The link is down: kernels no longer wait for it. [any]
void ep_gpu_link_down(weft_ep_t *ep, struct ep_link *link);
void ep_gpu_hold_links(const weft_ep_t *ep);
void ep_gpu_unhold_links(const weft_ep_t *ep);
// Lets go of the rank's link now, or when no view needs it any more. NOT_FOUND: there is none. [owner]
int ep_gpu_unmap(weft_ep_t *ep, int32_t rank);
// Likewise of all that nobody needs. [any]
void ep_gpu_sweep(weft_ep_t *ep);
// Writes the control words. Under lock.
void ep_gpu_control(weft_ep_t *ep);
// Computes which seats get no tokens. Under lock.
void ep_gpu_set_masks(weft_ep_t *ep);
void ep_gpu_mask(weft_ep_t *ep, int32_t rank, bool masked);
void ep_gpu_set_mark(weft_ep_t *ep, uint64_t mark);

// --- view/views.c ---

// The number of the next operation, as far as launches and replays have told.
uint64_t ep_gpu_next_op(const weft_ep_t *ep);
// Publishes what is agreed on and linked; then lets `ready` cover it. [any]
void ep_gpu_publish(weft_ep_t *ep);
// The same under lock.
void ep_gpu_publish_locked(weft_ep_t *ep);
// Operation 0 runs in `view`.
int ep_gpu_found(weft_ep_t *ep, const struct group_view *view);
// This rank is in a view, the first one after that of `base` (0: not known).
void ep_gpu_joined(weft_ep_t *ep, uint64_t base);
// This rank runs operations from `op` on; under lock.
void ep_gpu_started(weft_ep_t *ep, uint64_t op, const struct group_view *view);
// Takes what the kernels have decided from the report. Under lock.
void ep_gpu_take_activations(weft_ep_t *ep);
// Lets go of views whose areas no operation from `left` on has any use for. Under lock.
void ep_gpu_drop_passed(weft_ep_t *ep, uint64_t left);
// Brings ep->view to that of the next operation, as far as it is decided. [owner]
void ep_gpu_follow(weft_ep_t *ep);
// The view of exactly that epoch, NULL if it is forgotten. A reference. [owner]
const struct group_view *ep_gpu_view(weft_ep_t *ep, uint64_t epoch);
void ep_gpu_views_free(weft_ep_t *ep);

// --- view/await.c ---

// Before this rank proposes a view with itself: its links to those who run wake.
void ep_gpu_wake_links(weft_ep_t *ep);
// Waits until a running rank has published the first operation, and begins with it; or begins by itself, where all who
// ran have gone (ep/view/awaiting.h). `*view` is a reference.
int ep_gpu_await_start(weft_ep_t *ep, uint64_t deadline_ns, uint64_t *op, const struct group_view **view);

// --- view/watcher.c ---

int ep_gpu_watch_start(weft_ep_t *ep);
void ep_gpu_watch_stop(weft_ep_t *ep);

// A group for throughput.
static inline bool ep_gpu_flows(const weft_ep_t *ep) {
  return ep->gpu->options.throughput;
}

#endif
