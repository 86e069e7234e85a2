// The transport `file`: reads and writes files from and to host memory, with io_uring or, where there is none, with
// pread() and pwrite(); and from and to memory of GPUs with cuFile, where it is there, in threads of its own.
//
// Data goes past the page cache (O_DIRECT, through a second descriptor of the same file) where whole pages of the file
// are moved and the address allows; heads and tails go through it. The kernel keeps the two coherent, and no page is
// written both ways. A write is complete when every reader of the file sees it; with the setting sync=data when the
// device has it as well.
//
// Settings: engine=auto|uring|posix, depth=1..4096 (operations at once, 64), direct=0|1 (1), pin=0|1 (1: register host
// memory with the ring, and that of GPUs with cuFile, when a request first uses it), sync=none|data (none), gds=0|1 (1:
// memory of GPUs, by cuFile), gds_threads=1..64 (8),
// gds_close_s=1..600 (5: that close() waits for cuFile).
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/text/settings.h"
#include "base/time/clock.h"
#include "transport/file/file.h"

extern const struct transport transport_file;

enum { DEFAULT_DEPTH = 64, MAX_DEPTH = 4096, DEFAULT_THREADS = 8, MAX_THREADS = 64 };
enum { CLOSE_MS = 1000, CLOSE_GPU_S = 5, MAX_CLOSE_S = 600 };

static int probe(char *why, size_t cap) {
  snprintf(why, cap, "%s", "");
  return 0;
}

// --- open and close ---

static uint64_t page_size(void) {
  long size = sysconf(_SC_PAGESIZE);
  return size < FILE_PAGE ? FILE_PAGE : size > FILE_MAX_PAGE ? FILE_MAX_PAGE : (uint64_t)size;
}

static int read_settings(struct file_worker *worker, const struct transport_options *options) {
  static const char *const others[] = {"engine", "sync", NULL};
  uint64_t direct = 1, pin = 1, gds = 1;
  const struct settings_number numbers[] = {
      {"depth", 1, MAX_DEPTH, &worker->depth},
      {"direct", 0, 1, &direct},
      {"pin", 0, 1, &pin},
      {"gds", 0, 1, &gds},
      {"gds_threads", 1, MAX_THREADS, &worker->gds_threads},
      {"gds_close_s", 1, MAX_CLOSE_S, &worker->close_s},
      {.name = NULL},
  };
  worker->depth = DEFAULT_DEPTH;
  worker->page = page_size();
  worker->gds_threads = DEFAULT_THREADS;
  worker->close_s = CLOSE_GPU_S;
  const char *sync = settings_value(options->settings, "sync");
  int rc = settings_read(options->settings, "file", numbers, others);
  if (rc == 0 && sync && strcmp(sync, "none") != 0 && strcmp(sync, "data") != 0)
    rc = fail(WEFT_ERR_INVALID, "sync=%s: none or data is wanted", sync);
  worker->direct = direct;
  worker->pin = pin;
  worker->by_gds = gds;
  worker->sync = sync && strcmp(sync, "data") == 0;
  return rc;
}

static int open_engine(struct file_worker *worker, const char *wanted) {
  if (wanted && strcmp(wanted, "auto") != 0 && strcmp(wanted, "uring") != 0 && strcmp(wanted, "posix") != 0)
    return fail(WEFT_ERR_INVALID, "engine=%s: auto, uring or posix is wanted", wanted);
  bool uring = !wanted || strcmp(wanted, "posix") != 0;
  int rc = 0;
  if (uring) {
#ifdef WEFT_HAVE_URING
    worker->engine = &file_uring;
    rc = worker->engine->open(worker);
#else
    rc = fail(WEFT_ERR_UNSUPPORTED, "this build has no io_uring: liburing was not there");
#endif
    if (rc == 0 || (wanted && strcmp(wanted, "uring") == 0))
      return rc;
    log_info("file: pread() and pwrite() are used: %s", weft_last_error());
  }
  worker->engine = &file_posix;
  return worker->engine->open(worker);
}

// Without it the worker does what else it can.
static void open_gds(struct file_worker *worker) {
  struct transport_worker *base = &worker->base.base;
  if (worker->by_gds) {
    file_gds.open(worker);
    return;
  }
  base->abilities.local_kinds &= ~(1u << WEFT_MEMORY_CUDA);
  snprintf(base->lacks, sizeof base->lacks, "GPUDirect Storage is switched off (gds=0)");
}

