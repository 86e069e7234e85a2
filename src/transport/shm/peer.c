// Peers of the transport shm: connecting, and how their end is noticed.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "transport/shm/shm.h"

static int check_address(const struct shm_worker *worker, const struct shm_address *address) {
  if (address->host[0] != worker->host[0] || address->host[1] != worker->host[1])
    return fail(WEFT_ERR_UNREACHABLE, "shared memory does not reach another host");
  if (address->pid_space != worker->pid_space)
    return fail(WEFT_ERR_UNREACHABLE,
                "process %u is in another pid namespace: shared memory between containers wants one for both (docker "
                "--pid, Kubernetes shareProcessNamespace)",
                address->pid);
  return 0;
}

// Gets the proof of the worker that the address names. For a worker of this process it comes from the table of homes,
// never from /proc: an address that names this process is either that of one of its workers, or false.
static int prove(struct shm_peer *peer, const struct shm_address *address, struct shm_proof *proof) {
  if (peer->pid != getpid()) {
    const struct shm_file file = {S_IFREG, peer->worker->home->proof.device, address->proof_inode};
    int rc = shm_proc_pidfd(peer->pid, &peer->pidfd);
    if (rc == 0)
      rc = shm_proof_read(peer->pid, address->proof_fd, &file, address->cookie, proof);
    if (rc == 0)
      memcpy(peer->trust.secret, proof->secret, sizeof peer->trust.secret);
    return rc;
  }
  int rc = peer->here ? 0 : shm_proc_pidfd(peer->pid, &peer->pidfd);
  if (rc != 0)
    return rc;
  struct shm_home *home = shm_home_own(address->cookie);
  if (!home)
    return fail(WEFT_ERR_UNREACHABLE, "that address names no worker of this process, or one that is gone");
  peer->trust.own = true;
  memcpy(peer->trust.secret, home->secret, sizeof peer->trust.secret);
  memcpy(peer->trust.own_secret, home->own_secret, sizeof peer->trust.own_secret);
  *proof = (struct shm_proof){.page_inode = home->file.inode,
                              .page_fd = home->page_fd,
                              .bell_fd = home->bell_fd,
                              .bell_inode = home->bell_inode};
  if (peer->here)
    peer->home = home;
  else
    shm_home_leave(home);
  return 0;
}

static int open_page(const struct shm_peer *peer, const struct shm_proof *proof, int *fd) {
  const struct shm_file file = {S_IFREG, peer->worker->home->file.device, proof->page_inode};
  return shm_proc_open(peer->pid, proof->page_fd, O_RDWR, &file, "the worker", fd);
}

// Maps the peer's page, or shares the mapping that this process has of it.
static int find_home(struct shm_peer *peer, const struct shm_proof *proof) {
  const struct shm_file file = {S_IFREG, peer->worker->home->file.device, proof->page_inode};
  if (!peer->home)
    peer->home = shm_home_find(peer->pid, peer->cookie, &file);
  if (peer->home)
    return 0;
  int fd;
  int rc = open_page(peer, proof, &fd);
  if (rc != 0)
    return rc;
  rc = shm_home_map(fd, peer->pid, peer->cookie, &file, &peer->home);
  close(fd);
  return rc;
}

