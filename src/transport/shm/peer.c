#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
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

// Maps the peer's page, or shares the mapping that this process has of it. `*fd` is -1 in the latter case.
static int find_home(struct shm_peer *peer, const struct shm_address *address) {
  peer->home = peer->worker->no_here ? NULL : shm_home_find(address->cookie);
  if (peer->home)
    return 0;
  int fd;
  int rc =
      shm_road_open(peer->pid, address->page_fd, O_RDWR, address->page_device, address->page_inode, "the worker", &fd);
  if (rc != 0)
    return rc;
  rc = shm_home_map(fd, address->cookie, &peer->home);
  close(fd);
  return rc;
}

static int map_ring(struct shm_peer *peer, const struct shm_address *address) {
  size_t offset = SHM_RINGS + (size_t)peer->index * SHM_RING;
  if (peer->home->size == SHM_PAGE_SIZE) {
    peer->ring = (unsigned char *)peer->page + offset;
    return 0;
  }
  int fd;
  int rc =
      shm_road_open(peer->pid, address->page_fd, O_RDWR, address->page_device, address->page_inode, "the worker", &fd);
  if (rc != 0)
    return rc;
  void *ring = mmap(NULL, SHM_RING, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
  rc = ring == MAP_FAILED ? fail_errno(errno, "cannot map a peer's messages") : 0;
  close(fd);
  if (rc == 0)
    peer->ring = ring;
  return rc;
}

static int claim_slot(struct shm_peer *peer) {
  struct shm_page *page = peer->page;
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
    while (slots <= index && !atomic_compare_exchange_weak(&page->slots_used, &slots, index + 1))
      ;
    slot->bell_fd = peer->worker->bell_write;
    slot->bell_inode = peer->worker->bell_inode;
    slot->sender = peer->worker->page->cookie;
    atomic_store(&slot->fenced, 0);
    atomic_store(&slot->state, SHM_SLOT_READY);
    peer->slot = slot;
    peer->index = index;
    return 0;
  }
  atomic_store(&page->sweep, 1);
  if (peer->bell >= 0)
    (void)!write(peer->bell, "", 1);
  return fail(WEFT_ERR_LIMIT, "the peer hears %u others already, dead ones of which it lets go with time",
              (unsigned)SHM_SLOTS);
}

static int join(struct shm_peer *peer, const struct shm_address *address) {
  int rc = peer->here ? 0 : shm_road_pidfd(peer->pid, &peer->pidfd);
  if (rc == 0)
    rc = find_home(peer, address);
  if (rc != 0)
    return rc;
  peer->page = peer->home->page;
  if (atomic_load(&peer->page->closed) || (!peer->here && !shm_road_alive(peer->pidfd)))
    return fail(WEFT_ERR_UNREACHABLE, "the worker of process %d is gone", (int)peer->pid);
  rc = shm_road_open(peer->pid, address->bell_fd, O_RDWR, peer->worker->bell_device, address->bell_inode,
                     "the doorbell", &peer->bell);
  if (rc == 0)
    rc = claim_slot(peer);
  if (rc == 0)
    rc = map_ring(peer, address);
  if (rc == 0 && atomic_load(&peer->page->closed)) // from here on its close() would ring
    rc = fail(WEFT_ERR_UNREACHABLE, "the worker of process %d is gone", (int)peer->pid);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
  if (rc == 0 && peer->pidfd >= 0 && epoll_ctl(peer->worker->epoll, EPOLL_CTL_ADD, peer->pidfd, &event) != 0)
    rc = fail_errno(errno, "cannot watch process %d", (int)peer->pid);
  return rc;
}

int shm_connect(struct transport_worker *base, const void *bytes, size_t size, struct transport_peer **made) {
  struct shm_worker *worker = (struct shm_worker *)base;
  struct shm_address address;
  int rc = shm_address_read(&address, bytes, size);
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
  rc = join(peer, &address);
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
  if (peer->told)
    return;
  peer->told = true;
  snprintf(peer->why, sizeof peer->why, "%s", why);
  peer->base.failed = err;
  atomic_store(&peer->ended, err);
  stop_watching(peer);
  shm_turn_run(peer);
  if (peer->worker->base.options.on_peer)
    peer->worker->base.options.on_peer(peer->worker->base.options.arg, &peer->base, err, peer->why);
}

void shm_peer_free(struct shm_peer *peer) {
  while (peer->remotes)
    shm_release(&peer->remotes->base);
  stop_watching(peer);
  if (peer->slot) {
    atomic_store(&peer->slot->state, SHM_SLOT_LEFT);
    shm_ring_tell(peer);
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

// A thread in post() may still be inside; the last look at whether one is comes in progress().
void shm_disconnect(struct transport_peer *base) {
  struct shm_peer *peer = (struct shm_peer *)base;
  struct shm_worker *worker = peer->worker;
  if (!peer->told)
    snprintf(peer->why, sizeof peer->why, "disconnected");
  peer->told = true; // the user knows
  atomic_store(&peer->ended, WEFT_ERR_CANCELED);
  shm_turn_run(peer);
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
