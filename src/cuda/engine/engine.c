// Opens and closes an engine.
#include "cuda/engine/engine.h"

#include <stdlib.h>
#include <string.h>

// A window of a group for throughput: an area for control, followed by the stream.
static size_t window_bytes(const struct device_ep_options *o, char *why) {
  struct cuda_flow flow;
  uint64_t offset;
  cuda_flow_of(o, &flow, &offset);
  if (flow.bytes > 0)
    return offset + flow.bytes;
  // each ring gets half
  uint32_t larger = flow.rows.place > flow.answers.place ? flow.rows.place : flow.answers.place;
  uint64_t least = offset + sizeof(struct cuda_flow_head) + (uint64_t)2 * CUDA_CHANNELS * CUDA_LEAST_PLACES * larger;
  cuda_why(
      why, WEFT_ERR_INVALID,
      "window_bytes is %llu, and rows of %u and %u bytes, %d in each of %d channels, take %llu: want that at least",
      (unsigned long long)o->window_bytes, flow.rows.place, flow.answers.place, CUDA_LEAST_PLACES, CUDA_CHANNELS,
      (unsigned long long)least);
  return 0;
}

size_t cuda_ep_area_bytes(const struct device_ep_options *o, char *why) {
  struct cuda_layout layout;
  struct cuda_forms forms;
  uint32_t most = o->throughput ? EP_MAX_TOKENS_THROUGHPUT : EP_MAX_TOKENS;
  if (o->max_tokens == 0 || o->max_tokens > most || o->hidden == 0 || o->hidden > EP_MAX_HIDDEN ||
      o->hidden % CUDA_BLOCK != 0 || o->topk == 0 || o->topk > EP_MAX_TOPK || o->experts_per_rank == 0 ||
      o->experts_per_rank > EP_MAX_EXPERTS) {
    cuda_why(
        why, WEFT_ERR_INVALID,
        "no engine for %u tokens, hidden %u, top-%u and %u experts: want at most %d, %d (a multiple of %d), %d and "
        "%d",
        o->max_tokens, o->hidden, o->topk, o->experts_per_rank, (int)most, EP_MAX_HIDDEN, CUDA_BLOCK, EP_MAX_TOPK,
        EP_MAX_EXPERTS);
    return 0;
  }
  if (o->throughput)
    return window_bytes(o, why);
  cuda_area_of(o, &layout, &forms);
  return layout.area;
}

// Shared memory that an operation needs in views of `args->members`, for its dispatch, or for its plan and its control.
static size_t needed_memory(const struct device_ep *ep, const struct cuda_dispatch_args *args) {
  if (!ep->options.throughput)
    return cuda_dispatch_memory(args);
  size_t control = cuda_control_memory(&ep->layout, args->members),
         plan = cuda_plan_memory(ep->options.experts_per_rank, args->members);
  return control > plan ? control : plan;
}

// The most members of a view for which a block's shared memory is enough.
static uint32_t most_members(const struct device_ep *ep) {
  struct cuda_dispatch_args args = {.layout = ep->layout,
                                    .capacity = ep->options.capacity,
                                    .members = ep->options.capacity < CUDA_MAX_MEMBERS ? ep->options.capacity
                                                                                       : CUDA_MAX_MEMBERS};
  args.d = (struct device_dispatch){
      .halves = DEVICE_SEND | DEVICE_RECV, .kind = 1, .num_tokens = ep->options.max_tokens, .rank_major = true};
  for (; args.members > 0; args.members--)
    if (needed_memory(ep, &args) + CUDA_DISPATCH_FIXED <= ep->device->shared_memory)
      break;
  return args.members;
}

static uint64_t aligned(uint64_t size) {
  return (size + CUDA_LINE - 1) / CUDA_LINE * CUDA_LINE;
}

// Places the handles' arrays in one piece of memory at `base`; returns its size.
static uint64_t place_handles(struct device_ep *ep, char *base) {
  // Control has no rows.
  uint64_t tokens = ep->layout.max_tokens, selections = ep->members * tokens * ep->options.topk, at = 0;
  for (int i = 0; i < CUDA_LIVE; i++) {
    struct cuda_handle *handle = &ep->handle[i];
    handle->place = (int32_t *)(base + at);
    at += aligned(selections * sizeof *handle->place);
    handle->weight = (float *)(base + at);
    at += aligned(selections * sizeof *handle->weight);
    handle->token = (uint32_t *)(base + at);
    at += aligned(ep->members * tokens * sizeof *handle->token);
    handle->members = (uint64_t *)(base + at);
    at += aligned(tokens * sizeof *handle->members);
    handle->missing = (uint64_t *)(base + at);
    at += aligned(tokens * sizeof *handle->missing);
    handle->unsent = (uint64_t *)(base + at);
    at += aligned(tokens * sizeof *handle->unsent);
  }
  return at;
}

