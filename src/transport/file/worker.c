// The transport `file`: moves bytes between files and host memory with io_uring or, if that does not work, with pread()
// and pwrite(); and between files and GPU memory with cuFile, if the host has it, in separate threads.
//
// Whole pages of the file bypass the page cache (O_DIRECT, through a second descriptor of the same file) if the address
// is aligned; heads and tails go through the page cache. The kernel keeps both ways coherent, and no page is written
// both ways. A write is complete when every reader of the file sees it; with the setting sync=data, when the device has
// it as well.
//
// An operation that the kernel or cuFile has begun ends when the device has answered. If a device or a server of files
// hangs, so does a cancelled request, until close().
//
// Settings: engine=auto|uring|posix, depth=1..4096 (operations at once, 64), direct=0|1 (1), pin=0|1 (1: register host
// memory with the ring, and that of GPUs with cuFile, when a request first uses it), sync=none|data (none), gds=0|1 (1:
// memory of GPUs, by cuFile), gds_threads=1..64 (8),
// gds_close_s=1..600 (5: how long close() waits for cuFile).
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    rc = fail(WEFT_ERR_INVALID, "sync=%s: want none or data", sync);
  worker->direct = direct;
  worker->pin = pin;
  worker->by_gds = gds;
  worker->sync = sync && strcmp(sync, "data") == 0;
  return rc;
}

static int open_engine(struct file_worker *worker, const char *wanted) {
  if (wanted && strcmp(wanted, "auto") != 0 && strcmp(wanted, "uring") != 0 && strcmp(wanted, "posix") != 0)
    return fail(WEFT_ERR_INVALID, "engine=%s: want auto, uring or posix", wanted);
  bool uring = !wanted || strcmp(wanted, "posix") != 0;
  int rc = 0;
  if (uring) {
#ifdef WEFT_HAVE_URING
    worker->engine = &file_uring;
    rc = worker->engine->open(worker);
#else
    rc = fail(WEFT_ERR_UNSUPPORTED, "this build has no io_uring, because liburing was not installed");
#endif
    if (rc == 0 || (wanted && strcmp(wanted, "uring") == 0))
      return rc;
    log_info("file: pread() and pwrite() are used: %s", weft_last_error());
  }
  worker->engine = &file_posix;
  return worker->engine->open(worker);
}

// Without it the worker still does everything else.
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
  storage_worker_init(&worker->base, &transport_file, options);
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

static uint32_t progress(struct transport_worker *base) {
  struct file_worker *worker = (struct file_worker *)base;
  uint32_t count = worker->engine->reap(worker) + file_gds.reap(worker);
  file_issue(worker);
  return count + storage_worker_complete(&worker->base, file_region_drop);
}

static int arm_engines(struct file_worker *worker) {
  int rc = worker->engine->arm(worker); // clears the wake-up; operations that ended before are found below
  return rc == 0 ? file_gds.arm(worker) : rc;
}

static void cancel_all(struct file_worker *worker) {
  for (struct link *link = worker->base.active.next, *next; link != &worker->base.active; link = next) {
    next = link->next;
    file_cancel(LINK_OF(link, struct storage_request, link)->request);
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
    file_request_end((struct file_request *)LINK_OF(worker->base.active.next, struct storage_request, link));
  storage_worker_complete(&worker->base, file_region_drop);
  for (struct link *link = worker->base.regions.next; link != &worker->base.regions; link = link->next)
    file_region_close((struct file_region *)LINK_OF(link, struct storage_region, link));
  storage_worker_clear(&worker->base, file_region_drop);
  file_gds.close(worker);
  worker->engine->close(worker);
  free(worker->ops);
  free(worker);
}

static void disconnect(struct transport_peer *peer) {
  storage_disconnect(peer, file_cancel, file_region_drop);
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
    .what = "files, by io_uring or pread() and pwrite(); of GPUs by cuFile",
    .abilities = {.local_kinds = 1u << WEFT_MEMORY_HOST | 1u << WEFT_MEMORY_CUDA,
                  .remote_kinds = 1u << WEFT_MEMORY_FILE,
                  .flags = TRANSPORT_MESSAGES | TRANSPORT_ONE_SIDED | TRANSPORT_SELF_ONLY | TRANSPORT_LENGTHS},
    .probe = probe,
    .open = open_worker,
    .close = close_worker,
    .address = storage_address,
    .reg = file_reg,
    .unreg = file_unreg,
    .pack = storage_pack,
    .connect = storage_connect,
    .disconnect = disconnect,
    .import = storage_import,
    .release = file_release,
    .prepare = file_prepare,
    .unprepare = file_unprepare,
    .post = file_post,
    .cancel = file_cancel,
    .progress = progress,
    .fd = get_fd,
    .arm = arm,
    .cost = cost,
};