static int open_worker(const struct transport_options *options, struct transport_worker **out) {
  struct file_worker *worker = calloc(1, sizeof *worker);
  if (!worker)
    return fail(WEFT_ERR_NOMEM, "out of memory for the transport file");
  worker->event_fd = -1;
  self_worker_init(&worker->base, &transport_file, options);
  link_init(&worker->issue);
  int rc = read_settings(worker, options);
  if (rc == 0 && !(worker->ops = calloc(worker->depth, sizeof *worker->ops)))
    rc = fail(WEFT_ERR_NOMEM, "out of memory for %llu operations", (unsigned long long)worker->depth);
  if (rc == 0)
    rc = open_engine(worker, settings_value(options->settings, "engine"));
  if (rc < 0) {
    free(worker->ops);
    free(worker);
    return rc;
  }
  open_gds(worker);
  for (uint64_t i = worker->depth; i-- > 0;) {
    worker->ops[i].next = worker->free_ops;
    worker->free_ops = &worker->ops[i];
  }
  *out = &worker->base.base;
  return 0;
}

static void drop(struct self_region *base) {
  struct file_region *region = (struct file_region *)base;
  free(region);
}

// What a region holds of the system; its descriptor may be the caller's, who may close it now.
static void let_go(struct file_region *region) {
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

static uint32_t progress(struct transport_worker *base) {
  struct file_worker *worker = (struct file_worker *)base;
  uint32_t count = worker->engine->reap(worker) + file_gds.reap(worker);
  file_issue(worker);
  return count + self_worker_tell(&worker->base, drop);
}

static int arm_engines(struct file_worker *worker) {
  int rc = worker->engine->arm(worker); // forgets what woke the caller: what ended before is found behind
  return rc == 0 ? file_gds.arm(worker) : rc;
}

static void cancel_all(struct file_worker *worker) {
  for (struct link *link = worker->base.active.next, *next; link != &worker->base.active; link = next) {
    next = link->next;
    file_cancel(LINK_OF(link, struct self_request, link)->request);
  }
}

static void close_worker(struct transport_worker *base) {
  struct file_worker *worker = (struct file_worker *)base;
  if (!worker)
    return;
  worker->base.closing = true;
  cancel_all(worker);
  // Threads that are in cuFile cannot be stopped, and share processors with others.
  uint64_t deadline = clock_deadline_ms(worker->gds ? (uint32_t)worker->close_s * 1000 : CLOSE_MS);
  progress(base);
  while (worker->in_flight > 0 && !clock_passed(deadline)) {
    struct pollfd wait = {.fd = worker->event_fd, .events = POLLIN};
    if (arm_engines(worker) == 0)
      poll(&wait, 1, clock_left_ms(deadline));
    progress(base);
  }
  if (worker->in_flight > 0) {
    log_warn("file: %u operations do not end; the kernel may still use their memory", worker->in_flight);
    file_gds_abandon(worker);
  }
  while (!link_empty(&worker->base.active))
    self_request_end(LINK_OF(worker->base.active.next, struct self_request, link));
  self_worker_tell(&worker->base, drop);
  for (struct link *link = worker->base.regions.next; link != &worker->base.regions; link = link->next)
    let_go((struct file_region *)LINK_OF(link, struct self_region, link));
  self_worker_clear(&worker->base, drop);
  file_gds.close(worker);
  worker->engine->close(worker);
  free(worker->ops);
  free(worker);
}

// --- regions ---

// The same file once more, with O_DIRECT or without; -1: not here. A file system that cannot says so now or at the
// first operation.
static int open_again(int fd, int flags, bool direct) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, (flags & O_ACCMODE) | O_CLOEXEC | O_NOCTTY | (direct ? O_DIRECT : 0));
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
    return fail_errno(errno, "cannot look at the descriptor %d of %s", memory->fd, name);
  if (!S_ISREG(about.st_mode) && !S_ISBLK(about.st_mode))
    return fail(WEFT_ERR_INVALID, "%s is neither a regular file nor a block device", name);
  if (*flags & (O_PATH | O_APPEND))
    return fail(WEFT_ERR_INVALID, "%s was opened with %s: its bytes cannot be written where they belong", name,
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

static int reg(struct transport_worker *base, const struct transport_memory *memory, struct transport_region **out) {
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
  self_region_add(&worker->base, memory, &region->base);
  *out = &region->base.base;
  return 0;
}

static void unreg(struct transport_region *base) {
  struct file_region *region = (struct file_region *)base;
  let_go(region);
  region->base.gone = true;
  region->base.base.memory.path = NULL; // the caller's
  if (self_region_put(&region->base))
    drop(&region->base);
}

static void release(struct transport_remote *remote) {
  struct self_region *region = self_remote_free(remote);
  if (self_region_put(region))
    drop(region);
}

static void disconnect(struct transport_peer *peer) {
  self_disconnect(peer, file_cancel, drop);
}

// --- requests ---

static struct file_region *file_of(const struct transport_piece *piece) {
  return (struct file_region *)((struct self_remote *)piece->remote)->region;
}

static int check_modes(const struct transport_request *request) {
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    const struct file_region *file = file_of(&request->pieces[i]);
    const char *name = file->base.base.memory.path ? file->base.base.memory.path : "its file";
    if (file->base.gone)
      return fail(WEFT_ERR_NOT_FOUND, "piece %u: its file was deregistered", i);
    if (request->op == WEFT_READ ? !file->readable : !file->writable)
      return fail(WEFT_ERR_INVALID, "piece %u: %s is open for %s only", i, name,
                  request->op == WEFT_READ ? "writing" : "reading");
  }
  return 0;
}

