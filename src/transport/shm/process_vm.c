// Memory that has no descriptor, by process_vm_readv and process_vm_writev.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "transport/shm/shm.h"

enum {
  BATCH = 256,
  TRUST_NS = 1000000, // so long after its process was seen to live a pid is not another's
};

// The kernel assigns pids in turn, from at least 32,768: before another process can get the peer's pid, the peer has
// died and been reaped, and all other pids have been assigned. That takes a host tens of milliseconds, if it does
// nothing else. So a post checks only once in a while; a check each time would take half as long as the copy of a few
// bytes.
static bool pid_is_its(struct shm_peer *peer) {
  uint64_t now = clock_ns();
  if (now - atomic_load_explicit(&peer->lived_ns, memory_order_relaxed) < TRUST_NS)
    return true;
  if (!shm_proc_alive(peer->pidfd))
    return false;
  atomic_store_explicit(&peer->lived_ns, now, memory_order_relaxed);
  return true;
}

// Collects as many of the pieces that follow as one call takes.
static uint32_t collect(const struct shm_walk *walk, const struct shm_remote *remote, struct iovec *local,
                        struct iovec *there) {
  const struct transport_request *request = walk->request;
  uint64_t budget = SHM_STRETCH, offset = walk->offset;
  uint32_t count = 0;
  for (uint32_t i = walk->at; i < request->num_pieces && count < BATCH && budget; i++, offset = 0) {
    const struct transport_piece *piece = &request->pieces[i];
    if (piece->remote != &remote->base)
      break;
    uint64_t left = piece->length - offset, size = left < budget ? left : budget;
    local[count] = (struct iovec){(void *)(uintptr_t)(piece->local_address + offset), size};
    there[count++] = (struct iovec){(void *)(uintptr_t)(piece->remote_address + offset), size};
    budget -= size;
  }
  return count;
}

static bool fail_by(struct shm_walk *walk, const struct shm_remote *remote, int error) {
  char text[64];
  switch (error) {
  case EFAULT:
    shm_walk_fail(walk, WEFT_ERR_NOT_FOUND, "piece %u: its memory is not mapped, here or at the peer", walk->at);
    return true;
  case ESRCH:
    shm_walk_fail_remote(walk, remote, WEFT_ERR_PEER_LOST, "the peer's process is gone");
    return false;
  case EPERM:
    shm_walk_fail_remote(walk, remote, WEFT_ERR_UNREACHABLE,
                         "the kernel no longer lets this process reach the peer's memory");
    return false;
  default:
    shm_walk_fail_remote(walk, remote, error == ENOMEM ? WEFT_ERR_NOMEM : WEFT_ERR_SYSTEM,
                         strerror_r(error, text, sizeof text));
    return false;
  }
}

bool shm_vm_stretch(struct shm_walk *walk, const struct shm_remote *remote) {
  struct shm_peer *peer = (struct shm_peer *)remote->base.peer;
  struct iovec local[BATCH], there[BATCH];
  uint32_t count = collect(walk, remote, local, there);
  if (!pid_is_its(peer)) {
    shm_walk_fail_remote(walk, remote, WEFT_ERR_PEER_LOST, "the peer's process has died");
    return false;
  }
  ssize_t moved;
  do
    moved = walk->request->op == WEFT_TRANSFER_WRITE ? process_vm_writev(peer->pid, local, count, there, count, 0)
                                                     : process_vm_readv(peer->pid, local, count, there, count, 0);
  while (moved < 0 && errno == EINTR);
  if (moved < 0)
    return fail_by(walk, remote, errno);
  // Fewer bytes than requested: the next call begins where this one stopped, and returns the error.
  if (moved == 0 && walk->request->pieces[walk->at].length != walk->offset)
    return fail_by(walk, remote, EFAULT);
  shm_walk_advance(walk, (uint64_t)moved);
  return true;
}

// Another user's process may at any time run a program with more rights than both have, and the memory that is written
// would then be that program's. (The kernel checks rights at each call; root has them all.)
static int check_user(pid_t pid) {
  char path[64], line[128];
  unsigned real = 0, effective = 0;
  bool found = false;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *file = fopen(path, "re");
  while (file && !found && fgets(line, sizeof line, file))
    found = sscanf(line, "Uid: %u %u", &real, &effective) == 2;
  if (file)
    fclose(file);
  if (!found)
    return fail(WEFT_ERR_UNREACHABLE, "cannot find out the user of process %d", (int)pid);
  if (real == geteuid() && effective == geteuid())
    return 0;
  return fail(WEFT_ERR_UNREACHABLE,
              "process %d is of user %u, and memory without a sealed memfd is reached between processes of one user: "
              "register memory that can be mapped, as weft_agent_allocate() makes it",
              (int)pid, effective);
}

int shm_vm_check(pid_t pid, uint64_t address) {
  int rc = check_user(pid);
  if (rc != 0)
    return rc;
  char byte, scope[16] = "";
  struct iovec local = {&byte, 1}, there = {(void *)(uintptr_t)address, 1};
  if (process_vm_readv(pid, &local, 1, &there, 1, 0) == 1)
    return 0;
  int error = errno;
  if (error == EFAULT)
    return fail(WEFT_ERR_UNREACHABLE, "process %d has no memory at that address", (int)pid);
  if (error == ESRCH)
    return fail(WEFT_ERR_PEER_LOST, "process %d is gone", (int)pid);
  if (error != EPERM)
    return fail_errno(error, "cannot reach the memory of process %d", (int)pid);
  FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
  if (file) {
    if (fscanf(file, "%15s", scope) != 1)
      scope[0] = '\0';
    fclose(file);
  }
  return fail(WEFT_ERR_UNREACHABLE,
              "the kernel does not let this process reach the memory of process %d%s%s: set "
              "kernel.yama.ptrace_scope to 0, or have CAP_SYS_PTRACE, or register memory that can be mapped (a sealed "
              "memfd, as weft_agent_allocate() makes it)",
              (int)pid, scope[0] ? ", kernel.yama.ptrace_scope is " : "", scope);
}
