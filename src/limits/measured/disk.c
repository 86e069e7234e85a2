// Measures a disk without the page cache: threads write and then read blocks of an unnamed file.
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

enum { THREADS = 16, ALIGNMENT = 4096, LARGEST = 4 << 20, FILE_BYTES = 256 << 20, SLICE_MS = 80, TRIES = 3 };

struct disk {
  int fd;
  bool reads;
  char *memory;        // of LARGEST bytes for each thread
  uint64_t file_bytes; // a multiple of LARGEST
  uint32_t block;      // bytes of an operation
  atomic_uint places;  // given to threads
  atomic_ullong next;  // block that is taken
  atomic_ullong bytes; // that were moved
  atomic_int error;    // errno of the first that failed
  uint64_t until_ns;
};

static void *move_blocks(void *arg) {
  struct disk *disk = arg;
  char *block = disk->memory + (uint64_t)LARGEST * atomic_fetch_add(&disk->places, 1);
  while (!clock_passed(disk->until_ns) && atomic_load(&disk->error) == 0) {
    off_t at = (off_t)(atomic_fetch_add(&disk->next, 1) * disk->block % disk->file_bytes);
    ssize_t moved = disk->reads ? pread(disk->fd, block, disk->block, at) : pwrite(disk->fd, block, disk->block, at);
    if (moved > 0)
      atomic_fetch_add(&disk->bytes, (unsigned long long)moved);
    else if (moved == 0 || errno != EINTR)
      atomic_store(&disk->error, moved == 0 ? EIO : errno);
  }
  return NULL;
}

// A try is short, since virtual disks let some bytes pass faster before they throttle the rest. Operations under way at
// the end count, with the time that they took.
static int try_once(struct disk *disk, double *gbps) {
  pthread_t threads[THREADS];
  uint32_t started = 0;
  int error = 0;
  uint64_t begun = clock_ns();
  disk->until_ns = begun + SLICE_MS * (uint64_t)1000000;
  atomic_store(&disk->bytes, 0);
  atomic_store(&disk->places, 0);
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

// Writes the whole file once before it is read, because holes are read without the disk.
static int write_all(struct disk *disk) {
  for (uint64_t at = 0; at < disk->file_bytes; at += LARGEST) {
    ssize_t written = pwrite(disk->fd, disk->memory, LARGEST, (off_t)at);
    if (written != LARGEST)
      return fail_errno(written < 0 ? errno : ENOSPC, "cannot write to the disk");
  }
  return 0;
}

static int try_blocks(const struct limits_try *one, struct disk *disk, double *gbps) {
  static const uint32_t blocks[] = {1 << 20, LARGEST, 256 << 10};
  int rc = 0;
  for (int i = 0; i < 3 * TRIES && rc == 0; i++) {
    disk->block = blocks[i % 3];
    atomic_store(&disk->next, 0);
    rc = limits_check_stopped(one);
    if (rc == 0)
      rc = try_once(disk, gbps);
  }
  return rc;
}

// An earlier, higher rate of the disk stays its bound.
static double best_before(const struct limits_table *table, const struct limits_entry *entry) {
  const struct limits_entry *before = limits_table_find(table, entry->kind, entry->device, entry->other);
  return before && before->measured ? before->gbps : 0;
}

static int measure_way(const struct limits_try *one, struct disk *disk, bool reads, const char *key) {
  struct limits_entry entry = {.kind = reads ? LIMITS_DISK_READ : LIMITS_DISK_WRITE, .measured = true};
  disk->reads = reads;
  int rc = try_blocks(one, disk, &entry.gbps);
  if (rc != 0)
    return rc;
  snprintf(entry.device, sizeof entry.device, "%s", one->measure->path);
  snprintf(entry.other, sizeof entry.other, "%s", key);
  double before = best_before(&one->limits->table, &entry);
  entry.gbps = before > entry.gbps ? before : entry.gbps;
  snprintf(entry.name, sizeof entry.name, "disk %s %.30s", reads ? "read" : "write", one->measure->path);
  snprintf(entry.detail, sizeof entry.detail,
           "%d threads, blocks of 256 KiB to 4 MiB, past the page cache (O_DIRECT), a file of %u MiB: the best of %d "
           "times %d ms, and of earlier measurements",
           THREADS, (uint32_t)(disk->file_bytes >> 20), 3 * TRIES, SLICE_MS);
  return limits_table_add(&one->limits->table, &entry);
}

// The file has no name, so nothing of it remains when this process ends in any way.
static int open_file(const char *folder, int *fd) {
  *fd = open(folder, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (*fd >= 0)
    return 0;
  if (errno == EINVAL || errno == EOPNOTSUPP || errno == EISDIR)
    return fail(
        WEFT_ERR_UNSUPPORTED,
        "%s is on a file system without O_DIRECT or O_TMPFILE, so the disk cannot be measured without the page cache",
        folder);
  return fail_errno(errno, "cannot make a file in %s", folder);
}

// Takes at most a quarter of the free space.
static int choose_size(const char *folder, uint64_t *bytes) {
  struct statvfs system;
  if (statvfs(folder, &system) != 0)
    return fail_errno(errno, "cannot read how much room %s has", folder);
  uint64_t room = (uint64_t)system.f_bavail * system.f_frsize / 4 / LARGEST * LARGEST;
  if (room < (uint64_t)THREADS * LARGEST)
    return fail(WEFT_ERR_LIMIT, "%s has %" PRIu64 " MiB of room: want %d to measure the disk", folder, room * 4 >> 20,
                4 * THREADS * (LARGEST >> 20));
  *bytes = room > FILE_BYTES ? FILE_BYTES : room;
  return 0;
}

// Fills the memory with data that a disk cannot compress.
static int make_memory(struct disk *disk) {
  disk->memory = aligned_alloc(ALIGNMENT, (size_t)THREADS * LARGEST);
  if (!disk->memory)
    return fail(WEFT_ERR_NOMEM, "no memory to measure a disk with");
  for (uint64_t i = 0; i < (uint64_t)THREADS * LARGEST; i += sizeof(uint64_t)) {
    uint64_t word = random_mix(i);
    memcpy(disk->memory + i, &word, sizeof word);
  }
  return 0;
}

int limits_measure_disk(const struct limits_try *one) {
  const char *folder = one->measure->path;
  char device[LIMITS_DEVICE], key[LIMITS_DEVICE];
  struct disk disk = {.fd = -1};
  bool in_memory = false;
  if (!folder)
    return fail(WEFT_ERR_UNSUPPORTED, "--path names no folder");
  if (!limits_disk_of(folder, device, &in_memory))
    return fail(WEFT_ERR_SYSTEM, "cannot find out on which disk %s is", folder);
  if (in_memory)
    return fail(WEFT_ERR_UNSUPPORTED, "%s is in memory, and has no disk", folder);
  int rc = limits_disk_key(one->limits->hardware.root, device, key);
  if (rc == 0)
    rc = choose_size(folder, &disk.file_bytes);
  if (rc == 0)
    rc = open_file(folder, &disk.fd);
  if (rc == 0)
    rc = make_memory(&disk);
  if (rc == 0)
    rc = write_all(&disk);
  if (rc == 0)
    rc = measure_way(one, &disk, false, key);
  if (rc == 0)
    rc = measure_way(one, &disk, true, key);
  if (disk.fd >= 0)
    close(disk.fd);
  free(disk.memory);
  return rc;
}
