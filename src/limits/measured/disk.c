// A disk, past the page cache: threads that write and then read blocks of a file without a name.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/time/clock.h"
#include "limits/measured/measured.h"

enum { THREADS = 16, BLOCK = 1 << 20, ALIGNMENT = 4096, MOST_BLOCKS = 1024, TRIES = 4, SLICE_MS = 250 };

struct disk {
  int fd;
  bool reads;
  uint32_t blocks;     // of the file
  atomic_uint next;    // that is taken
  atomic_ullong bytes; // that were moved
  atomic_int error;    // errno of the first that failed
  uint64_t until_ns;
};

static void *move_blocks(void *arg) {
  struct disk *disk = arg;
  char *block = aligned_alloc(ALIGNMENT, BLOCK);
  if (!block) {
    atomic_store(&disk->error, ENOMEM);
    return NULL;
  }
  for (uint64_t i = 0; i < BLOCK; i += sizeof(uint64_t)) { // nothing that a disk could compress
    uint64_t word = random_mix(i ^ (uintptr_t)block);
    memcpy(block + i, &word, sizeof word);
  }
  while (!clock_passed(disk->until_ns) && atomic_load(&disk->error) == 0) {
    off_t at = (off_t)(atomic_fetch_add(&disk->next, 1) % disk->blocks) * BLOCK;
    ssize_t moved = disk->reads ? pread(disk->fd, block, BLOCK, at) : pwrite(disk->fd, block, BLOCK, at);
    if (moved > 0)
      atomic_fetch_add(&disk->bytes, (unsigned long long)moved);
    else if (moved == 0 || errno != EINTR)
      atomic_store(&disk->error, moved == 0 ? EIO : errno);
  }
  free(block);
  return NULL;
}

// What is under way at the end of the time counts with the time that it took.
static int try_once(struct disk *disk, double *gbps) {
  pthread_t threads[THREADS];
  uint32_t started = 0;
  int error = 0;
  uint64_t begun = clock_ns();
  disk->until_ns = begun + SLICE_MS * (uint64_t)1000000;
  atomic_store(&disk->bytes, 0);
  for (; started < THREADS && error == 0; started += error == 0)
    error = thread_create(&threads[started], NULL, move_blocks, disk);
  for (uint32_t i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
  if (error != 0)
    return fail_thread(error, "a thread that reads and writes a disk");
  if (atomic_load(&disk->error) != 0)
    return fail_errno(atomic_load(&disk->error), "cannot %s the disk", disk->reads ? "read from" : "write to");
  double rate = (double)atomic_load(&disk->bytes) / (double)(clock_ns() - begun);
  *gbps = rate > *gbps ? rate : *gbps;
  return 0;
}

static int measure_way(const struct limits_try *one, struct disk *disk, bool reads, const char *device) {
  struct limits_entry entry = {.kind = reads ? LIMITS_DISK_READ : LIMITS_DISK_WRITE, .measured = true};
  int rc = 0;
  disk->reads = reads;
  atomic_store(&disk->next, 0);
  for (int i = 0; i < TRIES && rc == 0; i++) {
    rc = limits_check_stopped(one);
    if (rc == 0)
      rc = try_once(disk, &entry.gbps);
  }
  if (rc != 0)
    return rc;
  uint32_t touched = atomic_load(&disk->next);
  if (!reads && touched < disk->blocks) // a hole is read without the disk
    disk->blocks = touched;
  snprintf(entry.device, sizeof entry.device, "%s", one->measure->path);
  snprintf(entry.other, sizeof entry.other, "%s", device);
  snprintf(entry.name, sizeof entry.name, "disk %s %.30s", reads ? "read" : "write", one->measure->path);
  snprintf(entry.detail, sizeof entry.detail,
           "%d threads, blocks of %d KiB, past the page cache (O_DIRECT), a file of %u MiB: the best of %d times %d ms",
           THREADS, BLOCK >> 10, (uint32_t)((uint64_t)disk->blocks * BLOCK >> 20), TRIES, SLICE_MS);
  return limits_table_add(&one->limits->table, &entry);
}

// It has no name, so nothing is left of it, whatever becomes of this process.
static int open_file(const char *folder, int *fd) {
  *fd = open(folder, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (*fd >= 0)
    return 0;
  if (errno == EINVAL || errno == EOPNOTSUPP || errno == EISDIR)
    return fail(WEFT_ERR_UNSUPPORTED,
                "%s is on a file system without O_DIRECT or O_TMPFILE, so its disk cannot be told from the page cache",
                folder);
  return fail_errno(errno, "cannot make a file in %s", folder);
}

// A quarter of what is free, at most 1 GiB.
static int choose_size(const char *folder, uint32_t *blocks) {
  struct statvfs system;
  if (statvfs(folder, &system) != 0)
    return fail_errno(errno, "cannot ask how much room %s has", folder);
  uint64_t room = (uint64_t)system.f_bavail * system.f_frsize / 4 / BLOCK;
  if (room < THREADS)
    return fail(WEFT_ERR_LIMIT, "%s has %" PRIu64 " MiB of room: want %d to measure the disk", folder,
                room * 4 * BLOCK >> 20, 4 * THREADS * (BLOCK >> 20));
  *blocks = room > MOST_BLOCKS ? MOST_BLOCKS : (uint32_t)room;
  return 0;
}

int limits_measure_disk(const struct limits_try *one) {
  const char *folder = one->measure->path;
  char device[LIMITS_DEVICE];
  struct disk disk = {.fd = -1};
  bool in_memory = false;
  if (!folder)
    return fail(WEFT_ERR_UNSUPPORTED, "not measured, for --path names none");
  if (!limits_disk_of(folder, device, &in_memory))
    return fail(WEFT_ERR_SYSTEM, "cannot ask on which disk %s is", folder);
  if (in_memory)
    return fail(WEFT_ERR_UNSUPPORTED, "%s is in memory, and has no disk", folder);
  int rc = choose_size(folder, &disk.blocks);
  if (rc == 0)
    rc = open_file(folder, &disk.fd);
  if (rc == 0)
    rc = measure_way(one, &disk, false, device);
  if (rc == 0)
    rc = measure_way(one, &disk, true, device);
  if (disk.fd >= 0)
    close(disk.fd);
  return rc;
}
