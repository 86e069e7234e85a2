// Carries out one operation between a file and GPU memory, in a thread that may wait. cuFile moves whole pages of the
// file, past the page cache. Heads and tails go through the page cache and a page of host memory: cuFile would read
// their pages, change them and write them back, and lose data that another operation writes to the same page meanwhile.
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "transport/file/gds.h"

struct call {
  const struct file_gds *gds;
  struct file_op *op;
  char *address;
  off_t offset;
  size_t size;
  ssize_t result;
  int error;
};

static bool stopped(const struct file_op *op) {
  return atomic_load_explicit(&op->stopped, memory_order_relaxed);
}

static char *why_of(struct file_gds *gds, struct file_op *op) {
  char *why = gds->whys[op - gds->ops];
  op->why = why;
  return why;
}

static void call_cufile(void *arg) {
  struct call *call = arg;
  const struct file_op *op = call->op;
  void *base = op->memory->base.base.memory.address; // of the registered memory, from which offsets count
  off_t at = call->address - (char *)base;
  if (op->to_file)
    call->result = call->gds->cufile->write(op->file->handle, base, call->size, call->offset, at);
  else
    call->result = call->gds->cufile->read(op->file->handle, base, call->size, call->offset, at);
  call->error = errno;
}

static ssize_t by_cufile(struct file_gds *gds, struct file_op *op, struct call *call) {
  int device = op->memory->device;
  char why[DEVICE_WHY] = "", words[CUFILE_WORDS];
  if (gds->api->with(gds->devices[device], call_cufile, call, why) != 0) {
    snprintf(why_of(gds, op), GDS_WHY, "%s", why);
    return -EIO;
  }
  if (call->result == -1)
    return call->error > 0 ? -call->error : -EIO;
  if (call->result < 0) {
    const struct cufile_status status = {.err = (int)-call->result};
    snprintf(why_of(gds, op), GDS_WHY, "%s", cufile_words(status, words));
    return -EIO;
  }
  return call->result <= (ssize_t)call->size ? call->result : -EIO;
}

static int copy(struct file_gds *gds, struct file_op *op, void *to, const void *from, size_t size) {
  int device = op->memory->device;
  char why[DEVICE_WHY] = "";
  if (gds->api->copy(gds->devices[device], to, from, size, gds->streams[device], true, why) == 0)
    return 0;
  snprintf(why_of(gds, op), GDS_WHY, "%s", why);
  return -EIO;
}

static ssize_t by_page(struct file_gds *gds, struct file_op *op, const struct call *call, char *page) {
  int rc = op->to_file ? copy(gds, op, page, call->address, call->size) : 0;
  if (rc < 0)
    return rc;
  ssize_t size = op->to_file ? pwrite(op->file->buffered, page, call->size, call->offset)
                             : pread(op->file->buffered, page, call->size, call->offset);
  if (size < 0)
    return -errno;
  if (stopped(op) && !op->to_file) // nobody may be waiting any more
    return -ECANCELED;
  rc = op->to_file || size == 0 ? 0 : copy(gds, op, call->address, page, (size_t)size);
  return rc < 0 ? rc : size;
}

ssize_t gds_move(struct file_gds *gds, struct file_op *op, char page[FILE_MAX_PAGE]) {
  ssize_t moved = 0;
  while (moved < (ssize_t)op->length && !stopped(op)) {
    uint64_t offset = op->offset + (uint64_t)moved, off_page = offset % gds->page;
    size_t left = op->length - (size_t)moved, to_page = (size_t)(gds->page - off_page);
    bool whole = off_page == 0 && left >= gds->page;
    struct call call = {.gds = gds, .op = op, .address = op->address + moved, .offset = (off_t)offset};
    call.size = whole ? left - left % gds->page : left < to_page ? left : to_page;
    ssize_t size = whole ? by_cufile(gds, op, &call) : by_page(gds, op, &call, page);
    if (size <= 0) { // the moved bytes count; the rest is requested again, and then fails itself
      op->why = moved > 0 ? NULL : op->why;
      return moved > 0 ? moved : size;
    }
    moved += size;
  }
  return moved > 0 ? moved : -ECANCELED;
}
