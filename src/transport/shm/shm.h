// The transport between processes of one host.
//
// Windows (memory with a sealed memfd) are mapped by both sides, so a transfer is a memcpy, and the target does
// nothing. Memory without a descriptor is reached with process_vm_readv and -writev. Small requests move in post(), in
// the caller's thread; those of more than SHM_INLINE bytes in progress(), so that post() returns soon. Only a message
// waits for the peer, until its ring has room.
//
// Connecting: an address is a pid and the number of a descriptor in that process, which is opened through /proc. It is
// the worker's proof page (identity/proof.c), in which the process names the page and the doorbell of the worker. A
// pidfd shows whether the process lives. Addresses and keys are sealed by the worker that made them (identity/seal.h),
// an address together with the name of its owner, so that no other process can make, change or reuse them.
//
// Data that a peer writes into pages is not trusted: each side keeps its own positions in rings, and a descriptor that
// a slot names is opened only if the sender's proof names it, too.
//
// Deregistering: each region has a gate in its owner's page. Initiators enter and leave it around each stretch of at
// most SHM_STRETCH bytes; unreg() closes the gate and waits until no living process is inside. A fence does the same at
// all gates for one peer only.
//
// Messages and threads: threads that post to one peer push onto its inbox. One of them sets peer->sending and moves the
// inbox into the ring. A thread that finds it set asks the sending thread to check the inbox again. No thread waits.
#ifndef TRANSPORT_SHM_SHM_H
#define TRANSPORT_SHM_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "transport/shm/embed.h"
#include "transport/shm/identity/identity.h"
#include "transport/shm/identity/page.h"
#include "transport/transport.h"

enum {
  SHM_INLINE = 256 << 10,   // bytes that post() moves itself
  SHM_STREAM = 16 << 20,    // a request of so many bytes is copied past the caches
  SHM_RUN = 16 << 10,       // bytes of such a request that are prefetched while as many before them are copied
  SHM_MOVES = 4,            // stretches that progress() moves at a time
  SHM_STRETCH = 1 << 20,    // bytes between checks of the gate and of cancel()
  SHM_FENCE_MS = 200,       // how long unreg() waits for threads inside a gate, which may be stopped there
  SHM_FENCE_OWN_MS = 20000, // the same for threads of this process, which can only be waiting for a processor
  SHM_LOOK_EVERY = 256,     // progress() calls between checks of descriptors
  SHM_WHY = 120,            // of a request
};

struct shm_worker {
  struct transport_worker base;
  struct shm_home *home;
  struct shm_page *page; // the home's
  char *owner;           // "": nobody
  int page_fd, bell_read, bell_write, epoll;
  uint64_t bell_device;
  uint64_t host[2], pid_space; // the host and the processes that can be reached
  bool no_map, no_vm, no_here; // settings
  bool slept;
  uint32_t ticks, next_gate;
  uint64_t next_id;
  _Atomic uint32_t waiting;            // peers with messages that wait for room
  _Atomic(struct shm_op *) large;      // requests for progress() to move, newest first
  struct shm_op *moving, *last_moving; // in progress()
  struct shm_peer *peers, *leaving;
  struct shm_region *regions;
  int bells[SHM_SLOTS];      // of senders, opened when first needed; -1: not open
  uint64_t tails[SHM_SLOTS]; // positions up to which their rings were read
  bool broken[SHM_SLOTS];    // they sent malformed messages: nothing more is read from them
  unsigned char message[TRANSPORT_MAX_MESSAGE];
  uint32_t *taken; // [SHM_REGIONS / 32] gates in use
};

struct shm_region {
  struct transport_region base;
  struct shm_region *next, **link;
  uint32_t gate;
  uint64_t id;
  bool window; // peers may map it
  uint64_t device, inode;
};

// The progress of a request through its pieces.
struct shm_walk {
  struct transport_request *request;
  uint32_t at;     // the piece
  uint64_t offset; // in it
  bool past_caches;
  int failure; // the first
};

struct shm_op {
  struct shm_walk walk;
  struct shm_op *next; // in the worker's movers, then in the peer's inbox and queue
  bool large, past_caches;
  _Atomic bool canceled;
};

struct shm_peer {
  struct transport_peer base;
  struct shm_worker *worker;
  struct shm_peer *next;
  struct shm_home *home;
  struct shm_page *page; // the home's
  struct shm_slot *slot;
  unsigned char *ring;
  uint32_t index; // of the slot
  pid_t pid;
  uint64_t cookie; // of its worker
  struct shm_trust trust;
  uint64_t head;   // of the ring; only the sending thread uses it
  bool here;       // in this process
  int pidfd, bell; // -1: none
  bool reported;   // on_peer was called
  struct shm_remote *remotes;
  char why[SHM_WHY];              // of `failed`, set before it
  _Atomic int ended;              // 0, or the code that every request ends with: as base.failed, or CANCELED
  _Atomic uint32_t active;        // threads in post()
  _Atomic uint32_t sending;       // 0: no thread sends; 1: one does; 2: it has to check the inbox again
  _Atomic bool cancels;           // some op was canceled
  _Atomic uint64_t lived_ns;      // when `pidfd` last showed that it lives: process_vm.c
  _Atomic bool waits;             // counted in worker->waiting
  _Atomic(struct shm_op *) inbox; // newest first
  struct shm_op *first, *last;    // in order; the sending thread's
};

struct shm_remote {
  struct transport_remote base;
  struct shm_remote *next, **link;
  struct shm_gate *gate;
  uint32_t gate_index;
  uint64_t id;
  unsigned char *memory; // address of the region in this process; NULL: it is reached by process_vm
  void *mapping;         // ours to unmap
  size_t mapping_size;
  bool read_only;
};

