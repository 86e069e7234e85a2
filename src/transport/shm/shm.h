// The transport between processes of one host.
//
// Windows (memory with a sealed memfd) are mapped by both sides, so a transfer is a memcpy, and the target does
// nothing. Memory without a descriptor is reached with process_vm_readv and -writev. Small requests move in post(), in
// the caller's thread; those of more than SHM_INLINE bytes in progress(), so that post() returns soon. Nothing but a
// message waits for the peer: until its ring has room.
//
// How one finds the other: an address is a pid and the numbers of descriptors in that process, opened through /proc.
// Inodes and a cookie tell whether they still are what was meant, and a pidfd whether the process still is.
//
// Taking back a region: each region has a gate in its owner's page. Initiators say there that they go in and out around
// each stretch of at most SHM_STRETCH bytes; unreg() closes the gate and waits until no living process is inside. A
// fence does the same to one peer, whichever gate it is at.
//
// Messages and threads: threads that post to one peer push onto its inbox. One of them has the peer's turn and moves
// what is there into the ring; who finds the turn taken leaves word, and the holder looks again before it goes. Nobody
// waits.
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "transport/shm/page.h"
#include "transport/transport.h"

enum {
  SHM_INLINE = 256 << 10,   // bytes that post() moves itself
  SHM_STREAM = 16 << 20,    // bytes of a request that go past the caches
  SHM_RUN = 16 << 10,       // of those, bytes that are asked for while as many before them are copied
  SHM_TURN = 4,             // stretches that progress() moves at a time
  SHM_STRETCH = 1 << 20,    // bytes between looks at the gate and at cancel()
  SHM_FENCE_MS = 200,       // how long unreg() waits for those inside: one of them may have been stopped there
  SHM_FENCE_OWN_MS = 20000, // the same for threads of this process, which only wait for a processor
  SHM_LOOK_EVERY = 256,     // progress() calls between looks at descriptors
  SHM_WHY = 120,            // of a request
};

// A worker's page in this process; its own, or mapped by a peer. Workers and peers of one process share one mapping.
struct shm_home {
  struct shm_page *page;
  size_t size;
  uint64_t cookie;
  uint32_t users;
  struct shm_home *next;
};

extern const struct transport transport_shm;

struct shm_worker {
  struct transport_worker base;
  struct shm_home *home;
  struct shm_page *page; // the home's
  int page_fd, bell_read, bell_write, epoll;
  uint64_t page_device, page_inode, bell_device, bell_inode;
  uint64_t host[2], pid_space; // which hosts and processes can be reached
  bool no_map, no_vm, no_here; // settings
  bool slept;
  uint32_t ticks, next_gate;
  uint64_t next_id;
  _Atomic uint32_t waiting;            // peers with messages that wait for room
  _Atomic(struct shm_op *) large;      // requests for progress() to move, newest first
  struct shm_op *moving, *last_moving; // in progress()
  struct shm_peer *peers, *leaving;
  struct shm_region *regions;
  int bells[SHM_SLOTS]; // of those who send here, once they were needed; -1: not open
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

// Where in its pieces a request is.
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
  uint64_t owner; // its word
  pid_t pid;
  uint64_t cookie; // of its worker
  bool here;       // in this process
  int pidfd, bell; // -1: none
  bool told;       // on_peer was called
  struct shm_remote *remotes;
  char why[SHM_WHY];              // of `failed`, set before it
  _Atomic int ended;              // 0, or the code that every request ends with: as base.failed, or CANCELED
  _Atomic uint32_t active;        // threads in post()
  _Atomic uint32_t turn;          // 0 free, 1 taken, 2 taken and to look again
  _Atomic bool cancels;           // some op was canceled
  _Atomic bool waits;             // counted in worker->waiting
  _Atomic(struct shm_op *) inbox; // newest first
  struct shm_op *first, *last;    // in order; the turn's
};

struct shm_remote {
  struct transport_remote base;
  struct shm_remote *next, **link;
  struct shm_gate *gate;
  uint32_t gate_index;
  uint64_t id;
  unsigned char *memory; // of base.address in this process; NULL: by process_vm
  void *mapping;         // ours to unmap
  size_t mapping_size;
  bool read_only;
};

// home.c: pages in this process
int shm_home_create(uint64_t cookie, int *fd, struct shm_home **home);
// The one with that cookie that is there already, or NULL.
struct shm_home *shm_home_find(uint64_t cookie);
int shm_home_map(int fd, uint64_t cookie, struct shm_home **home);
void shm_home_leave(struct shm_home *home);

// road.c: descriptors of other processes
// Opens descriptor `fd` of process `pid`, if it still is that file.
int shm_road_open(pid_t pid, int fd, int flags, uint64_t device, uint64_t inode, const char *what, int *opened);
int shm_road_pidfd(pid_t pid, int *fd);
bool shm_road_alive(int pidfd);

