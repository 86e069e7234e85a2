// The engine on io_uring. It keeps as many operations at the device as the worker has, starts a batch of them by one
// system call, and looks up descriptors, and pages of memory if they may be locked, only once. Seccomp profiles of
// containers often forbid io_uring, so whether it works is known only at run time.
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "transport/file/file.h"

enum { FILE_SLOTS = 1024, BUFFER_SLOTS = 1024, BATCH = 64 };
enum { UNTRIED = UINT16_MAX, REFUSED = UINT16_MAX - 1 }; // in the place of a buffer's number

struct uring {
  struct io_uring ring;
  bool files, buffers;             // the ring has these tables
  uint16_t free_files[FILE_SLOTS]; // stacks of the numbers that are free
  uint16_t free_buffers[BUFFER_SLOTS];
  uint32_t num_free_files, num_free_buffers;
};

// A ring that one thread uses can leave completions to that thread's own calls, which is the fastest; other threads
// would never see them.
static int make_ring(struct file_worker *worker, struct io_uring *ring) {
  unsigned entries = (unsigned)(worker->depth < 16 ? 32 : worker->depth * 2); // cancellations need some as well
  struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                            IORING_SETUP_TASKRUN_FLAG};
  int rc = worker->base.base.options.threads ? -EINVAL : io_uring_queue_init_params(entries, ring, &params);
  if (rc == -EINVAL) {
    params = (struct io_uring_params){0};
    rc = io_uring_queue_init_params(entries, ring, &params);
  }
  if (rc < 0)
    return fail(WEFT_ERR_UNSUPPORTED, "io_uring does not work here: %s%s", strerror(-rc),
                rc == -EPERM    ? " (a seccomp profile or kernel.io_uring_disabled forbids it)"
                : rc == -ENOMEM ? " (raise ulimit -l)"
                                : "");
  return 0;
}

static void make_tables(struct uring *uring) {
  uring->files = io_uring_register_files_sparse(&uring->ring, FILE_SLOTS) == 0;
  uring->buffers = io_uring_register_buffers_sparse(&uring->ring, BUFFER_SLOTS) == 0;
  for (uint32_t i = 0; uring->files && i < FILE_SLOTS; i++)
    uring->free_files[uring->num_free_files++] = (uint16_t)i;
  for (uint32_t i = 0; uring->buffers && i < BUFFER_SLOTS; i++)
    uring->free_buffers[uring->num_free_buffers++] = (uint16_t)i;
}

static int uring_open(struct file_worker *worker) {
  struct uring *uring = calloc(1, sizeof *uring);
  if (!uring)
    return fail(WEFT_ERR_NOMEM, "out of memory for the transport file");
  int rc = make_ring(worker, &uring->ring);
  if (rc < 0) {
    free(uring);
    return rc;
  }
  worker->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  int error = worker->event_fd < 0 ? errno : -io_uring_register_eventfd(&uring->ring, worker->event_fd);
  if (error != 0) {
    rc = fail_errno(error, "cannot make an eventfd for io_uring");
    if (worker->event_fd >= 0)
      close(worker->event_fd);
    worker->event_fd = -1;
    io_uring_queue_exit(&uring->ring);
    free(uring);
    return rc;
  }
  make_tables(uring);
  worker->engine_data = uring;
  return 0;
}

static void uring_close(struct file_worker *worker) {
  struct uring *uring = worker->engine_data;
  io_uring_queue_exit(&uring->ring);
  close(worker->event_fd);
  free(uring);
}

// The queue has room for all operations. In addition it gets cancellations; a submit makes room for them.
static struct io_uring_sqe *next_sqe(struct uring *uring) {
  struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
  if (!sqe) {
    io_uring_submit(&uring->ring);
    sqe = io_uring_get_sqe(&uring->ring);
  }
  return sqe;
}