static int map_ring(struct shm_peer *peer, const struct shm_proof *proof) {
  size_t offset = SHM_RINGS + (size_t)peer->index * SHM_RING;
  if (peer->home->size == SHM_PAGE_SIZE) {
    peer->ring = (unsigned char *)peer->page + offset;
    return 0;
  }
  int fd;
  int rc = open_page(peer, proof, &fd);
  if (rc != 0)
    return rc;
  void *ring = mmap(NULL, SHM_RING, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
  rc = ring == MAP_FAILED ? fail_errno(errno, "cannot map a peer's messages") : 0;
  close(fd);
  if (rc == 0)
    peer->ring = ring;
  return rc;
}

// Records a sender of this process with a page of this process, outside the page, which other processes can write.
static void claim_as_ours(const struct shm_peer *peer, uint32_t index) {
  struct shm_home *home = peer->trust.own ? shm_home_own(peer->cookie) : NULL;
  if (!home)
    return;
  atomic_fetch_or(&home->ours[index / 64], UINT64_C(1) << index % 64);
  shm_home_leave(home);
}

static int claim_slot(struct shm_peer *peer) {
  struct shm_page *page = peer->page;
  const struct shm_home *home = peer->worker->home;
  uint32_t first = atomic_load(&page->next_slot);
  uint64_t owner = (uint64_t)getpid() << 32 | (uint32_t)random_id();
  for (uint32_t i = 0; i < SHM_SLOTS; i++) {
    uint32_t index = (first + i) % SHM_SLOTS;
    struct shm_slot *slot = &page->slots[index];
    uint64_t none = 0;
    if (!atomic_compare_exchange_strong(&slot->owner, &none, owner))
      continue;
    atomic_store(&page->next_slot, index + 1);
    uint32_t slots = atomic_load(&page->slots_used);
    for (int tries = 0; tries < 1000 && slots <= index; tries++) // more than lawful ones can be in the way
      if (atomic_compare_exchange_strong(&page->slots_used, &slots, index + 1))
        break;
    slot->proof_fd = home->proof_fd;
    slot->proof_inode = home->proof.inode;
    slot->sender = home->cookie;
    claim_as_ours(peer, index);
    atomic_store(&slot->fenced, 0);
    atomic_store(&slot->state, SHM_SLOT_READY);
    peer->slot = slot;
    peer->index = index;
    return 0;
  }
  atomic_store(&page->sweep, 1);
  if (peer->bell >= 0)
    (void)!write(peer->bell, "", 1);
  return fail(WEFT_ERR_LIMIT, "the peer already has %u senders; it removes dead ones after some time",
              (unsigned)SHM_SLOTS);
}

static int join(struct shm_peer *peer, const struct shm_address *address, const char *owner,
                const struct shm_signed *signature) {
  struct shm_proof proof;
  int rc = prove(peer, address, &proof);
  if (rc == 0)
    rc = shm_address_check(&peer->trust, owner, signature);
  if (rc == 0)
    rc = find_home(peer, &proof);
  if (rc != 0)
    return rc;
  peer->page = peer->home->page;
  if (atomic_load(&peer->page->closed) || (peer->pidfd >= 0 && !shm_proc_alive(peer->pidfd)))
    return fail(WEFT_ERR_UNREACHABLE, "the worker of process %d is gone", (int)peer->pid);
  const struct shm_file bell = {S_IFIFO, peer->worker->bell_device, proof.bell_inode};
  rc = shm_proc_open(peer->pid, proof.bell_fd, O_RDWR, &bell, "the doorbell", &peer->bell);
  if (rc == 0)
    rc = claim_slot(peer);
  if (rc == 0)
    rc = map_ring(peer, &proof);
  if (rc == 0 && atomic_load(&peer->page->closed)) // from here on its close() rings
    rc = fail(WEFT_ERR_UNREACHABLE, "the worker of process %d is gone", (int)peer->pid);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
  if (rc == 0 && peer->pidfd >= 0 && epoll_ctl(peer->worker->epoll, EPOLL_CTL_ADD, peer->pidfd, &event) != 0)
    rc = fail_errno(errno, "cannot watch process %d", (int)peer->pid);
  return rc;
}

int shm_connect(struct transport_worker *base, const void *bytes, size_t size, const char *owner,
                struct transport_peer **made) {
  struct shm_worker *worker = (struct shm_worker *)base;
  struct shm_address address;
  struct shm_signed signature;
  int rc = shm_address_read(&address, bytes, size, &signature);
  if (rc == 0)
    rc = check_address(worker, &address);
  if (rc != 0)
    return rc;
  struct shm_peer *peer = calloc(1, sizeof *peer);
  if (!peer)
    return fail(WEFT_ERR_NOMEM, "no memory for a peer");
  peer->base.worker = base;
  peer->worker = worker;
  peer->pid = (pid_t)address.pid;
  peer->cookie = address.cookie;
  peer->here = peer->pid == getpid() && !worker->no_here;
  peer->pidfd = peer->bell = -1;
  rc = join(peer, &address, owner ? owner : "", &signature);
  if (rc != 0) {
    shm_peer_free(peer);
    return rc;
  }
  peer->next = worker->peers;
  worker->peers = peer;
  *made = &peer->base;
  return 0;
}

static void stop_watching(struct shm_peer *peer) {
  if (peer->pidfd >= 0)
    epoll_ctl(peer->worker->epoll, EPOLL_CTL_DEL, peer->pidfd, NULL);
}

void shm_peer_lost(struct shm_peer *peer, int err, const char *why) {
  if (peer->reported)
    return;
  peer->reported = true;
  snprintf(peer->why, sizeof peer->why, "%s", why);
  peer->base.failed = err;
  atomic_store(&peer->ended, err);
  stop_watching(peer);
  shm_queue_send(peer);
  if (peer->worker->base.options.on_peer)
    peer->worker->base.options.on_peer(peer->worker->base.options.arg, &peer->base, err, peer->why);
}

void shm_peer_free(struct shm_peer *peer) {
  while (peer->remotes)
    shm_release(&peer->remotes->base);
  stop_watching(peer);
  if (peer->slot) {
    atomic_store(&peer->slot->state, SHM_SLOT_LEFT);
    shm_ring_notify(peer);
  }
  if (peer->ring && peer->home->size != SHM_PAGE_SIZE)
    munmap(peer->ring, SHM_RING);
  if (peer->home)
    shm_home_leave(peer->home);
  if (peer->bell >= 0)
    close(peer->bell);
  if (peer->pidfd >= 0)
    close(peer->pidfd);
  free(peer);
}

// A thread may still be in post(); then progress() frees the peer.
void shm_disconnect(struct transport_peer *base) {
  struct shm_peer *peer = (struct shm_peer *)base;
  struct shm_worker *worker = peer->worker;
  if (!peer->reported)
    snprintf(peer->why, sizeof peer->why, "disconnected");
  peer->reported = true; // the user requested it
  atomic_store(&peer->ended, WEFT_ERR_CANCELED);
  shm_queue_send(peer);
  for (struct shm_peer **link = &worker->peers; *link; link = &(*link)->next) {
    if (*link == peer) {
      *link = peer->next;
      break;
    }
  }
  if (atomic_load(&peer->active) == 0) {
    shm_peer_free(peer);
    return;
  }
  stop_watching(peer);
  peer->next = worker->leaving;
  worker->leaving = peer;
}
