// The ring of messages between two workers.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/shm/shm.h"

static uint64_t span(uint32_t size) {
  return sizeof(struct shm_record) + (((uint64_t)size + 7) & ~UINT64_C(7));
}

static void copy_in(unsigned char *ring, uint64_t position, const void *bytes, size_t size) {
  size_t at = position % SHM_RING, first = size < SHM_RING - at ? size : SHM_RING - at;
  memcpy(ring + at, bytes, first);
  if (first < size)
    memcpy(ring, (const unsigned char *)bytes + first, size - first);
}

static void copy_out(void *bytes, const unsigned char *ring, uint64_t position, size_t size) {
  size_t at = position % SHM_RING, first = size < SHM_RING - at ? size : SHM_RING - at;
  memcpy(bytes, ring + at, first);
  if (first < size)
    memcpy((unsigned char *)bytes + first, ring, size - first);
}

// By the thread that has set peer->sending.
int shm_ring_put(struct shm_peer *peer, const void *bytes, uint32_t size) {
  struct shm_slot *slot = peer->slot;
  uint64_t head = peer->head; // not slot->head, which the reader may have changed
  if (head + span(size) - atomic_load(&slot->tail) > SHM_RING) {
    atomic_store(&slot->waiting, 1); // the reader checks it after it has made room
    if (head + span(size) - atomic_load(&slot->tail) > SHM_RING)
      return SHM_RING_FULL;
  }
  struct shm_record record = {.size = size};
  memcpy(peer->ring + head % SHM_RING, &record, sizeof record);
  copy_in(peer->ring, head + sizeof record, bytes, size);
  peer->head = head + span(size);
  atomic_store(&slot->head, peer->head);
  return 0;
}

static void ring_bell(int bell) {
  if (bell >= 0)
    while (write(bell, "", 1) < 0 && errno == EINTR) // full: it is already readable
      ;
}

void shm_ring_notify(struct shm_peer *peer) {
  _Atomic uint64_t *ready = &peer->page->ready[peer->index / 64];
  uint64_t bit = UINT64_C(1) << peer->index % 64;
  if ((atomic_load(ready) & bit) == 0)
    atomic_fetch_or(ready, bit);
  if (atomic_load(&peer->page->armed) && atomic_exchange(&peer->page->armed, 0))
    ring_bell(peer->bell);
}

void shm_ring_wake(struct shm_worker *worker) {
  if (atomic_load(&worker->page->armed) && atomic_exchange(&worker->page->armed, 0))
    ring_bell(worker->bell_write);
}

// Opens the doorbell of a slot's sender, which the sender's proof names. The slot is not trusted: it could make this
// process write into any pipe.
static int open_bell(const struct shm_worker *worker, const struct shm_slot *slot, int *bell) {
  pid_t pid = (pid_t)(atomic_load(&slot->owner) >> 32);
  struct shm_file file = {S_IFIFO, worker->bell_device, 0};
  struct shm_proof proof;
  if (pid <= 0)
    return WEFT_ERR_UNREACHABLE;
  if (pid == getpid()) {
    struct shm_home *home = shm_home_own(slot->sender);
    if (!home)
      return WEFT_ERR_UNREACHABLE;
    int fd = home->bell_fd;
    file.inode = home->bell_inode;
    shm_home_leave(home);
    return shm_proc_open(pid, fd, O_RDWR, &file, "the doorbell", bell);
  }
  const struct shm_file place = {S_IFREG, worker->home->proof.device, slot->proof_inode};
  int rc = shm_proof_read(pid, slot->proof_fd, &place, slot->sender, &proof);
  if (rc != 0)
    return rc;
  file.inode = proof.bell_inode;
  return shm_proc_open(pid, proof.bell_fd, O_RDWR, &file, "the doorbell", bell);
}

// The doorbell is opened when it is first needed.
void shm_ring_wake_sender(struct shm_worker *worker, uint32_t index) {
  if (worker->bells[index] < 0 && open_bell(worker, &worker->page->slots[index], &worker->bells[index]) != 0)
    return; // it is gone
  ring_bell(worker->bells[index]);
}

