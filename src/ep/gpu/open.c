// Chooses the device of a rank, and opens its engine there.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ep/gpu/gpu.h"

static struct device_ep_options engine_options(const weft_ep_t *ep, const struct weft_ep_options *options) {
  return (struct device_ep_options){.rank = ep->rank,
                                    .capacity = options->capacity,
                                    .max_tokens = options->max_tokens,
                                    .hidden = options->hidden,
                                    .topk = options->topk,
                                    .experts_per_rank = options->experts_per_rank,
                                    .dtype = (int)options->dtype,
                                    .combine_dtype = (int)options->combine_dtype,
                                    .processors = options->max_processors,
                                    .timeout_ns = (uint64_t)options->op_timeout_ms * 1000000u,
                                    .throughput = options->mode == WEFT_EP_THROUGHPUT,
                                    .ordered = options->flags & WEFT_EP_OPTION_ORDERED,
                                    .window_bytes = options->window_bytes,
                                    .max_rows = options->max_rows,
                                    .zero_copy = ep->zero_copy.memory,
                                    .zero_copy_bytes = options->zero_copy_bytes,
                                    .operations_per_step = options->operations_per_step};
}

// Chooses the index of the device that the options name.
static int choose(struct ep_gpu *gpu, int32_t wanted) {
  char why[DEVICE_WHY] = "";
  int count = 0;
  int rc = gpu->api->count(&count, why);
  if (rc != 0)
    return device_fail(rc, "no GPU can be used", why);
  if (wanted >= count)
    return fail(WEFT_ERR_INVALID, "device is %d, but this process has %d: 0 to %d, or -1 for the current one", wanted,
                count, count - 1);
  gpu->index = wanted;
  if (wanted < 0)
    rc = gpu->api->stream_device(NULL, &gpu->index, why);
  return rc == 0 ? 0 : device_fail(rc, "the current GPU is not known", why);
}

static int open_device(struct ep_gpu *gpu) {
  char why[DEVICE_WHY] = "";
  struct device_info info = {0};
  int rc = gpu->api->describe(gpu->index, &info, why);
  if (rc != 0)
    return device_fail(rc, "a GPU that cannot be queried", why);
  if (!info.windows)
    return fail(WEFT_ERR_UNSUPPORTED, "GPU %d (%s) cannot share its memory with other processes", gpu->index,
                info.name);
  memcpy(gpu->uuid, info.uuid, sizeof gpu->uuid);
  memcpy(gpu->pci, info.pci, sizeof gpu->pci);
  gpu->processors = info.processors;
  rc = gpu->api->open(gpu->index, &gpu->device, why);
  return rc == 0 ? 0 : device_fail(rc, "cannot use a GPU", why);
}

static int check_options(const struct ep_gpu *gpu, const struct weft_ep_options *options) {
  if (options->mode != WEFT_EP_THROUGHPUT)
    return 0;
  uint32_t most = options->max_processors;
  if (most > 0 && most < EP_MIN_PROCESSORS)
    return fail(WEFT_ERR_INVALID, "max_processors is %u; for THROUGHPUT it must be from %d to the %u of this GPU", most,
                EP_MIN_PROCESSORS, gpu->processors);
  return 0;
}

static int open_all(weft_ep_t *ep, const struct weft_ep_options *options) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  int rc = device_load(&gpu->api);
  if (rc == 0)
    rc = choose(gpu, options->device);
  if (rc == 0)
    rc = open_device(gpu);
  if (rc != 0)
    return rc;
  rc = check_options(gpu, options);
  if (rc != 0)
    return rc;
  gpu->options = engine_options(ep, options);
  gpu->area_bytes = gpu->api->ep_area_bytes(&gpu->options, why);
  return gpu->area_bytes > 0 ? 0 : device_fail(WEFT_ERR_UNSUPPORTED, "a GPU cannot serve these sizes", why);
}

static void init(struct ep_gpu *gpu) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&gpu->lock, NULL);
  ep_share_open(&gpu->shared);
  pthread_cond_init(&gpu->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  gpu->publish_from = UINT64_MAX;
}

int ep_gpu_open(weft_ep_t *ep, const struct weft_ep_options *options) {
  if (options->memory == WEFT_EP_MEMORY_HOST)
    return 0;
  ep->gpu = calloc(1, sizeof *ep->gpu);
  if (!ep->gpu)
    return fail(WEFT_ERR_NOMEM, "no memory for a rank on CUDA memory");
  init(ep->gpu);
  int rc = open_all(ep, options);
  if (rc == 0) {
    ep->device = ep->gpu->index;
    ep->pci = ep->gpu->pci;
    ep->layout.area = EP_PAGE; // its head; rows travel through the GPU's windows
    return 0;
  }
  ep_gpu_close(ep);
  if (options->memory == WEFT_EP_MEMORY_CUDA)
    return fail_context(rc, "memory is CUDA");
  log_info("memory is AUTO: host memory is used, because %s", weft_last_error());
  return 0;
}