static int open_memory(struct device_ep *ep, char *why) {
  uint64_t arrays = place_handles(ep, NULL);
  int rc = cuda_allocate(ep->device, sizeof *ep->state, (void **)&ep->state, why);
  if (rc == 0)
    rc = cuda_allocate_area(ep->device, ep->window, (void **)&ep->area, why);
  if (rc == 0)
    rc = cuda_allocate(ep->device, arrays, &ep->arrays, why);
  if (rc != 0)
    return rc;
  place_handles(ep, ep->arrays);
  ep->bytes = sizeof *ep->state + ep->window + arrays;
  return ep->options.throughput ? cuda_open_streams(ep, why) : 0;
}

static int open_host(struct device_ep *ep, char *why) {
  void *seen;
  int rc = cuda_pin(ep->device, (void **)&ep->host, why);
  if (rc == 0)
    rc = cuda_check(why, cudaHostGetDevicePointer(&seen, ep->host, 0), "the device cannot map pinned host memory");
  if (rc != 0)
    return rc;
  ep->report = (struct device_report *)((char *)seen + offsetof(struct cuda_host, report));
  ep->begin = (struct cuda_begin *)((char *)seen + offsetof(struct cuda_host, begin));
  return 0;
}

static int open_streams(struct device_ep *ep, char *why) {
  int least, greatest;
  int rc = cuda_check(why, cudaDeviceGetStreamPriorityRange(&least, &greatest), "cannot make a stream");
  if (rc == 0)
    rc = cuda_check(why, cudaStreamCreateWithPriority(&ep->control, cudaStreamNonBlocking, greatest),
                    "cannot make a stream");
  if (rc == 0)
    rc = cuda_check(why, cudaStreamCreateWithPriority(&ep->owner, cudaStreamNonBlocking, greatest),
                    "cannot make a stream");
  if (rc == 0)
    rc = cuda_check(why, cudaEventCreateWithFlags(&ep->end, cudaEventDisableTiming), "cannot make an event");
  return rc;
}

static int write_state(struct device_ep *ep, char *why) {
  struct cuda_state *state = &ep->host->out.state;
  memcpy(state->handle, ep->handle, sizeof state->handle);
  state->forms = ep->forms;
  state->control.timeout_ns = ep->options.timeout_ns;
  state->control.operations_per_step = ep->options.operations_per_step;
  state->report = ep->report;
  int rc = cuda_check(why, cudaMemcpyAsync(ep->state, state, sizeof *state, cudaMemcpyHostToDevice, ep->control),
                      "cannot write the engine's state");
  return rc ? rc : cuda_await(ep->control, CUDA_OWN_WORK_MS * (uint64_t)1000000, "writing the engine's state", why);
}

// Checks whether a low-latency combine fits into a block; the memory that it needs depends on the code that was loaded.
static int check_combine(const struct device_ep *ep, char *why) {
  const struct device *device = ep->device;
  size_t needed = cuda_combine_memory(!ep->early);
  if (ep->options.throughput || needed <= device->shared_memory)
    return 0;
  return cuda_why(
      why, WEFT_ERR_UNSUPPORTED,
      "a combine with LATENCY takes %zu bytes of shared memory, and device %d (%s) has %zu for a block: open "
      "the group for THROUGHPUT",
      needed, device->index, device->info.name, device->shared_memory);
}

static int open_parts(struct device_ep *ep, char *why) {
  // Loading a kernel later would wait for running kernels.
  int rc = cuda_check(why, (cudaError_t)cuda_launch_load(&ep->early), "cannot load the kernels");
  if (rc == 0)
    rc = check_combine(ep, why);
  if (rc == 0)
    rc = open_memory(ep, why);
  if (rc == 0)
    rc = open_host(ep, why);
  if (rc == 0)
    rc = open_streams(ep, why);
  if (rc == 0)
    rc = write_state(ep, why);
  return rc;
}

