// A peer's memory, mapped where that is safe.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "transport/shm/shm.h"

#ifndef MADV_POPULATE_READ // Linux 5.14
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

enum { POPULATE_MAX = 1 << 30 }; // bytes: milliseconds

// Fills the page table now where the memory is there already, so that the first transfers cause no page faults.
static void populate(const struct shm_remote *remote, const struct stat *status) {
  bool whole = (uint64_t)status->st_blocks * 512 >= (uint64_t)status->st_size;
  if (whole && remote->mapping_size <= POPULATE_MAX)
    (void)madvise(remote->mapping, remote->mapping_size, remote->read_only ? MADV_POPULATE_READ : MADV_POPULATE_WRITE);
}

static int map_file(struct shm_remote *remote, const struct shm_key *key, int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0)
    return fail_errno(errno, "cannot stat a peer's window");
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || (uint64_t)status.st_size < key->length ||
      (uint64_t)status.st_size - key->length < key->fd_offset)
    return fail(WEFT_ERR_PROTOCOL, "a peer's window is smaller than its key says, or may shrink");
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t unit =
      (uint64_t)status.st_blksize > page ? (uint64_t)status.st_blksize : page; // huge pages need their own size
  uint64_t before = key->fd_offset % unit;
  size_t size = (size_t)((before + key->length + unit - 1) / unit * unit); // munmap() refuses a part of a huge page
  int protection = remote->read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  void *mapping = mmap(NULL, size, protection, MAP_SHARED, fd, (off_t)(key->fd_offset - before));
  if (mapping == MAP_FAILED)
    return fail_errno(errno, "cannot map a peer's window of %zu bytes", size);
  remote->mapping = mapping;
  remote->mapping_size = size;
  remote->memory = (unsigned char *)mapping + before;
  populate(remote, &status);
  return 0;
}

static int map_window(struct shm_remote *remote, const struct shm_peer *peer, const struct shm_key *key) {
  int fd;
  const struct shm_file file = {S_IFREG, key->device, key->inode};
  int rc = shm_proc_open(peer->pid, key->fd, remote->read_only ? O_RDONLY : O_RDWR, &file, "a window", &fd);
  if (rc != 0)
    return rc;
  rc = map_file(remote, key, fd);
  close(fd);
  return rc;
}

// Chooses how to reach the bytes: in this process, mapped, or through the kernel.
static int reach(struct shm_remote *remote, const struct shm_peer *peer, const struct shm_key *key) {
  if (peer->here) {
    remote->memory = (unsigned char *)(uintptr_t)key->address;
    return 0;
  }
  if (key->fd >= 0 && !peer->worker->no_map)
    return map_window(remote, peer, key);
  if (peer->worker->no_vm)
    return fail(WEFT_ERR_UNREACHABLE, "the peer's memory has no sealed memfd, and process_vm is switched off (vm=off)");
  return shm_vm_check(peer->pid, key->address);
}

int shm_import(struct transport_peer *base, const void *bytes, size_t size, struct transport_remote **made) {
  struct shm_peer *peer = (struct shm_peer *)base;
  struct shm_key key;
  struct shm_signed signature;
  int rc = shm_key_read(&key, bytes, size, &signature);
  if (rc == 0 && key.cookie != peer->home->cookie)
    rc = fail(WEFT_ERR_AUTH, "this key is of a region of another worker");
  if (rc == 0)
    rc = shm_key_check(&peer->trust, &signature);
  if (rc != 0)
    return rc;
  if (atomic_load(&peer->ended) != 0 || (!peer->here && !shm_proc_alive(peer->pidfd)))
    return fail(WEFT_ERR_PEER_LOST, "process %d is gone", (int)peer->pid);
  struct shm_gate *gate = &peer->page->gates[key.gate];
  if (atomic_load(&gate->id) != key.id)
    return fail(WEFT_ERR_UNREACHABLE, "that region was deregistered");
  struct shm_remote *remote = calloc(1, sizeof *remote);
  if (!remote)
    return fail(WEFT_ERR_NOMEM, "no memory for a peer's region");
  remote->base =
      (struct transport_remote){.peer = base, .kind = WEFT_MEMORY_HOST, .address = key.address, .length = key.length};
  remote->gate = gate;
  remote->gate_index = key.gate;
  remote->id = key.id;
  remote->read_only = key.read_only != 0;
  rc = reach(remote, peer, &key);
  if (rc != 0) {
    free(remote);
    return peer->here || shm_proc_alive(peer->pidfd) ? rc
                                                     : fail(WEFT_ERR_PEER_LOST, "process %d has died", (int)peer->pid);
  }
  remote->next = peer->remotes;
  remote->link = &peer->remotes;
  if (remote->next)
    remote->next->link = &remote->next;
  peer->remotes = remote;
  *made = &remote->base;
  return 0;
}

void shm_release(struct transport_remote *base) {
  struct shm_remote *remote = (struct shm_remote *)base;
  *remote->link = remote->next;
  if (remote->next)
    remote->next->link = remote->link;
  if (remote->mapping)
    munmap(remote->mapping, remote->mapping_size);
  free(remote);
}

void *shm_map(struct transport_remote *base) {
  return ((struct shm_remote *)base)->memory;
}
