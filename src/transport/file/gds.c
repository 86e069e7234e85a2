// The engine for GPU memory: GPUDirect Storage, by cuFile. A worker has it in addition to the engine for host memory,
// if the host has cuFile and GPUs. Its driver opens when a worker has both files and GPU memory. So it costs nothing
// before, and a program knows whether it works before it makes a transfer between them. Files and memory are registered
// with cuFile when a request first uses them. cuFile's calls wait for the device, so threads of this engine make them;
// the first request that needs the threads starts them.
#include "transport/file/gds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"

static const uint32_t cuda = 1u << WEFT_MEMORY_CUDA;

// --- GPUs and cuFile ---

// The worker does without; its user learns why.
static void give_up(struct file_worker *worker) {
  struct transport_worker *base = &worker->base.base;
  base->abilities.local_kinds &= ~cuda;
  snprintf(base->lacks, sizeof base->lacks, "memory of GPUs is copied through host memory: %s", weft_last_error());
  log_info("file: %s", base->lacks);
}

static int find(struct file_gds *gds) {
  char why[DEVICE_WHY] = "";
  int rc = cufile_load(&gds->cufile);
  if (rc == 0)
    rc = device_load(&gds->api);
  if (rc != 0)
    return rc;
  rc = gds->api->count(&gds->num_devices, why);
  return rc == 0 ? 0 : device_fail(rc, "GPUs for files", why);
}

static int gds_open(struct file_worker *worker) {
  struct file_gds *gds = calloc(1, sizeof *gds);
  int rc = gds ? find(gds) : fail(WEFT_ERR_NOMEM, "out of memory for GPUDirect Storage");
  if (rc == 0 && sem_init(&gds->waiting, 0, 0) != 0)
    rc = fail_errno(errno, "cannot make a semaphore");
  if (rc != 0) {
    free(gds);
    give_up(worker);
    return rc;
  }
  pthread_mutex_init(&gds->takers, NULL);
  gds->wake = -1;
  atomic_store(&gds->users, 1);
  worker->gds = gds;
  return 0;
}

static void gds_close(struct file_worker *worker) {
  struct file_gds *gds = worker->gds;
  if (!gds)
    return;
  for (int i = 0; i < GDS_DEVICES && !gds->abandoned; i++) {
    if (gds->streams[i])
      gds->api->stream_close(gds->devices[i], gds->streams[i]);
    if (gds->devices[i])
      gds->api->close(gds->devices[i]);
  }
  gds_threads_end(gds, worker);
  worker->gds = NULL;
}

void file_gds_abandon(struct file_worker *worker) {
  for (uint64_t i = 0; worker->gds && i < worker->depth; i++)
    worker->gds->abandoned |= worker->ops[i].busy && file_is_cuda(worker->ops[i].memory);
}

// --- files and memory ---

static void open_driver(struct file_worker *worker) {
  struct file_gds *gds = worker->gds;
  if (gds->ready || !gds->has_files || !gds->has_memory || !(worker->base.base.abilities.local_kinds & cuda))
    return;
  gds->ready = cufile_driver(gds->cufile) == 0;
  if (!gds->ready)
    give_up(worker);
}

static void gds_attach(struct file_worker *worker, struct file_region *file) {
  (void)file;
  if (!worker->gds)
    return;
  worker->gds->has_files = true;
  open_driver(worker);
}

static int open_device(struct file_gds *gds, int index) {
  char why[DEVICE_WHY] = "";
  if (index >= GDS_DEVICES)
    return fail(WEFT_ERR_LIMIT, "GPU %d: the transport file supports only GPUs below %d", index, GDS_DEVICES);
  int rc = gds->devices[index] ? 0 : gds->api->open(index, &gds->devices[index], why);
  if (rc == 0 && !gds->streams[index])
    rc = gds->api->stream_open(gds->devices[index], &gds->streams[index], why);
  return rc == 0 ? 0 : device_fail(rc, "a GPU for files", why);
}

int file_gds_reg(struct file_worker *worker, struct file_region *memory, const struct transport_memory *about) {
  struct file_gds *gds = worker->gds;
  char why[DEVICE_WHY] = "";
  int owner = -1;
  if (!(worker->base.base.abilities.local_kinds & cuda))
    return fail(WEFT_ERR_UNSUPPORTED, "%s", worker->base.base.lacks);
  int rc = gds->api->owner(about->address, &owner, why);
  if (rc != 0)
    return device_fail(rc, "memory of a GPU", why);
  if (owner < 0 || (about->device >= 0 && about->device != owner))
    return fail(WEFT_ERR_INVALID, "%p is memory of %s %d, but should be of GPU %d", about->address,
                owner < 0 ? "no GPU:" : "GPU", owner, about->device);
  rc = open_device(gds, owner);
  if (rc != 0)
    return rc;
  memory->device = owner;
  gds->has_memory = true;
  open_driver(worker);
  return gds->ready || !gds->has_files ? 0 : fail(WEFT_ERR_UNSUPPORTED, "%s", worker->base.base.lacks);
}

static struct cufile_status take_file(const struct cufile *cufile, struct file_region *file, int fd) {
  struct cufile_target target = {.type = CUFILE_OPAQUE_FD};
  target.of.fd = fd;
  struct cufile_status status = cufile->handle_register(&file->handle, &target);
  if (status.err != CUFILE_SUCCESS)
    file->handle = NULL;
  return status;
}