// address.c: what travels
struct shm_address {
  uint64_t host[2], pid_space, cookie;
  uint64_t page_device, page_inode, bell_inode;
  uint32_t pid;
  int32_t page_fd, bell_fd;
};
struct shm_key {
  uint64_t cookie, id, address, length, device, inode, fd_offset;
  uint32_t gate;
  int32_t fd; // -1: no window
  uint32_t read_only;
};
int shm_address_pack(const struct shm_address *address, void *bytes, size_t *size);
int shm_address_read(struct shm_address *address, const void *bytes, size_t size);
int shm_key_pack(const struct shm_key *key, void *bytes, size_t *size);
int shm_key_read(struct shm_key *key, const void *bytes, size_t size);

// region.c
int shm_reg(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
void shm_unreg(struct transport_region *region);
int shm_pack(struct transport_region *region, void *bytes, size_t *size);

// gate.c
// Goes in, for one stretch; false: the region was taken back, or shm_gate_fenced(). `*place` is for leave().
bool shm_gate_enter(const struct shm_peer *peer, const struct shm_remote *remote, uint32_t *place);
// Whether the peer has lost this side.
bool shm_gate_fenced(const struct shm_peer *peer);
void shm_gate_leave(const struct shm_peer *peer, const struct shm_remote *remote, uint32_t place);
// Until nobody is inside who still lives. False: somebody stays, who was stopped there.
bool shm_gate_close(struct shm_worker *worker, uint32_t index);
// The table's: what that peer's worker sends from has no way in any more.
void shm_fence(struct transport_peer *peer);

// remote.c
int shm_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);
void shm_release(struct transport_remote *remote);
void *shm_map(struct transport_remote *remote);

// peer.c
int shm_connect(struct transport_worker *worker, const void *address, size_t size, struct transport_peer **peer);
void shm_disconnect(struct transport_peer *peer);
// Ends its requests with `err`, and says so to the user.
void shm_peer_lost(struct shm_peer *peer, int err, const char *why);
void shm_peer_free(struct shm_peer *peer);

// turn.c: messages on their way out
void shm_turn_push(struct shm_peer *peer, struct shm_op *op);
void shm_turn_run(struct shm_peer *peer);

// ring.c
enum { SHM_RING_FULL = 1 };
int shm_ring_put(struct shm_peer *peer, const void *bytes, uint32_t size);
void shm_ring_tell(struct shm_peer *peer);
// This worker, if it sleeps. Any thread.
void shm_ring_wake(struct shm_worker *worker);
// Rings the sender of a slot.
void shm_ring_call(struct shm_worker *worker, uint32_t index);
uint32_t shm_ring_receive(struct shm_worker *worker);
// Also what nobody has told of, because its sender died before it could.
uint32_t shm_ring_receive_all(struct shm_worker *worker);
// Slots whose senders have died.
void shm_ring_sweep(struct shm_worker *worker);
void shm_ring_forget(struct shm_worker *worker, uint32_t index);

// post.c
int shm_prepare(struct transport_request *request);
void shm_unprepare(struct transport_request *request);
int shm_post(struct transport_request *request);
void shm_cancel(struct transport_request *request);
// Its pieces are through: the message, if they all came, and the end. Counts it out of peer->active.
void shm_pieces_done(struct shm_op *op);
// `why` may be NULL. The last touch of the request.
void shm_finish(struct transport_request *request, int state, const char *why);

// move.c
// Moves up to that many stretches of the request's pieces; true when it is through with them, well or not.
bool shm_move(struct shm_op *op, uint32_t stretches);
// Hands a large request over to progress(). Any thread.
void shm_move_later(struct shm_op *op);
// In progress(): the number of requests that were moved on.
uint32_t shm_move_on(struct shm_worker *worker);
// Ends the piece with that code and goes on to the next.
void shm_walk_fail(struct shm_walk *walk, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
void shm_walk_done(struct shm_walk *walk);
void shm_walk_advance(struct shm_walk *walk, uint64_t bytes);

// vm.c: a stretch of the pieces that follow and are of this remote; moves the walk on. False: the rest of that remote's
// pieces cannot be reached either, they have failed.
bool shm_vm_stretch(struct shm_walk *walk, const struct shm_remote *remote);
// Whether process `pid` lets us reach its memory.
int shm_vm_check(pid_t pid, uint64_t address);

// copy.c: past the caches
struct shm_run {
  unsigned char *to;
  const unsigned char *from;
  size_t size; // 0: there is none
};
// Copies `now`, and asks for what `next` and then `later` will need.
void shm_stream(const struct shm_run *now, const struct shm_run *next, const struct shm_run *later);
// After the last of them: what was copied is visible before what is stored from here on.
void shm_stream_end(void);

#endif
