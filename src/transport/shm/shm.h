// The transport between processes of one host.
//
// Windows (memory with a sealed memfd) are mapped by both sides, so a transfer is a memcpy, and the target does
// nothing. Memory without a descriptor is reached with process_vm_readv and -writev. Small requests move in post(), in
// the caller's thread; those of more than SHM_INLINE bytes in progress(), so that post() returns soon. Nothing but a
// message waits for the peer: until its ring has room.
//
// How one finds the other: an address is a pid and the number of a descriptor in that process, opened through /proc:
// its proof page (proof.c), with which the process itself says which page and doorbell are its worker's. A pidfd tells
// whether the process still is. Address and keys are sealed by who made them (seal.h), the address together with the
// name of its owner: nobody gives them for his own, widens or moves them.
//
// What a peer writes into pages is not believed: positions of rings are kept on each side, and descriptors that a slot
// names are opened only if the sender's own proof names them.
//
// Taking back a region: each region has a gate in its owner's page. Initiators say there that they go in and out around
// each stretch of at most SHM_STRETCH bytes; unreg() closes the gate and waits until no living process is inside. A
// fence does the same to one peer, whichever gate it is at.
//
// Messages and threads: threads that post to one peer push onto its inbox. One of them has the peer's turn and moves
// what is there into the ring; who finds the turn taken leaves word, and the holder looks again before it goes. Nobody
// waits.
#ifndef TRANSPORT_SHM_SHM_H
#define TRANSPORT_SHM_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "transport/shm/page.h"
#include "transport/shm/seal.h"
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

// Which file a descriptor has to be.
struct shm_file {
  mode_t type; // S_IFREG, S_IFIFO
  uint64_t device, inode;
};

// A worker's page in this process; its own, or mapped by a peer. Workers and peers of one process share one mapping.
struct shm_home {
  struct shm_page *page;
  size_t size;
  pid_t pid; // whose it is
  uint64_t cookie;
  struct shm_file file;
  uint32_t users;
  struct shm_home *next;
  // A worker's own:
  bool own;
  int page_fd, proof_fd;
  struct shm_file proof;
  uint8_t secret[SHM_SECRET], own_secret[SHM_SECRET]; // as seal.h has them
  uint64_t bell_inode;
  int bell_fd;
  _Atomic uint64_t ours[SHM_SLOTS / 64]; // slots whose senders are in this process
};

// How the seals of a peer are checked.
struct shm_trust {
  uint8_t secret[SHM_SECRET], own_secret[SHM_SECRET];
  bool own; // the peer's worker is in this process; else own_secret is not known
};

