// How processes of one host identify each other's workers: shared pages, proofs of their owners, and sealed addresses.
#ifndef TRANSPORT_SHM_IDENTITY_IDENTITY_H
#define TRANSPORT_SHM_IDENTITY_IDENTITY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "transport/shm/identity/page.h"
#include "transport/shm/identity/seal.h"

// The file that a descriptor has to refer to.
struct shm_file {
  mode_t type; // S_IFREG, S_IFIFO
  uint64_t device, inode;
};

// The mapping of a worker's page in this process: the worker is of this process, or a peer. Workers and peers of one
// process share one mapping.
struct shm_home {
  struct shm_page *page;
  size_t size;
  pid_t pid; // process of the worker
  uint64_t cookie;
  struct shm_file file;
  uint32_t users;
  struct shm_home *next;
  // Only for a worker of this process:
  bool own;
  int page_fd, proof_fd;
  struct shm_file proof;
  uint8_t secret[SHM_SECRET], own_secret[SHM_SECRET]; // as in seal.h
  uint64_t bell_inode;
  int bell_fd;
  _Atomic uint64_t ours[SHM_SLOTS / 64]; // slots whose senders are in this process
};

// --- home.c: pages in this process ---

// Makes a worker's own page, and its proof, which names that doorbell.
int shm_home_create(uint64_t cookie, int bell_fd, const struct shm_file *bell, int *fd, struct shm_home **home);
// The page of that worker of this process, with a reference that shm_home_leave() releases; NULL: there is none.
struct shm_home *shm_home_own(uint64_t cookie);
// The existing mapping of that page in this process, with a reference that shm_home_leave() releases; NULL: there is
// none.
struct shm_home *shm_home_find(pid_t pid, uint64_t cookie, const struct shm_file *file);
int shm_home_map(int fd, pid_t pid, uint64_t cookie, const struct shm_file *file, struct shm_home **home);
void shm_home_leave(struct shm_home *home);
// Whether the descriptor is the proof page of a worker of this process. Closing such a descriptor releases its lock.
bool shm_home_is_proof(int fd);
// Locks the proofs of this process's workers again.
void shm_home_lock_again(void);

// --- proc.c: descriptors of other processes ---

// Opens descriptor `fd` of process `pid` if it is that file; does nothing to any other file.
int shm_proc_open(pid_t pid, int fd, int flags, const struct shm_file *file, const char *what, int *opened);
int shm_proc_pidfd(pid_t pid, int *fd);
bool shm_proc_alive(int pidfd);

// --- proof.c ---

int shm_proof_create(const struct shm_proof *proof, int *fd);
int shm_proof_lock(int fd);
// Reads the proof of another process's worker with that cookie, from its descriptor `fd`, which is that file. AUTH: the
// proof was not made by that process. UNREACHABLE: the process is gone, or may not be examined.
int shm_proof_read(pid_t pid, int fd, const struct shm_file *file, uint64_t cookie, struct shm_proof *proof);

// --- address.c: addresses and keys, sealed ---

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
// The bytes that were read, and their seal.
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

#endif