static unsigned char *ring_of(struct shm_worker *worker, uint32_t index) {
  return (unsigned char *)worker->page + SHM_RINGS + (size_t)index * SHM_RING;
}

static void forget(struct shm_worker *worker, uint32_t index) {
  struct shm_slot *slot = &worker->page->slots[index];
  if (worker->bells[index] >= 0)
    close(worker->bells[index]);
  worker->bells[index] = -1;
  (void)fallocate(worker->page_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)(SHM_RINGS + (size_t)index * SHM_RING), SHM_RING);
  for (uint32_t i = 0; i < SHM_INSIDE; i++)
    atomic_store(&slot->inside[i], 0);
  worker->tails[index] = 0;
  worker->broken[index] = false;
  atomic_fetch_and(&worker->home->ours[index / 64], ~(UINT64_C(1) << index % 64));
  atomic_store(&slot->waiting, 0);
  atomic_store(&slot->head, 0);
  atomic_store(&slot->tail, 0);
  atomic_store(&slot->state, SHM_SLOT_FREE);
  atomic_store(&slot->owner, 0);
}

// Reads nothing more from a sender whose messages are malformed, until it releases its slot.
static void give_up(struct shm_worker *worker, uint32_t index) {
  log_error("shm: a process of this host sent a malformed message; everything that it sends is dropped");
  worker->broken[index] = true;
}

// Delivers the messages that were there on entry. Each field that the sender writes is read once. This side keeps its
// own tail; the one in the page is for the sender alone.
static uint32_t drain(struct shm_worker *worker, uint32_t index) {
  struct shm_slot *slot = &worker->page->slots[index];
  uint32_t state = atomic_load(&slot->state); // before head: a sender that has left has written all
  uint64_t head = atomic_load(&slot->head), tail = worker->tails[index];
  uint32_t count = 0;
  while (tail != head && !worker->broken[index]) {
    struct shm_record record;
    memcpy(&record, ring_of(worker, index) + tail % SHM_RING, sizeof record);
    if (record.size > sizeof worker->message || head - tail > SHM_RING || span(record.size) > head - tail) {
      give_up(worker, index);
      break;
    }
    copy_out(worker->message, ring_of(worker, index), tail + sizeof record, record.size);
    tail += span(record.size);
    worker->tails[index] = tail;
    atomic_store(&slot->tail, tail);
    if (worker->base.options.on_message)
      worker->base.options.on_message(worker->base.options.arg, worker->message, record.size);
    count++;
  }
  if (count && atomic_load(&slot->waiting) && atomic_exchange(&slot->waiting, 0))
    shm_ring_wake_sender(worker, index);
  if (state == SHM_SLOT_LEFT)
    forget(worker, index);
  return count;
}

uint32_t shm_ring_receive(struct shm_worker *worker) {
  uint32_t count = 0;
  for (uint32_t word = 0; word < SHM_SLOTS / 64; word++) {
    if (atomic_load_explicit(&worker->page->ready[word], memory_order_relaxed) == 0)
      continue;
    uint64_t bits = atomic_exchange(&worker->page->ready[word], 0);
    for (; bits; bits &= bits - 1)
      count += drain(worker, word * 64 + (uint32_t)__builtin_ctzll(bits));
  }
  return count;
}

uint32_t shm_ring_receive_all(struct shm_worker *worker) {
  uint32_t count = 0;
  for (uint32_t index = 0; index < SHM_SLOTS && index < atomic_load(&worker->page->slots_used); index++)
    if (atomic_load(&worker->page->slots[index].owner) != 0)
      count += drain(worker, index);
  return count;
}

void shm_ring_sweep(struct shm_worker *worker) {
  atomic_store(&worker->page->sweep, 0);
  for (uint32_t index = 0; index < SHM_SLOTS && index < atomic_load(&worker->page->slots_used); index++) {
    struct shm_slot *slot = &worker->page->slots[index];
    uint64_t owner = atomic_load(&slot->owner);
    pid_t pid = (pid_t)(owner >> 32);
    if (owner == 0 || (pid > 0 && (kill(pid, 0) == 0 || errno != ESRCH)))
      continue;
    atomic_store(&slot->state, SHM_SLOT_LEFT);
    drain(worker, index);
  }
}
