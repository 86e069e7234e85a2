// Reads the masks of the device, for a program on the device.
#include "base/fail.h"
#include "ep/gpu/call/op.h"

int ep_gpu_mask_read(weft_ep_t *ep, int32_t *masked, uint32_t cap, void *stream) {
  struct ep_gpu *gpu = ep->gpu;
  char why[DEVICE_WHY] = "";
  uint64_t capture;
  int rc = ep_gpu_find_capture(ep, stream, "mask_read", &capture);
  uint32_t count = cap < ep->capacity ? cap : ep->capacity;
  if (rc != 0 || count == 0)
    return rc;
  rc = gpu->api->ep_read_masks(gpu->engine, masked, count, atomic_load(&gpu->masked), capture != 0, stream, why);
  if (rc != 0)
    return fail(rc, "mask_read: %s", why);
  if (capture == 0)
    gpu->stream = stream;
  return 0;
}