// memory.c
int shm_reg(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
void shm_unreg(struct transport_region *region);
int shm_pack(struct transport_region *region, void *bytes, size_t *size);

// gate.c
// Reserves a free gate. LIMIT.
int shm_gate_take(struct shm_worker *worker, uint32_t *index);
void shm_gate_give(struct shm_worker *worker, uint32_t index);
// Opens a gate; returns its new id.
uint64_t shm_gate_open(struct shm_worker *worker, uint32_t index);
// Enters a gate for one stretch; false: the region was deregistered, or shm_gate_fenced(). Pass `*place` to leave().
bool shm_gate_enter(const struct shm_peer *peer, const struct shm_remote *remote, uint32_t *place);
// Whether the peer has fenced this worker.
bool shm_gate_fenced(const struct shm_peer *peer);
void shm_gate_leave(const struct shm_peer *peer, const struct shm_remote *remote, uint32_t place);
// Closes a gate, and waits until no living process is inside. False: a process was stopped inside.
bool shm_gate_close(struct shm_worker *worker, uint32_t index);
// The table's fence(): that peer's worker cannot enter any gate of this worker any more.
void shm_fence(struct transport_peer *peer);

// memory_remote.c
int shm_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);
void shm_release(struct transport_remote *remote);
void *shm_map(struct transport_remote *remote);

// peer.c
int shm_connect(struct transport_worker *worker, const void *address, size_t size, const char *owner,
                struct transport_peer **peer);
void shm_disconnect(struct transport_peer *peer);
// Ends the peer's requests with `err`, and calls on_peer.
void shm_peer_lost(struct shm_peer *peer, int err, const char *why);
void shm_peer_free(struct shm_peer *peer);

// request_queue.c: messages on their way out, and the ends of requests
// Sends waiting messages, as far as the ring has room. If another thread is sending, that thread checks again instead.
void shm_queue_send(struct shm_peer *peer);
// Queues the message of a request whose pieces have been moved, and sends waiting messages.
void shm_queue_message(struct shm_peer *peer, struct shm_op *op);
// Ends the request, which is not used afterwards. `why` may be NULL.
static inline void shm_finish(struct transport_request *request, int state, const char *why) {
  void (*done)(struct transport_request *) = request->done;
  if (why)
    snprintf(request->why, sizeof request->why, "%s", why);
  atomic_store_explicit(&request->state, state, memory_order_release);
  if (done)
    done(request);
}
// The pieces of a request have been moved or have failed: sends the message if all were moved, and ends the request.
// Decrements peer->active. Both functions are inline, since every post() ends with them.
static inline void shm_pieces_done(struct shm_op *op) {
  struct transport_request *request = op->walk.request;
  struct shm_peer *peer = (struct shm_peer *)request->peer;
  if (op->walk.failure != 0 || !request->message)
    shm_finish(request, op->walk.failure, NULL);
  else
    shm_queue_message(peer, op);
  atomic_fetch_sub(&peer->active, 1); // the last use of the peer
}

// ring.c
enum { SHM_RING_FULL = 1 };
int shm_ring_put(struct shm_peer *peer, const void *bytes, uint32_t size);
void shm_ring_notify(struct shm_peer *peer);
// Wakes this worker if it sleeps. Any thread.
void shm_ring_wake(struct shm_worker *worker);
// Rings the sender of a slot.
void shm_ring_wake_sender(struct shm_worker *worker, uint32_t index);
uint32_t shm_ring_receive(struct shm_worker *worker);
// Also reads messages without a notification, whose sender died before it could notify.
uint32_t shm_ring_receive_all(struct shm_worker *worker);
// Frees the slots of senders that have died.
void shm_ring_sweep(struct shm_worker *worker);

// request.c
int shm_prepare(struct transport_request *request);
void shm_unprepare(struct transport_request *request);
int shm_post(struct transport_request *request);
void shm_cancel(struct transport_request *request);

// request_move.c
// Moves up to that many stretches of the request's pieces; true: all have been moved or have failed.
bool shm_move(struct shm_op *op, uint32_t stretches);
// Passes a large request to progress(). Any thread.
void shm_move_later(struct shm_op *op);
// Part of progress(): returns the number of requests that were advanced.
uint32_t shm_move_on(struct shm_worker *worker);

// request_walk.c
// The piece has been moved: advances to the next one.
static inline void shm_walk_done(struct shm_walk *walk) {
  if (walk->request->status)
    walk->request->status[walk->at] = 0;
  walk->at++;
  walk->offset = 0;
}
// Advances by so many bytes, which were moved.
void shm_walk_advance(struct shm_walk *walk, uint64_t bytes);
// Ends the piece with that code and advances to the next one.
void shm_walk_fail(struct shm_walk *walk, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
// The same for all following pieces of this remote.
void shm_walk_fail_remote(struct shm_walk *walk, const struct shm_remote *remote, int err, const char *why);

// process_vm.c: moves a stretch of the following pieces of this remote, and advances. False: the rest of that remote's
// pieces cannot be reached either; they have failed.
bool shm_vm_stretch(struct shm_walk *walk, const struct shm_remote *remote);
// Checks that process `pid` is this user's and that the kernel lets this process reach its memory.
int shm_vm_check(pid_t pid, uint64_t address);

// copy.c: copies past the caches
struct shm_run {
  unsigned char *to;
  const unsigned char *from;
  size_t size; // 0: there is none
};
// Copies `now`, and prefetches what `next` and then `later` will need.
void shm_stream(const struct shm_run *now, const struct shm_run *next, const struct shm_run *later);
// Call it after the last copy: the copied data is visible before later stores.
void shm_stream_end(void);

#endif