// The different files of a request, for sync=data.
static int list_files(struct file_request *own, const struct transport_request *request) {
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    struct file_region *file = file_of(&request->pieces[i]);
    uint32_t k = own->num_files;
    while (k > 0 && own->files[k - 1] != file)
      k--;
    if (k > 0)
      continue;
    struct file_region **grown = realloc(own->files, (own->num_files + 1) * sizeof *grown);
    if (!grown)
      return fail(WEFT_ERR_NOMEM, "out of memory for a request");
    own->files = grown;
    own->files[own->num_files++] = file;
  }
  return 0;
}

static void free_own(struct file_request *own) {
  self_request_free(&own->base);
  free(own->files);
  free(own);
}

static int prepare(struct transport_request *request) {
  struct file_worker *worker = (struct file_worker *)request->peer->worker;
  struct file_request *own = calloc(1, sizeof *own);
  if (!own)
    return fail(WEFT_ERR_NOMEM, "out of memory for a request");
  link_init(&own->issue);
  int rc = check_modes(request);
  if (rc == 0)
    rc = self_request_init(request, &own->base);
  if (rc == 0)
    rc = file_gds_prepare(worker, request);
  if (rc == 0 && worker->sync && request->op == WEFT_WRITE)
    rc = list_files(own, request);
  if (rc < 0) {
    free_own(own);
    return rc;
  }
  for (uint32_t i = 0; worker->pin && i < request->num_pieces; i++) {
    struct file_region *memory = (struct file_region *)request->pieces[i].local;
    if (!memory->fixed_tried)
      (file_is_cuda(memory) ? &file_gds : worker->engine)->pin(worker, memory);
    memory->fixed_tried = true;
  }
  request->own = own;
  return 0;
}

static void unprepare(struct transport_request *request) {
  free_own(request->own);
  request->own = NULL;
}

static uint64_t most_of_a_file(void) {
  struct rlimit files;
  return getrlimit(RLIMIT_FSIZE, &files) == 0 ? files.rlim_cur : UINT64_MAX;
}

static int post(struct transport_request *request) {
  struct file_request *own = request->own;
  int rc = self_request_begin(request);
  if (rc < 0)
    return rc;
  struct file_worker *worker = (struct file_worker *)request->peer->worker;
  own->piece = own->next_file = 0;
  own->offset = 0;
  own->syncing = false;
  own->most = request->op == WEFT_WRITE ? most_of_a_file() : UINT64_MAX;
  if (request->num_pieces == 0) {
    self_request_end(&own->base);
    return 0;
  }
  link_add(&worker->issue, &own->issue);
  file_issue(worker);
  return 0;
}

static int get_fd(struct transport_worker *base) {
  struct file_worker *worker = (struct file_worker *)base;
  return worker->event_fd;
}

static int arm(struct transport_worker *base) {
  struct file_worker *worker = (struct file_worker *)base;
  bool idle = link_empty(&worker->base.ended) && (link_empty(&worker->issue) || !worker->free_ops);
  return idle ? arm_engines(worker) : WEFT_ERR_BUSY;
}

// An NVMe drive of a server; only the order against other transports matters, and there is none for files.
static void cost(struct transport_worker *base, const struct transport_peer *peer, struct transport_cost *out) {
  (void)base, (void)peer;
  *out = (struct transport_cost){.latency_ns = 100000, .piece_ns = 5000, .bytes_per_s = 2000000000};
}

const struct transport transport_file = {
    .name = "file",
    .what = "files, by io_uring or pread() and pwrite(), and by cuFile for GPUs",
    .abilities = {.local_kinds = 1u << WEFT_MEMORY_HOST | 1u << WEFT_MEMORY_CUDA,
                  .remote_kinds = 1u << WEFT_MEMORY_FILE,
                  .flags = TRANSPORT_MESSAGES | TRANSPORT_ONE_SIDED | TRANSPORT_SELF_ONLY | TRANSPORT_LENGTHS},
    .probe = probe,
    .open = open_worker,
    .close = close_worker,
    .address = self_address,
    .reg = reg,
    .unreg = unreg,
    .pack = self_pack,
    .connect = self_connect,
    .disconnect = disconnect,
    .import = self_import,
    .release = release,
    .prepare = prepare,
    .unprepare = unprepare,
    .post = post,
    .cancel = file_cancel,
    .progress = progress,
    .fd = get_fd,
    .arm = arm,
    .cost = cost,
};
