// The functions of a worker of shm for the transport that embeds it.
#include "transport/shm/embed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "transport/shm/shm.h"

int shm_seal_make(const struct transport_worker *base, const char *kind, const void *bytes, size_t size,
                  struct shm_seal *seal) {
  return shm_sign(((const struct shm_worker *)base)->home, kind, bytes, size, "", seal);
}

int shm_seal_check(const struct transport_peer *base, const char *kind, const void *bytes, size_t size,
                   const struct shm_seal *seal) {
  return shm_sign_check(&((const struct shm_peer *)base)->trust, kind, bytes, size, "", seal);
}

int shm_grant_open(struct transport_worker *base, struct shm_grant *grant) {
  struct shm_worker *worker = (struct shm_worker *)base;
  uint32_t gate = 0;
  int rc = shm_gate_take(worker, &gate);
  if (rc == 0)
    *grant = (struct shm_grant){.id = shm_gate_open(worker, gate), .gate = gate};
  return rc;
}

void shm_grant_close(struct transport_worker *base, const struct shm_grant *grant) {
  struct shm_worker *worker = (struct shm_worker *)base;
  if (shm_gate_close(worker, grant->gate))
    shm_gate_give(worker, grant->gate);
}

bool shm_grant_holds(const struct transport_peer *base, const struct shm_grant *grant) {
  const struct shm_peer *peer = (const struct shm_peer *)base;
  return grant->gate < SHM_REGIONS && atomic_load(&peer->page->gates[grant->gate].id) == grant->id;
}

bool shm_peer_is_own(const struct transport_peer *base) {
  return ((const struct shm_peer *)base)->trust.own;
}

int shm_peer_descriptor(const struct transport_peer *base, int fd, int *out) {
  const struct shm_peer *peer = (const struct shm_peer *)base;
  int found = -1;
  if (peer->trust.own)
    found = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  else
    found = (int)syscall(SYS_pidfd_getfd, peer->pidfd, fd, 0);
  if (found < 0 && peer->trust.own)
    return fail_errno(errno, "cannot duplicate a window's descriptor");
  if (found < 0)
    return fail(WEFT_ERR_UNREACHABLE,
                "the windows of process %d cannot be opened (%s): the same user and kernel.yama.ptrace_scope=0, or "
                "CAP_SYS_PTRACE, are needed; memory of cudaMalloc needs neither",
                (int)peer->pid, strerror(errno));
  if (shm_home_is_proof(found)) {
    close(found);
    shm_home_lock_again(); // closing it has released this process's lock
    return fail(WEFT_ERR_AUTH, "process %d names a file of this process as its window", (int)peer->pid);
  }
  *out = found;
  return 0;
}
