// The engine without io_uring: pread() and pwrite(), in progress() and in slices. A thread pool could keep several
// operations at the device at once, but transports have no threads. So if the kernel has no io_uring, a request takes
// longer, and a file system that hangs blocks the thread that drives the worker.
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "transport/file/file.h"

enum { SLICE_BYTES = 4 << 20, SLICE_OPERATIONS = 64 }; // of one progress()

struct posix {
  struct file_op *first, **end;
};

static int posix_open(struct file_worker *worker) {
  struct posix *posix = calloc(1, sizeof *posix);
  if (!posix)
    return fail(WEFT_ERR_NOMEM, "out of memory for the transport file");
  worker->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); // for gds.c's: here all happens in progress()
  if (worker->event_fd < 0) {
    free(posix);
    return fail_errno(errno, "cannot make an eventfd");
  }
  posix->end = &posix->first;
  worker->engine_data = posix;
  return 0;
}

static void posix_close(struct file_worker *worker) {
  close(worker->event_fd);
  free(worker->engine_data);
}

static void posix_start(struct file_worker *worker, struct file_op *op) {
  struct posix *posix = worker->engine_data;
  op->next = NULL;
  *posix->end = op;
  posix->end = &op->next;
}

static ssize_t carry_out(const struct file_op *op) {
  if (op->request->base.canceled)
    return -ECANCELED;
  int fd = op->direct ? op->file->direct : op->file->buffered;
  ssize_t result;
  if (op->sync)
    result = fdatasync(fd);
  else if (op->to_file)
    result = pwrite(fd, op->address, op->length, (off_t)op->offset);
  else
    result = pread(fd, op->address, op->length, (off_t)op->offset);
  return result < 0 ? -errno : result;
}

static uint32_t posix_reap(struct file_worker *worker) {
  struct posix *posix = worker->engine_data;
  uint32_t count = 0;
  for (uint64_t bytes = 0; posix->first && count < SLICE_OPERATIONS && bytes < SLICE_BYTES; count++) {
    struct file_op *op = posix->first;
    posix->first = op->next;
    if (!posix->first)
      posix->end = &posix->first;
    bytes += op->length;
    file_op_done(worker, op, carry_out(op));
  }
  return count;
}

static void posix_flush(struct file_worker *worker) {
  (void)worker;
}

static void posix_cancel(struct file_worker *worker, struct file_op *op) {
  (void)worker, (void)op; // found in carry_out()
}

static void posix_region(struct file_worker *worker, struct file_region *region) {
  (void)worker, (void)region;
}

static uint64_t posix_pin(struct file_worker *worker, struct file_region *memory, uint64_t offset, uint64_t length,
                          uint64_t most) {
  (void)worker, (void)memory, (void)offset, (void)length, (void)most;
  return 0;
}

static int posix_arm(struct file_worker *worker) {
  const struct posix *posix = worker->engine_data;
  uint64_t count;
  if (read(worker->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
    return WEFT_ERR_BUSY;
  return posix->first ? WEFT_ERR_BUSY : 0;
}

const struct file_engine file_posix = {
    .name = "posix",
    .open = posix_open,
    .close = posix_close,
    .start = posix_start,
    .reap = posix_reap,
    .flush = posix_flush,
    .cancel = posix_cancel,
    .attach = posix_region,
    .detach = posix_region,
    .pin = posix_pin,
    .arm = posix_arm,
};
