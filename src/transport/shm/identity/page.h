// The memory that a worker shares with the others of its host: one memfd, which they open through its owner's
// /proc/PID/fd. They map its head, and each of them maps the ring into which it sends. Memory that is never touched is
// never allocated.
#ifndef TRANSPORT_SHM_IDENTITY_PAGE_H
#define TRANSPORT_SHM_IDENTITY_PAGE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
  SHM_SLOTS = 1024,    // senders to a worker
  SHM_REGIONS = 65536, // regions registered at a time
  SHM_INSIDE = 16,     // threads of a sender inside gates that are recorded individually
  SHM_RING = 65536,    // bytes of messages in flight between two workers
  SHM_VERSION = 5,     // of this page, of proofs, addresses and keys
};
#define SHM_MAGIC       0x65676170746677u   // "wftpage"
#define SHM_PROOF_MAGIC 0x666f6f7270746677u // "wftproof"

enum shm_slot_state {
  SHM_SLOT_FREE,
  SHM_SLOT_READY, // its owner sends
  SHM_SLOT_LEFT,  // its sender sends nothing more
};

// A sender's messages. One sender writes, the page's owner reads; positions count up, and are taken modulo SHM_RING.
struct shm_slot {
  alignas(64) _Atomic uint64_t owner; // 0: free; the sender's pid << 32 | a random number: set in one atomic step
  _Atomic uint32_t state;
  int32_t proof_fd;                  // of the sender's worker, in its process: names its doorbell
  uint64_t proof_inode;              // that descriptor's inode
  uint64_t sender;                   // the cookie of the sender's worker
  alignas(64) _Atomic uint64_t head; // the sender's
  alignas(64) _Atomic uint64_t tail; // the owner's
  _Atomic uint32_t waiting;          // the sender has messages for which there was no room
  _Atomic uint32_t fenced;           // written by the owner: the sender may not enter any gate any more
  // The gates, plus one, that threads of the sender are inside; 0: a free entry. The owner sees by them for which
  // processes to wait.
  alignas(64) _Atomic uint32_t inside[SHM_INSIDE];
};

// The fence of a registered region: a thread that is about to touch it enters it in its slot, checks `id`, and clears
// the entry afterwards.
struct shm_gate {
  _Atomic uint64_t id;    // 0: none
  _Atomic uint32_t users; // number of threads that found no free entry in their slot
  uint32_t padding;
};

struct shm_page {
  uint64_t magic;
  uint32_t version;
  uint32_t pid;
  uint64_t cookie; // of this worker: a worker of a later process with this pid has another cookie
  _Atomic uint32_t closed;
  alignas(64) _Atomic uint32_t armed;                 // the owner sleeps: ring its doorbell
  _Atomic uint32_t sweep;                             // a sender found no free slot
  _Atomic uint32_t next_slot;                         // where to search for a free slot
  _Atomic uint32_t slots_used;                        // slots from here on were never taken
  alignas(64) _Atomic uint64_t ready[SHM_SLOTS / 64]; // a bit for each slot that has messages
  struct shm_slot slots[SHM_SLOTS];
  struct shm_gate gates[SHM_REGIONS];
};

// The contents of a worker's proof page, see proof.c.
struct shm_proof {
  uint64_t magic;
  uint32_t version, pid;
  uint64_t cookie;
  uint64_t page_inode, bell_inode; // inodes on this host's devices of memfds and pipes
  int32_t page_fd, bell_fd;
  uint8_t secret[32];
};

// The rings follow, each at the beginning of a page. The largest pages (of arm64) are as large as a ring.
#define SHM_RINGS     ((sizeof(struct shm_page) + SHM_RING - 1) / SHM_RING * SHM_RING)
#define SHM_PAGE_SIZE (SHM_RINGS + (size_t)SHM_SLOTS * SHM_RING)

// A message in a ring: this header, then its bytes, padded to a multiple of 8. The bytes may wrap around.
struct shm_record {
  uint32_t size;
  uint32_t padding;
};

#endif