static int set_up(struct device_ep *ep, char *why) {
  const struct device_ep_options *o = &ep->options;
  uint32_t all = ep->device->info.processors;
  ep->window = cuda_ep_area_bytes(o, why);
  if (ep->window == 0)
    return WEFT_ERR_INVALID;
  cuda_area_of(o, &ep->layout, &ep->forms);
  ep->blocks = o->processors && o->processors < all ? o->processors : all;
  ep->limited = ep->blocks < all;
  ep->members = most_members(ep);
  if (ep->members == 0)
    return cuda_why(why, WEFT_ERR_LIMIT,
                    "%u experts and %u tokens need more shared memory than device %d has (%zu bytes)",
                    o->experts_per_rank, o->max_tokens, ep->device->index, ep->device->shared_memory);
  int rc = cuda_quota_take(ep->device, ep->blocks, o->ordered, why);
  ep->shared = rc == 0;
  return rc;
}

int cuda_ep_open(struct device *device, const struct device_ep_options *options, struct device_ep **out, char *why) {
  struct device_ep *ep = calloc(1, sizeof *ep);
  if (!ep)
    return cuda_why(why, WEFT_ERR_NOMEM, "no memory for an engine");
  ep->device = device;
  ep->options = *options;
  if (ep->options.timeout_ns > CUDA_LONGEST_NS)
    ep->options.timeout_ns = CUDA_LONGEST_NS;
  if (ep->options.operations_per_step == 0)
    ep->options.operations_per_step = 1;
  pthread_mutex_init(&ep->lock, NULL);
  struct cuda_guard guard;
  int rc = set_up(ep, why);
  if (rc == 0)
    rc = cuda_enter(device, &guard, why);
  if (rc == 0) {
    rc = open_parts(ep, why);
    cuda_leave(&guard);
  }
  if (rc != 0)
    cuda_ep_close(ep);
  else
    *out = ep;
  return rc;
}

// Waits for the newest launch, unless the caller has already waited for it; in that case its stream may have been
// destroyed. Also waits for the kernels of the owner's stream: a call that had to end may have stopped waiting for
// them.
static void await_launches(struct device_ep *ep) {
  struct device *device = ep->device;
  uint64_t timeout = CUDA_OWN_WORK_MS * (uint64_t)1000000;
  pthread_mutex_lock(&device->lock);
  bool idle = device->idle_stream == ep->last && device->idle_launches >= ep->last_launch;
  pthread_mutex_unlock(&device->lock);
  if (ep->last_launch != 0 && !idle && cuda_check_capture(ep->last, NULL) == 0 &&
      cudaEventRecord(ep->end, ep->last) == cudaSuccess && cudaStreamWaitEvent(ep->owner, ep->end, 0) == cudaSuccess)
    timeout += (1 + DEVICE_EXTENSIONS) * ep->options.timeout_ns;
  if (ep->owner)
    cuda_await(ep->owner, timeout, "launches before a close", NULL);
  cudaGetLastError();
}

// Releases all parts that exist, within a guard.
static void close_parts(struct device_ep *ep) {
  await_launches(ep);
  cuda_release(ep->device, ep->streams.memory);
  cuda_release(ep->device, ep->arrays);
  cuda_release(ep->device, ep->area);
  cuda_release(ep->device, ep->state);
  if (ep->control)
    cudaStreamDestroy(ep->control);
  if (ep->owner)
    cudaStreamDestroy(ep->owner);
  if (ep->end)
    cudaEventDestroy(ep->end);
  cuda_unpin(ep->device, ep->host);
  cudaGetLastError();
}

void cuda_ep_close(struct device_ep *ep) {
  struct cuda_guard guard;
  if (!ep)
    return;
  if (cuda_enter(ep->device, &guard, NULL) == 0) {
    close_parts(ep);
    cuda_leave(&guard);
  }
  if (ep->shared)
    cuda_quota_return(ep->device, ep->blocks, ep->options.ordered);
  pthread_mutex_destroy(&ep->lock);
  free(ep);
}

uint64_t cuda_ep_memory(const struct device_ep *ep) {
  return ep->bytes;
}

const struct device_report *cuda_ep_report(const struct device_ep *ep) {
  return &ep->host->report;
}
