// The inside of a weft_ep_t: what all parts of a rank share. The state of each engine is in host/host.h and gpu/gpu.h.
//
// Six threads may touch it: the owner's (operations), the service thread (calls of peers, hang-ups, release of links),
// the death watch (link/death_watch.h), the group's (views), the net thread (other hosts), and on CUDA memory the
// watcher. Fields that they share are atomic or protected by a lock; all other fields belong to the owner.
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

enum { EP_VIEWS = 64 }; // agreed views that are kept: the active one, and those that have not taken effect

struct ep_host; // host/host.h
struct ep_gpu;  // gpu/gpu.h
struct ep_net;  // remote/net/net.h

// The state of this rank while it awaits its first operation, kept from one call to the next: view/awaiting.h.
struct ep_awaiting {
  uint64_t looked;   // epoch of a view: this rank was ready for it, looked for a start after that, and found none
  uint64_t accepted; // epoch of a view in which it accepts a start of `rank` only; 0: of any rank
  uint64_t incarnation;
  int32_t rank;
  uint64_t asked; // epoch of a view in which all other members await, seen first at `asked_ns`
  uint64_t asked_ns;
};

struct weft_ep {
  // Fixed after open.
  const struct ep_engine_ops *engine;
  struct ep_host *host; // of the engine on host memory, else NULL
  struct ep_gpu *gpu;   // of the engine on CUDA memory, else NULL
  int32_t device;       // index of its GPU; -1 on host memory
  const char *pci;      // PCI address of that GPU, as in sysfs; NULL: not known, or host memory
  int32_t rank;
  uint64_t incarnation;
  uint32_t capacity, experts_per_rank, op_timeout_ms;
  uint32_t processors; // online processors of this host
  enum weft_ep_dtype dtype;
  enum weft_ep_combine_dtype combine_dtype;
  struct ep_layout layout;
  const struct ep_kernels *kernels;
  int32_t *founders;
  uint32_t num_founders;
  bool join_only;
  uint32_t operations_per_step;
  bool joins; // this rank asked to join a group that existed already
  struct group *group;
  struct ep_window bell; // this rank's doorbell page
  int bell_fd;
  struct {
    void *memory;
    uint64_t bytes; // as the options ask
    size_t size;    // actual size
    int fd;         // descriptor of device memory, for peers on this host; -1: none
  } zero_copy;      // weft_ep_get_zero_copy_memory()

  // Links: see link/link.h. Detection of peers' deaths: see link/death_watch.h.
  struct ep_links links;
  struct ep_death_watch death_watch;
  // Called after the table of links has changed. [any]
  void (*on_links)(weft_ep_t *ep);
  // The transport to other hosts, once it is open; see remote/net/net.h.
  struct ep_net *_Atomic net;
  pthread_mutex_t net_lock;
  const struct ep_background *_Atomic background; // of `net`: what the owner drives while it waits

  // Views: written by the group's thread; see core/view_list.c.
  pthread_mutex_t lock;
  const struct group_view *views[EP_VIEWS]; // newest last; under lock
  uint32_t num_views;
  _Atomic uint64_t ready; // newest epoch for which there is a link to every other member
  _Atomic uint64_t lost;  // peers found dead or silent
  _Atomic bool fenced;    // an agreed view does not have this rank, although it did not leave

  uint32_t opened;               // forked_now() when it was opened
  struct ep_events events;       // see core/events.h
  struct ep_interrupt interrupt; // see core/interrupt.h

  // The owner's.
  uint64_t next_heartbeat_ns; // when to send the next heartbeat to other hosts, while this rank waits
  bool holds;                 // inside a call that continues: the owner keeps driving the network
  struct ep_awaiting awaiting;
  _Atomic bool started; // its first operation is known; read by the service thread
  uint64_t first_op;    // number of that operation
  bool leaving;         // weft_ep_leave() was called
  uint64_t next_op;
  uint64_t mark;
  struct ep_activation activation;
  const struct group_view *view; // of next_op; a reference
  uint64_t *masked;   // [capacity] incarnation that this rank sends no tokens; 0: none. Not the next one of that rank
  _Atomic bool sweep; // a link went down or a view changed: check for links to free
  uint32_t spins;     // how often a wait spins before it sleeps
  ep_fault_fn fault;
  void *fault_arg;
  struct weft_ep_route *routes; // created and not freed; see core/route.h
  struct weft_ep_stats stats;
};

// Whether the handle belongs to this process: it is not NULL, and was not opened before a fork. If not,
// ep_refuse_handle() gives the error for a call of that name: INVALID or CLOSED. [any]
static inline bool ep_is_ours(const weft_ep_t *ep) {
  return ep && !forked_since(ep->opened);
}
int ep_refuse_handle(const weft_ep_t *ep, const char *call);

// --- view_list.c: the agreed views that are remembered ---

// Adds an agreed view; the oldest one is dropped if there is no room. All are dropped if this view is no newer: they
// belong to a group that has died, and that others have founded anew. [group]
void ep_views_add(weft_ep_t *ep, const struct group_view *view);
// The view of `epoch`, or the oldest kept view that is newer; NULL if none is known yet. Returns a reference. [any]
const struct group_view *ep_views_find(weft_ep_t *ep, uint64_t epoch);
// Epoch of the first kept view that has this rank; if none has it, the epoch of the next view. [any]
uint64_t ep_views_first_own(weft_ep_t *ep);
// Whether the newest agreed view has this rank and incarnation. [any]
bool ep_views_has(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
// Whether any kept view has that rank and incarnation. [any]
bool ep_views_had(weft_ep_t *ep, int32_t rank, uint64_t incarnation);
void ep_views_free(weft_ep_t *ep);

// The bytes of a dispatch as the caller counts them: `selections` valid (token, expert) pairs, each with 16 bytes
// besides its values and scales.
static inline uint64_t ep_logical_bytes(uint64_t row_bytes, uint64_t selections) {
  return selections * (row_bytes + 16);
}

static inline struct ep_doorbell *ep_own_bell(weft_ep_t *ep) {
  return ep->bell.memory;
}

#endif
