// The proof page: a statement of a process about one of its workers that no other process can make in its name.
//
// It is a memfd whose bytes are sealed for good, and its owner holds a POSIX record lock on its first byte. Such a lock
// belongs to a process, and the kernel reports which one: a process that finds the page under /proc/PID/fd, and PID as
// the holder of its lock, knows that the page belongs to PID, and PID need not be running for that. (A descriptor alone
// proves nothing: another process may have passed it on.) The page has two things: the numbers of the descriptors that
// others may open in that process, and a secret, with which the process has signed its address and keys.
//
// A process loses its lock when it closes any descriptor of that file. So it never opens its own by /proc, and
// shm_proc_open() refuses a file that a peer names and that is a proof page of this process.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "transport/shm/identity/identity.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL };

static struct flock first_byte(void) {
  return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
}

int shm_proof_lock(int fd) {
  struct flock lock = first_byte();
  return fcntl(fd, F_SETLK, &lock) == 0 ? 0 : fail_errno(errno, "cannot lock the proof of a worker of shared memory");
}

// Sealed first and then compared: another process may have opened it in between.
static int fill(int fd, const struct shm_proof *proof) {
  struct shm_proof found;
  if (pwrite(fd, proof, sizeof *proof, 0) != (ssize_t)sizeof *proof || fcntl(fd, F_ADD_SEALS, SEALS) != 0)
    return fail_errno(errno, "cannot make the proof of a worker of shared memory");
  if (pread(fd, &found, sizeof found, 0) != (ssize_t)sizeof found || memcmp(&found, proof, sizeof found) != 0)
    return fail(WEFT_ERR_SYSTEM, "another process has changed the proof of a worker of shared memory");
  return shm_proof_lock(fd);
}

int shm_proof_create(const struct shm_proof *proof, int *fd) {
  int made = memfd_create("weft-shm-proof", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0)
    return fail_errno(errno, "cannot make the proof of a worker of shared memory");
  int rc = fill(made, proof);
  if (rc == 0)
    *fd = made;
  else
    close(made);
  return rc;
}

// Whether the process still has that file in its descriptor `fd`.
static int look_again(pid_t pid, int fd, const struct shm_file *file) {
  int found;
  int rc = shm_proc_open(pid, fd, O_RDONLY, file, "the worker", &found);
  if (rc == 0)
    close(found);
  return rc;
}

// `found` is open on descriptor `fd` of the process. The kernel removes a descriptor before the lock that depends on
// it: a process that has the descriptor but not the lock has not made the proof; one that has neither has closed its
// worker, or has ended, since `found` was opened.
static int check_holder(int found, pid_t pid, int fd, const struct shm_file *file) {
  struct flock lock = first_byte();
  if (fcntl(found, F_GETLK, &lock) != 0)
    return fail_errno(errno, "cannot find out which process holds the proof of a worker of process %d", (int)pid);
  if (lock.l_type != F_UNLCK && lock.l_pid == pid)
    return 0;
  int rc = lock.l_type == F_UNLCK ? look_again(pid, fd, file) : 0;
  return rc != 0 ? rc
                 : fail(WEFT_ERR_AUTH, "process %d does not hold the proof of the worker that claims to run in it",
                        (int)pid);
}

static int read_page(int found, pid_t pid, struct shm_proof *proof) {
  if (pread(found, proof, sizeof *proof, 0) != (ssize_t)sizeof *proof || proof->magic != SHM_PROOF_MAGIC)
    return fail(WEFT_ERR_AUTH, "the file of process %d is not the proof of a worker", (int)pid);
  if (proof->version != SHM_VERSION)
    return fail(WEFT_ERR_VERSION, "the worker of process %d is of version %u, but this process knows only version %u",
                (int)pid, proof->version, (unsigned)SHM_VERSION);
  return 0;
}

static int check(int found, pid_t pid, int fd, const struct shm_file *file, struct shm_proof *proof) {
  int seals = fcntl(found, F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS)
    return fail(WEFT_ERR_AUTH, "the proof of the worker of process %d is not a sealed memfd", (int)pid);
  int rc = check_holder(found, pid, fd, file);
  return rc != 0 ? rc : read_page(found, pid, proof);
}

int shm_proof_read(pid_t pid, int fd, const struct shm_file *file, uint64_t cookie, struct shm_proof *proof) {
  int found;
  struct shm_proof read;
  int rc = shm_proc_open(pid, fd, O_RDONLY, file, "the worker", &found);
  if (rc != 0)
    return rc;
  rc = check(found, pid, fd, file, &read);
  close(found);
  if (rc == 0 && (read.pid != (uint32_t)pid || read.cookie != cookie))
    rc = fail(WEFT_ERR_UNREACHABLE, "the worker of process %d is gone, and another one is there", (int)pid);
  if (rc == 0)
    *proof = read;
  return rc;
}