// Makes a separate descriptor, since cuFile accepts each only once. It has O_DIRECT if possible: for a descriptor
// without it, cuFile opens the file again by its name, which an unlinked file does not have any more.
static int open_handle(struct file_worker *worker, struct file_region *file) {
  const struct cufile *cufile = worker->gds->cufile;
  const char *path = file->base.base.memory.path ? file->base.base.memory.path : "the file";
  struct cufile_status status = {.err = CUFILE_GETNEWFD_FAILED};
  char words[CUFILE_WORDS];
  if (file->handle)
    return 0;
  if (file->direct >= 0)
    status = take_file(cufile, file, file->direct);
  if (status.err == CUFILE_GETNEWFD_FAILED) {
    if (file->handle_fd < 0)
      file->handle_fd = fcntl(file->buffered, F_DUPFD_CLOEXEC, 0);
    if (file->handle_fd < 0)
      return fail_errno(errno, "cannot duplicate the descriptor of %s", path);
    status = take_file(cufile, file, file->handle_fd);
  }
  if (status.err == CUFILE_SUCCESS)
    return 0;
  return fail(WEFT_ERR_UNSUPPORTED, "cuFile does not take %s, so that memory of GPUs is copied through host memory: %s",
              path, cufile_file_words(status, words));
}

struct pinning {
  const struct cufile *cufile;
  const struct transport_memory *memory;
  bool undo;
  struct cufile_status status;
};

static void call_pin(void *arg) {
  struct pinning *pinning = arg;
  const struct transport_memory *memory = pinning->memory;
  if (pinning->undo)
    pinning->status = pinning->cufile->buffer_deregister(memory->address);
  else
    pinning->status = pinning->cufile->buffer_register(memory->address, memory->length, 0);
}

// Memory that cannot be registered (which needs room in the GPU's PCI window) is used unregistered, through cuFile's
// own buffers.
static uint64_t gds_pin(struct file_worker *worker, struct file_region *memory, uint64_t offset, uint64_t length,
                        uint64_t most) {
  struct file_gds *gds = worker->gds;
  char why[DEVICE_WHY] = "", words[CUFILE_WORDS];
  (void)offset, (void)length, (void)most; // all of it, and no host memory
  if (memory->pin_tried)
    return 0;
  memory->pin_tried = true;
  struct pinning pinning = {.cufile = gds->cufile, .memory = &memory->base.base.memory};
  int rc = gds->api->with(gds->devices[memory->device], call_pin, &pinning, why);
  memory->pinned = rc == 0 && pinning.status.err == CUFILE_SUCCESS;
  if (!memory->pinned)
    log_debug("file: memory of GPU %d is not registered with cuFile: %s", memory->device,
              rc != 0 ? why : cufile_words(pinning.status, words));
  return 0;
}

static void gds_detach(struct file_worker *worker, struct file_region *region) {
  struct file_gds *gds = worker->gds;
  char why[DEVICE_WHY];
  if (!gds)
    return;
  if (gds->abandoned) { // calls may use it
    region->direct = region->handle ? -1 : region->direct;
    return;
  }
  if (region->handle)
    gds->cufile->handle_deregister(region->handle);
  if (region->handle_fd >= 0)
    close(region->handle_fd);
  struct pinning pinning = {.cufile = gds->cufile, .memory = &region->base.base.memory, .undo = true};
  if (region->pinned)
    gds->api->with(gds->devices[region->device], call_pin, &pinning, why);
  region->handle = NULL;
  region->handle_fd = -1;
  region->pinned = false;
}

int file_gds_prepare(struct file_worker *worker, const struct transport_request *request) {
  bool needed = false;
  int rc = 0;
  for (uint32_t i = 0; i < request->num_pieces && rc == 0; i++) {
    if (!file_is_cuda((struct file_region *)request->pieces[i].local))
      continue;
    needed = true;
    if (!worker->gds || !worker->gds->ready)
      rc = fail(WEFT_ERR_UNSUPPORTED, "piece %u: %s", i, worker->base.base.lacks);
    else
      rc = open_handle(worker, (struct file_region *)((struct storage_remote *)request->pieces[i].remote)->region);
  }
  return rc == 0 && needed ? gds_threads_start(worker->gds, worker) : rc;
}

// --- operations ---

static void gds_start(struct file_worker *worker, struct file_op *op) {
  struct file_gds *gds = worker->gds;
  op->why = NULL;
  gds->ring[gds->put++ % gds->depth] = op;
  sem_post(&gds->waiting);
}

static uint32_t gds_reap(struct file_worker *worker) {
  struct file_gds *gds = worker->gds;
  struct file_op *list = NULL, *next;
  uint32_t count = 0;
  if (!gds)
    return 0;
  struct file_op *op = atomic_exchange_explicit(&gds->ended, NULL, memory_order_acquire);
  for (; op; op = next) { // in the order in which they ended
    next = op->next;
    op->next = list;
    list = op;
  }
  for (; list; list = next, count++) {
    next = list->next;
    file_op_done(worker, list, list->result);
  }
  return count;
}

static void gds_flush(struct file_worker *worker) {
  (void)worker;
}

static void gds_cancel(struct file_worker *worker, struct file_op *op) {
  (void)worker;
  atomic_store_explicit(&op->stopped, true, memory_order_relaxed);
}

static int gds_arm(struct file_worker *worker) {
  struct file_gds *gds = worker->gds;
  return gds && atomic_load_explicit(&gds->ended, memory_order_acquire) ? WEFT_ERR_BUSY : 0;
}

const struct file_engine file_gds = {
    .name = "cuFile",
    .open = gds_open,
    .close = gds_close,
    .start = gds_start,
    .reap = gds_reap,
    .flush = gds_flush,
    .cancel = gds_cancel,
    .attach = gds_attach,
    .detach = gds_detach,
    .pin = gds_pin,
    .arm = gds_arm,
};