// The registered buffer that holds all of the operation's memory, or -1.
static int fixed_of(const struct file_op *op) {
  if (op->sync || !op->memory->fixed)
    return -1;
  uint64_t begin = (uint64_t)(op->address - (const char *)op->memory->base.base.memory.address);
  uint64_t first = begin / FILE_FIXED_BYTES, last = (begin + op->length - 1) / FILE_FIXED_BYTES;
  return first == last && op->memory->fixed[first] < BUFFER_SLOTS ? op->memory->fixed[first] : -1;
}

static void uring_start(struct file_worker *worker, struct file_op *op) {
  struct io_uring_sqe *sqe = next_sqe(worker->engine_data);
  if (!sqe) { // the kernel takes nothing now
    file_op_done(worker, op, -EAGAIN);
    return;
  }
  int slot = op->direct ? op->file->slot_direct : op->file->slot_buffered;
  int fd = slot >= 0 ? slot : op->direct ? op->file->direct : op->file->buffered;
  int buffer = fixed_of(op);
  if (op->sync)
    io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
  else if (op->to_file && buffer >= 0)
    io_uring_prep_write_fixed(sqe, fd, op->address, op->length, op->offset, buffer);
  else if (op->to_file)
    io_uring_prep_write(sqe, fd, op->address, op->length, op->offset);
  else if (buffer >= 0)
    io_uring_prep_read_fixed(sqe, fd, op->address, op->length, op->offset, buffer);
  else
    io_uring_prep_read(sqe, fd, op->address, op->length, op->offset);
  if (slot >= 0)
    io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
  io_uring_sqe_set_data(sqe, op);
}

static uint32_t uring_reap(struct file_worker *worker) {
  struct uring *uring = worker->engine_data;
  struct io_uring_cqe *cqes[BATCH];
  unsigned ready = io_uring_peek_batch_cqe(&uring->ring, cqes, BATCH);
  uint32_t count = 0;
  for (unsigned i = 0; i < ready; i++) {
    struct file_op *op = io_uring_cqe_get_data(cqes[i]);
    if (!op) // of a cancellation
      continue;
    file_op_done(worker, op, cqes[i]->res);
    count++;
  }
  io_uring_cq_advance(&uring->ring, ready);
  return count;
}

static void uring_flush(struct file_worker *worker) {
  struct uring *uring = worker->engine_data;
  if (io_uring_sq_ready(&uring->ring) == 0)
    return;
  int rc = io_uring_submit(&uring->ring);
  // Entries that were not accepted stay in the ring for the next call.
  if (rc < 0 && rc != -EAGAIN && rc != -EBUSY && rc != -EINTR)
    log_error("io_uring does not take operations: %s", strerror(-rc));
}

static void uring_cancel(struct file_worker *worker, struct file_op *op) {
  struct io_uring_sqe *sqe = next_sqe(worker->engine_data);
  if (!sqe)
    return; // it ends by itself
  io_uring_prep_cancel(sqe, op, 0);
  io_uring_sqe_set_data(sqe, NULL);
}

static int attach_one(struct uring *uring, int fd) {
  if (fd < 0 || uring->num_free_files == 0)
    return -1;
  int slot = uring->free_files[uring->num_free_files - 1];
  if (io_uring_register_files_update(&uring->ring, (unsigned)slot, &fd, 1) != 1)
    return -1;
  uring->num_free_files--;
  return slot;
}

static void uring_attach(struct file_worker *worker, struct file_region *file) {
  file->slot_buffered = attach_one(worker->engine_data, file->buffered);
  file->slot_direct = attach_one(worker->engine_data, file->direct);
}

static void detach_one(struct uring *uring, int slot) {
  if (slot < 0)
    return;
  int none = -1;
  io_uring_register_files_update(&uring->ring, (unsigned)slot, &none, 1);
  uring->free_files[uring->num_free_files++] = (uint16_t)slot;
}