struct shm_worker {
  struct transport_worker base;
  struct shm_home *home;
  struct shm_page *page; // the home's
  char *owner;           // "": nobody
  int page_fd, bell_read, bell_write, epoll;
  uint64_t bell_device;
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
  int bells[SHM_SLOTS];      // of those who send here, once they were needed; -1: not open
  uint64_t tails[SHM_SLOTS]; // how far their rings were read
  bool broken[SHM_SLOTS];    // they have written nonsense: nothing more is read from them
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
  struct shm_trust trust;
  uint64_t head;   // of the ring, with the turn
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
// A worker's own page, and its proof, which names that doorbell.
int shm_home_create(uint64_t cookie, int bell_fd, const struct shm_file *bell, int *fd, struct shm_home **home);
// That worker's of this process, to be left; NULL: there is none.
struct shm_home *shm_home_own(uint64_t cookie);
// That mapping of another process's page that is there already, to be left; or NULL.
struct shm_home *shm_home_find(pid_t pid, uint64_t cookie, const struct shm_file *file);
int shm_home_map(int fd, pid_t pid, uint64_t cookie, const struct shm_file *file, struct shm_home **home);
void shm_home_leave(struct shm_home *home);
// Whether the descriptor is the proof page of a worker of this process. Closing such a one takes the lock away.
bool shm_home_is_proof(int fd);
// Locks the proofs of this process's workers again.
void shm_home_lock_again(void);

// road.c: descriptors of other processes
// Opens descriptor `fd` of process `pid`, if it is that file; anything else is left untouched.
int shm_road_open(pid_t pid, int fd, int flags, const struct shm_file *file, const char *what, int *opened);
int shm_road_pidfd(pid_t pid, int *fd);
bool shm_road_alive(int pidfd);

// proof.c
int shm_proof_create(const struct shm_proof *proof, int *fd);
int shm_proof_lock(int fd);
// What that process, which is not this one, says in descriptor `fd`, which is that file, of its own worker with that
// cookie. AUTH: it is not that process's own word. UNREACHABLE: it is gone, or cannot be looked into.
int shm_proof_read(pid_t pid, int fd, const struct shm_file *file, uint64_t cookie, struct shm_proof *proof);

// seal.c: what seal.h has, for an owner
int shm_sign(const struct shm_home *home, const char *kind, const void *bytes, size_t size, const char *owner,
             struct shm_seal *seal);
int shm_sign_check(const struct shm_trust *trust, const char *kind, const void *bytes, size_t size, const char *owner,
                   const struct shm_seal *seal);

// address.c: what travels, sealed
struct shm_address {
  uint64_t host[2], pid_space, cookie;
  uint64_t proof_inode;
  uint32_t pid;
  int32_t proof_fd;
};
struct shm_key {
  uint64_t cookie, id, address, length, device, inode, fd_offset;
  uint32_t gate;
  int32_t fd; // -1: no window
  uint32_t read_only;
};
// What was read, where it stands, to be checked against its seal.
struct shm_signed {
  const void *bytes;
  size_t size;
  struct shm_seal seal;
};
int shm_address_pack(const struct shm_home *home, const char *owner, const struct shm_address *address, void *bytes,
                     size_t *size);
int shm_address_read(struct shm_address *address, const void *bytes, size_t size, struct shm_signed *signature);
int shm_address_check(const struct shm_trust *trust, const char *owner, const struct shm_signed *signature);
int shm_key_pack(const struct shm_home *home, const struct shm_key *key, void *bytes, size_t *size);
int shm_key_read(struct shm_key *key, const void *bytes, size_t size, struct shm_signed *signature);
int shm_key_check(const struct shm_trust *trust, const struct shm_signed *signature);

// memory.c
int shm_reg(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
void shm_unreg(struct transport_region *region);
int shm_pack(struct transport_region *region, void *bytes, size_t *size);

// gate.c
// One that is free. LIMIT.
int shm_gate_take(struct shm_worker *worker, uint32_t *index);
void shm_gate_give(struct shm_worker *worker, uint32_t index);
// Its new id.
uint64_t shm_gate_open(struct shm_worker *worker, uint32_t index);
// Goes in, for one stretch; false: the region was taken back, or shm_gate_fenced(). `*place` is for leave().
bool shm_gate_enter(const struct shm_peer *peer, const struct shm_remote *remote, uint32_t *place);
// Whether the peer has lost this side.
bool shm_gate_fenced(const struct shm_peer *peer);
void shm_gate_leave(const struct shm_peer *peer, const struct shm_remote *remote, uint32_t place);
// Until nobody is inside who still lives. False: somebody stays, who was stopped there.
bool shm_gate_close(struct shm_worker *worker, uint32_t index);
// The table's: what that peer's worker sends from has no way in any more.
void shm_fence(struct transport_peer *peer);

// memory_remote.c
int shm_import(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);
void shm_release(struct transport_remote *remote);
void *shm_map(struct transport_remote *remote);

// peer.c
int shm_connect(struct transport_worker *worker, const void *address, size_t size, const char *owner,
                struct transport_peer **peer);
void shm_disconnect(struct transport_peer *peer);
// Ends its requests with `err`, and says so to the user.
void shm_peer_lost(struct shm_peer *peer, int err, const char *why);
void shm_peer_free(struct shm_peer *peer);

// request_queue.c: messages on their way out
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

// request.c
int shm_prepare(struct transport_request *request);
void shm_unprepare(struct transport_request *request);
int shm_post(struct transport_request *request);
void shm_cancel(struct transport_request *request);
// Its pieces are through: the message, if they all came, and the end. Counts it out of peer->active.
void shm_pieces_done(struct shm_op *op);
// `why` may be NULL. The last touch of the request.
void shm_finish(struct transport_request *request, int state, const char *why);

// request_walk.c
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

// process_vm.c: a stretch of the pieces that follow and are of this remote; moves the walk on. False: the rest of that
// remote's pieces cannot be reached either, they have failed.
bool shm_vm_stretch(struct shm_walk *walk, const struct shm_remote *remote);
// Whether process `pid` is this user's and lets us reach its memory.
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
