// GPU memory. For served accesses (serve.c), and if UCX was built without CUDA, the transport itself copies between GPU
// and host memory: at the target from and to the bytes of a message, at the initiator into pinned buffers from which
// UCX sends. It waits for each copy, of at most UCX_SERVED bytes, like for memcpy() of host memory.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/log.h"
#include "transport/ucx/ucx.h"

enum {
  BOUNCES = 16, // buffers of a worker; if all of them are in use, further sends wait
  PAGE = 4096,
  STEP = (sizeof(struct ucx_bounce) + UCX_SERVED + PAGE - 1) / PAGE * PAGE, // bytes from one buffer to the next
};

static const uint32_t cuda = 1u << WEFT_MEMORY_CUDA;

static int find(struct ucx_gpus *gpus) {
  char why[DEVICE_WHY] = "";
  int rc = device_load(&gpus->api);
  if (rc != 0)
    return rc;
  rc = gpus->api->count(&gpus->count, why);
  return rc == 0 ? 0 : device_fail(rc, "ucx and memory of GPUs", why);
}

void ucx_gpus_open(struct ucx_worker *worker) {
  struct transport_worker *base = &worker->flow.base;
  if (find(&worker->gpus) == 0)
    return;
  worker->gpus.count = 0;
  base->abilities.local_kinds &= ~cuda;
  base->abilities.remote_kinds &= ~cuda;
  snprintf(base->lacks, sizeof base->lacks, "%s", weft_last_error());
}

void ucx_gpus_close(struct ucx_worker *worker) {
  struct ucx_gpus *gpus = &worker->gpus;
  if (gpus->pinned)
    gpus->api->unpin(gpus->bounces, BOUNCES * STEP);
  free(gpus->bounces);
  for (int i = 0; i < UCX_GPUS; i++) {
    if (gpus->streams[i])
      gpus->api->stream_close(gpus->devices[i], gpus->streams[i]);
    if (gpus->devices[i])
      gpus->api->close(gpus->devices[i]);
  }
}

static int open_device(struct ucx_gpus *gpus, int index) {
  char why[DEVICE_WHY] = "";
  if (index >= UCX_GPUS)
    return fail(WEFT_ERR_LIMIT, "GPU %d: the transport ucx supports only GPUs below %d", index, UCX_GPUS);
  int rc = gpus->devices[index] ? 0 : gpus->api->open(index, &gpus->devices[index], why);
  if (rc == 0 && !gpus->streams[index])
    rc = gpus->api->stream_open(gpus->devices[index], &gpus->streams[index], why);
  return rc == 0 ? 0 : device_fail(rc, "a GPU for ucx", why);
}

// Pinned, since copies between a GPU and other memory go through a buffer of the driver. Memory that cannot be pinned
// works, too.
static int make_bounces(struct ucx_gpus *gpus) {
  char why[DEVICE_WHY] = "";
  if (gpus->bounces)
    return 0;
  gpus->bounces = aligned_alloc(PAGE, BOUNCES * STEP);
  if (!gpus->bounces)
    return fail(WEFT_ERR_NOMEM, "no memory for buffers in front of a GPU");
  gpus->pinned = gpus->api->pin(gpus->bounces, BOUNCES * STEP, why) == 0;
  if (!gpus->pinned)
    log_info("ucx: buffers in front of a GPU are not pinned: %s", why);
  for (int i = 0; i < BOUNCES; i++)
    ucx_bounce_give(gpus, (struct ucx_bounce *)(void *)(gpus->bounces + i * STEP));
  return 0;
}

int ucx_gpu_reg(struct ucx_worker *worker, struct ucx_region *region) {
  struct ucx_gpus *gpus = &worker->gpus;
  const struct transport_memory *memory = &region->flow.base.memory;
  char why[DEVICE_WHY] = "";
  int owner = -1;
  int rc = gpus->api->owner(memory->address, &owner, why);
  if (rc != 0)
    return device_fail(rc, "memory of a GPU", why);
  if (owner < 0 || (memory->device >= 0 && memory->device != owner))
    return fail(WEFT_ERR_INVALID, "%p is memory of %s %d, but should be of GPU %d", memory->address,
                owner < 0 ? "no GPU:" : "GPU", owner, memory->device);
  region->gpu = owner;
  rc = open_device(gpus, owner);
  return rc == 0 ? make_bounces(gpus) : rc;
}

struct mapping {
  ucp_context_h context;
  const ucp_mem_map_params_t *params;
  ucp_mem_h *memory;
  ucs_status_t status;
};

static void call_map(void *arg) {
  struct mapping *mapping = arg;
  mapping->status = ucp_mem_map(mapping->context, mapping->params, mapping->memory);
}

void ucx_gpu_map(struct ucx_worker *worker, struct ucx_region *region, const ucp_mem_map_params_t *params) {
  struct ucx_gpus *gpus = &worker->gpus;
  char why[DEVICE_WHY] = "";
  struct mapping mapping = {.context = worker->context, .params = params, .memory = &region->memory};
  int rc = gpus->api->with(gpus->devices[region->gpu], call_map, &mapping, why); // UCX asks for a current context
  if (rc == 0 && mapping.status == UCS_OK)
    return;
  region->memory = NULL;
  log_info("ucx: UCX does not register memory of GPU %d (%s): it is copied through host memory", region->gpu,
           rc != 0 ? why : ucs_status_string(mapping.status));
}

struct ucx_bounce *ucx_bounce_take(struct ucx_gpus *gpus) {
  struct ucx_bounce *bounce = gpus->free_bounces;
  if (bounce)
    gpus->free_bounces = bounce->next;
  return bounce;
}

void ucx_bounce_give(struct ucx_gpus *gpus, struct ucx_bounce *bounce) {
  bounce->next = gpus->free_bounces;
  gpus->free_bounces = bounce;
}

int ucx_copy(struct ucx_worker *worker, const struct ucx_region *region, void *to, const void *from, size_t size) {
  struct ucx_gpus *gpus = &worker->gpus;
  char why[DEVICE_WHY] = "";
  if (region->flow.base.memory.kind == WEFT_MEMORY_HOST) {
    memcpy(to, from, size);
    return 0;
  }
  int rc = gpus->api->copy(gpus->devices[region->gpu], to, from, size, gpus->streams[region->gpu], true, why);
  return rc == 0 ? 0 : device_fail(rc, "memory of a GPU", why);
}