static void uring_detach(struct file_worker *worker, struct file_region *region) {
  struct uring *uring = worker->engine_data;
  detach_one(uring, region->slot_buffered);
  detach_one(uring, region->slot_direct);
  for (uint32_t i = 0; i < region->num_fixed; i++) {
    struct iovec none = {0};
    if (region->fixed[i] >= BUFFER_SLOTS)
      continue;
    io_uring_register_buffers_update_tag(&uring->ring, region->fixed[i], &none, NULL, 1);
    uring->free_buffers[uring->num_free_buffers++] = region->fixed[i];
  }
  free(region->fixed);
  region->fixed = NULL;
  region->num_fixed = 0;
}

// Returns its bytes. Memory that cannot be locked (RLIMIT_MEMLOCK) or written is used as it is, and not tried again.
static uint64_t pin_one(struct uring *uring, struct file_region *memory, uint64_t i) {
  char *address = memory->base.base.memory.address;
  uint64_t begin = i * FILE_FIXED_BYTES, rest = memory->base.base.memory.length - begin;
  struct iovec run = {address + begin, rest < FILE_FIXED_BYTES ? rest : FILE_FIXED_BYTES};
  uint16_t number = uring->free_buffers[uring->num_free_buffers - 1];
  int rc = io_uring_register_buffers_update_tag(&uring->ring, number, &run, NULL, 1);
  if (rc == 1) {
    uring->num_free_buffers--;
    memory->fixed[i] = number;
    return run.iov_len;
  }
  log_debug("file: host memory is not pinned: %s", strerror(rc < 0 ? -rc : ENOMEM));
  for (uint32_t k = 0; k < memory->num_fixed; k++)
    memory->fixed[k] = memory->fixed[k] == UNTRIED ? REFUSED : memory->fixed[k];
  return 0;
}

static bool may_pin(struct file_region *memory) {
  uint64_t all = (memory->base.base.memory.length + FILE_FIXED_BYTES - 1) / FILE_FIXED_BYTES;
  if (memory->fixed || all > FILE_MAX_FIXED)
    return memory->fixed;
  memory->fixed = malloc(all * sizeof *memory->fixed);
  if (!memory->fixed)
    return false; // it works without
  memset(memory->fixed, 0xFF, all * sizeof *memory->fixed);
  memory->num_fixed = (uint32_t)all;
  return true;
}

// Only the parts that the operation uses, since pinning all of a large region may take seconds.
static uint64_t uring_pin(struct file_worker *worker, struct file_region *memory, uint64_t offset, uint64_t length,
                          uint64_t most) {
  struct uring *uring = worker->engine_data;
  uint64_t pinned = 0;
  if (length == 0 || !may_pin(memory))
    return 0;
  for (uint64_t i = offset / FILE_FIXED_BYTES; i <= (offset + length - 1) / FILE_FIXED_BYTES && pinned < most; i++)
    if (memory->fixed[i] == UNTRIED && uring->num_free_buffers > 0)
      pinned += pin_one(uring, memory, i);
  return pinned;
}

static int uring_arm(struct file_worker *worker) {
  struct uring *uring = worker->engine_data;
  uint64_t count;
  if (read(worker->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
    return WEFT_ERR_BUSY;
  if (io_uring_cq_ready(&uring->ring) > 0 || io_uring_sq_ready(&uring->ring) > 0)
    return WEFT_ERR_BUSY;
  // With deferred completions, this word of the ring shows that some wait for a call of this thread.
  unsigned flags = __atomic_load_n(uring->ring.sq.kflags, __ATOMIC_ACQUIRE);
  return flags & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN) ? WEFT_ERR_BUSY : 0;
}

const struct file_engine file_uring = {
    .name = "uring",
    .open = uring_open,
    .close = uring_close,
    .start = uring_start,
    .reap = uring_reap,
    .flush = uring_flush,
    .cancel = uring_cancel,
    .attach = uring_attach,
    .detach = uring_detach,
    .pin = uring_pin,
    .arm = uring_arm,
};
