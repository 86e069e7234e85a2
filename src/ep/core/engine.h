// The inside of a weft_ep_t: what all parts of a rank share. What belongs to one engine stands in host/host.h or
// gpu/gpu.h.
//
// Six threads may touch it: the owner's (operations), the service thread (calls of peers, hang-ups, release of links),
// the death watch (link/death_watch.h), the group's (views), the net thread (other hosts), and on CUDA memory the
// watcher. What they share is atomic or behind a lock; everything else belongs to the owner.
#ifndef EP_CORE_ENGINE_H
#define EP_CORE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "base/ep_limits.h"
#include "base/forked.h"
#include "ep/core/activation.h"
#include "ep/core/doorbell.h"
#include "ep/core/engine_ops.h"
#include "ep/core/events.h"
#include "ep/core/fault.h"
#include "ep/core/interrupt.h"
#include "ep/core/layout.h"
#include "ep/core/wait.h"
#include "ep/core/window.h"
#include "ep/kernels/kernels.h"
#include "ep/link/death_watch.h"
#include "ep/link/link.h"
#include "group/group.h"

enum { EP_VIEWS = 64 }; // agreed views that are remembered: the active one, and those that have not taken effect

struct ep_host; // host/host.h
struct ep_gpu;  // gpu/gpu.h
struct ep_net;  // remote/net/net.h

// How this rank stands while it awaits its first operation, also from one call to the next: view/awaiting.h.
struct ep_awaiting {
  uint64_t looked;   // it looked for a start after it was ready for that view, and found none
  uint64_t accepted; // in that view it takes a start of `rank` alone; 0: of any
  uint64_t incarnation;
  int32_t rank;
  uint64_t asked; // in that view it would call since `asked_ns`
  uint64_t asked_ns;
};

struct weft_ep {
  // Fixed after open.
  const struct ep_engine_ops *engine;
  struct ep_host *host; // of the engine on host memory, else NULL
  struct ep_gpu *gpu;   // of the engine on CUDA memory, else NULL
  int32_t device;       // index of its GPU; -1 on host memory
  const char *pci;      // where that GPU is, as sysfs names it; NULL: not known, or host memory
  int32_t rank;
  uint64_t incarnation;
  uint32_t capacity, experts_per_rank, op_timeout_ms;
  uint32_t processors; // of this host, online
  enum weft_ep_dtype dtype;
  enum weft_ep_combine_dtype combine_dtype;
  struct ep_layout layout;
  const struct ep_kernels *kernels;
  int32_t *founders;
  uint32_t num_founders;
  bool join_only;
  bool joins; // asked to be taken in by a group that was there
  struct group *group;
  struct ep_window bell; // this rank's doorbell page
  int bell_fd;
  struct {
    void *memory;
    uint64_t bytes; // as asked for
    size_t size;    // as it is
    int fd;         // of device memory, for peers on this host; -1: there is none
  } zero_copy;      // weft_ep_get_zero_copy_memory()

  // Links: see link/link.h. Which peers have died: see link/death_watch.h.
  struct ep_links links;
  struct ep_death_watch death_watch;
  // Called after the table of links has changed. [any]
  void (*on_links)(weft_ep_t *ep);
  // The way to other hosts, once it is open; see remote/net/net.h.
  struct ep_net *_Atomic net;
  pthread_mutex_t net_lock;
  const struct ep_background *_Atomic background; // of `net`, for waits

  // Views: written by the group's thread; see core/view_list.c.
  pthread_mutex_t lock;
  const struct group_view *views[EP_VIEWS]; // newest last; under lock
  uint32_t num_views;
  _Atomic uint64_t ready; // newest epoch for which every other member has a link
  _Atomic uint64_t lost;  // peers found dead or silent
  _Atomic bool fenced;    // an agreed view is without this rank, which did not leave by itself

  uint32_t opened;               // forked_now() of its opening
  struct ep_events events;       // see core/events.h
  struct ep_interrupt interrupt; // see core/interrupt.h

  // The owner's.
  uint64_t next_heartbeat_ns; // when to send the next heartbeat to other hosts, while this rank waits
  bool holds;                 // inside a call that goes on: the network stays the owner's
  struct ep_awaiting awaiting;
  _Atomic bool started; // its first operation is known; the service thread reads it
  uint64_t first_op;    // that one
  bool leaving;         // leave was called
  uint64_t next_op;
  uint64_t mark;
  struct ep_activation activation;
  const struct group_view *view; // of next_op; a reference
  bool *masked;                  // [capacity]
  _Atomic bool sweep;            // a link went down or a view changed: look for links to let go of
  uint32_t spins;                // rounds of a wait before it sleeps
  ep_fault_fn fault;
  void *fault_arg;
  struct weft_ep_route *routes; // made and not freed; see core/route.h
  struct weft_ep_stats stats;
};

// Whether the handle is this process's: not NULL, and not from before a fork. Else the code and the sentence for a call
// of that name: INVALID or CLOSED. [any]
static inline bool ep_is_ours(const weft_ep_t *ep) {
  return ep && !forked_since(ep->opened);
}
int ep_refuse_handle(const weft_ep_t *ep, const char *call);

// --- view_list.c: the agreed views that are remembered ---

// Remembers a view that is agreed on; the oldest is forgotten, and all where this one is no newer: they are of a group
// that has died, and others have founded it anew. [group]
void ep_views_add(weft_ep_t *ep, const struct group_view *view);
// The view of `epoch`, or the oldest remembered one that is newer; NULL if none is known yet. A reference. [any]
const struct group_view *ep_views_find(weft_ep_t *ep, uint64_t epoch);
// Epoch of the first remembered view that has this rank; of the next one while none has. [any]
uint64_t ep_views_first_own(weft_ep_t *ep);
// Whether the newest agreed view has this rank and incarnation. [any]
bool ep_views_has(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
// Whether any remembered view has them. [any]
bool ep_views_had(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
void ep_views_free(weft_ep_t *ep);

// The bytes of a dispatch by the caller's count: `selections` of valid (token, expert) pairs, of 16 bytes beside their
// values and scales.
static inline uint64_t ep_logical_bytes(uint64_t row_bytes, uint64_t selections) {
  return selections * (row_bytes + 16);
}

static inline struct ep_doorbell *ep_own_bell(weft_ep_t *ep) {
  return ep->bell.memory;
}

#endif
