// Registered files and memory of the transport file.
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "transport/file/file.h"

void file_region_drop(struct storage_region *base) {
  struct file_region *region = (struct file_region *)base;
  free(region);
}

void file_region_close(struct file_region *region) {
  struct file_worker *worker = (struct file_worker *)region->base.base.worker;
  worker->engine->detach(worker, region);
  file_gds.detach(worker, region);
  if (region->own_buffered)
    close(region->buffered);
  region->own_buffered = false;
  if (region->direct >= 0)
    close(region->direct);
  region->buffered = region->direct = region->slot_buffered = region->slot_direct = -1;
}

// Opens the same file again, with or without O_DIRECT, and as synchronous as it is; -1: not possible. A file system
// without O_DIRECT reports that now or at the first operation.
static int open_again(int fd, int flags, bool direct) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, (flags & (O_ACCMODE | O_SYNC | O_DSYNC)) | O_CLOEXEC | O_NOCTTY | (direct ? O_DIRECT : 0));
}

static uint32_t direct_alignment(int fd) {
#ifdef STATX_DIOALIGN
  struct statx about;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 && about.stx_mask & STATX_DIOALIGN &&
      about.stx_dio_mem_align > 0 && about.stx_dio_offset_align > 0)
    return about.stx_dio_offset_align <= FILE_PAGE && about.stx_dio_mem_align <= FILE_PAGE ? about.stx_dio_mem_align
                                                                                           : 0;
#endif
  (void)fd;
  return FILE_PAGE;
}

static int check_file(const struct transport_memory *memory, int *flags, bool *limited) {
  const char *name = memory->path ? memory->path : "the file";
  struct stat about;
  if (fstat(memory->fd, &about) < 0 || (*flags = fcntl(memory->fd, F_GETFL)) < 0)
    return fail_errno(errno, "cannot stat the descriptor %d of %s", memory->fd, name);
  if (!S_ISREG(about.st_mode) && !S_ISBLK(about.st_mode))
    return fail(WEFT_ERR_INVALID, "%s is neither a regular file nor a block device", name);
  if (*flags & (O_PATH | O_APPEND))
    return fail(WEFT_ERR_INVALID, "%s was opened with %s, so bytes cannot be written at given offsets", name,
                *flags & O_PATH ? "O_PATH" : "O_APPEND");
  *limited = S_ISREG(about.st_mode);
  return 0;
}

static int open_file(struct file_worker *worker, struct file_region *file, const struct transport_memory *memory) {
  int flags = 0;
  int rc = check_file(memory, &flags, &file->limited);
  if (rc < 0)
    return rc;
  file->readable = (flags & O_ACCMODE) != O_WRONLY;
  file->writable = (flags & O_ACCMODE) != O_RDONLY;
  file->buffered = memory->fd;
  if (flags & O_DIRECT) { // heads and tails need the other kind
    file->buffered = open_again(memory->fd, flags, false);
    if (file->buffered < 0)
      return fail_errno(errno, "cannot open %s without O_DIRECT", memory->path ? memory->path : "the file");
    file->own_buffered = true;
  }
  file->memory_align = worker->direct ? direct_alignment(memory->fd) : 0;
  if (file->memory_align > 0)
    file->direct = open_again(memory->fd, flags, true);
  worker->engine->attach(worker, file);
  file_gds.attach(worker, file);
  return 0;
}

int file_reg(struct transport_worker *base, const struct transport_memory *memory, struct transport_region **out) {
  struct file_worker *worker = (struct file_worker *)base;
  if (memory->kind == WEFT_MEMORY_OBJECT)
    return fail(WEFT_ERR_UNSUPPORTED, "the transport file moves bytes between memory and files only");
  struct file_region *region = calloc(1, sizeof *region);
  if (!region)
    return fail(WEFT_ERR_NOMEM, "out of memory for a region");
  region->buffered = region->direct = region->slot_buffered = region->slot_direct = region->handle_fd = -1;
  region->base.base.worker = base;
  int rc = 0;
  if (memory->kind == WEFT_MEMORY_FILE)
    rc = open_file(worker, region, memory);
  else if (memory->kind == WEFT_MEMORY_CUDA)
    rc = file_gds_reg(worker, region, memory);
  if (rc < 0) {
    free(region);
    return rc;
  }
  storage_region_add(&worker->base, memory, &region->base);
  *out = &region->base.base;
  return 0;
}

void file_unreg(struct transport_region *base) {
  struct file_region *region = (struct file_region *)base;
  file_region_close(region);
  region->base.gone = true;
  region->base.base.memory.path = NULL; // the caller's
  if (storage_region_put(&region->base))
    file_region_drop(&region->base);
}

void file_release(struct transport_remote *remote) {
  struct storage_region *region = storage_remote_free(remote);
  if (storage_region_put(region))
    file_region_drop(region);
}