int ep_gpu_allocate(weft_ep_t *ep, const struct weft_ep_options *options) {
  struct ep_gpu *gpu = ep->gpu;
  struct device_window window;
  char why[DEVICE_WHY] = "";
  if (options->zero_copy_bytes == 0)
    return 0;
  int rc = gpu->api->window_create(gpu->device, options->zero_copy_bytes, &window, &ep->zero_copy.fd, why);
  if (rc != 0)
    return device_fail(rc, "zero_copy_bytes", why);
  ep->zero_copy.memory = window.memory;
  ep->zero_copy.size = window.size;
  return 0;
}

static int allocate_arrays(weft_ep_t *ep, const struct weft_ep_options *options, char *why) {
  struct ep_gpu *gpu = ep->gpu;
  size_t tokens = options->max_tokens;
  gpu->experts = calloc(tokens * options->topk, sizeof *gpu->experts);
  gpu->missing = calloc(tokens, sizeof *gpu->missing);
  if (!gpu->experts || !gpu->missing)
    return fail(WEFT_ERR_NOMEM, "no memory for %zu tokens", tokens);
  void *counts;
  int rc = gpu->api->allocate(gpu->device, options->experts_per_rank * sizeof *gpu->counts, &counts, why);
  if (rc != 0)
    return device_fail(rc, "the engine's memory", why);
  gpu->counts = counts;
  return 0;
}

int ep_gpu_start(weft_ep_t *ep, const struct weft_ep_options *options) {
  struct ep_gpu *gpu = ep->gpu;
  struct device_ep_options wanted = engine_options(ep, options);
  char why[DEVICE_WHY] = "";
  struct device_ep *engine;
  int rc = allocate_arrays(ep, options, why);
  if (rc != 0)
    return rc;
  rc = gpu->api->ep_open(gpu->device, &wanted, &engine, why);
  if (rc != 0)
    return device_fail(rc, "the engine on the GPU", why);
  pthread_mutex_lock(&gpu->lock); // the group's thread reads it
  gpu->engine = engine;
  gpu->report = gpu->api->ep_report(engine);
  gpu->workspace_bytes = gpu->api->ep_memory(engine) + options->experts_per_rank * sizeof *gpu->counts;
  rc = gpu->api->ep_seat(engine, GPU_OWN_SEAT, why);
  ep_gpu_control(ep);
  pthread_mutex_unlock(&gpu->lock);
  return rc == 0 ? 0 : device_fail(rc, "the engine on the GPU", why);
}

// Waits for the caller's launches. Receives have been reported already; no later call reports the last combine.
static void await_launches(const weft_ep_t *ep) {
  const struct ep_gpu *gpu = ep->gpu;
  uint64_t deadline_ns = clock_deadline_ms(ep->op_timeout_ms);
  const struct timespec nap = {.tv_nsec = 50000};
  struct device_progress progress;
  char why[DEVICE_WHY] = "";
  while (gpu->api->ep_progress(gpu->engine, &progress, why) == 0 && progress.received < gpu->launched_receives &&
         !clock_passed(deadline_ns))
    nanosleep(&nap, NULL);
}

void ep_gpu_stop(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  if (!gpu->engine)
    return;
  await_launches(ep);
  pthread_mutex_lock(&gpu->lock);
  gpu->control.gone = UINT64_MAX; // makes kernels that still wait end
  ep_gpu_control(ep);
  gpu->api->ep_close(gpu->engine);
  gpu->engine = NULL;
  gpu->report = NULL;
  pthread_mutex_unlock(&gpu->lock);
}

void ep_gpu_close(weft_ep_t *ep) {
  struct ep_gpu *gpu = ep->gpu;
  if (!gpu)
    return;
  ep_gpu_views_free(ep);
  ep->gpu = NULL;
  if (gpu->device) {
    ep_gpu_quarantine_free(gpu);
    if (gpu->counts)
      gpu->api->release(gpu->device, gpu->counts);
    struct device_window zero_copy = {.memory = ep->zero_copy.memory, .size = ep->zero_copy.size};
    if (zero_copy.memory)
      gpu->api->window_release(gpu->device, &zero_copy);
    gpu->api->close(gpu->device);
  }
  free(gpu->experts);
  free(gpu->missing);
  pthread_cond_destroy(&gpu->wake);
  pthread_mutex_destroy(&gpu->lock);
  free(gpu);
}
