// Functions that all launches of an engine use, and copies of their results.
#include "cuda/engine/engine.h"

#include <stdio.h>

// The blocks of a kernel that is launched early become resident before the previous kernel has ended. If another rank
// uses the device, they could take the processor of a block for which this rank waits. A graph keeps the choice made at
// its capture.
bool cuda_early(const struct device_ep *ep) {
  return ep->early && !ep->limited && cuda_quota_alone(ep->device);
}

int cuda_enter_stream(struct device_ep *ep, void *stream, struct cuda_guard *guard, char *why) {
  int rc = ep->stuck[0] ? cuda_why(why, WEFT_ERR_SYSTEM, "%s", ep->stuck) : cuda_check_stream(ep, stream, why);
  return rc ? rc : cuda_enter(ep->device, guard, why);
}

// Records a launch and reports its error; cuda_ep_close() waits for the newest.
int cuda_launched(struct device_ep *ep, int error, void *stream, const char *what, char *why) {
  int rc = cuda_check(why, (cudaError_t)error, what);
  if (rc == 0) {
    ep->last = stream;
    ep->last_launch = __atomic_add_fetch(&ep->device->launches, 1, __ATOMIC_RELAXED);
  }
  return rc;
}

bool cuda_runs(cudaStream_t stream) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) != cudaSuccess || status == cudaStreamCaptureStatusNone;
}

// The device counts operations itself, and a launch cannot be undone: the host's and the device's numbers would differ.
int cuda_launched_all(struct device_ep *ep, uint64_t before, struct device_route *fills, int rc, void *stream,
                      char *why) {
  if (rc == 0 && fills)
    fills->half = false;
  if (rc == 0 || ep->last_launch == before)
    return rc;
  if (!cuda_runs(stream)) {
    char reason[DEVICE_WHY];
    snprintf(reason, sizeof reason, "%s", why);
    return cuda_why(why, rc, "the capture has a part of the call, so give it up: %s", reason);
  }
  if (fills)
    fills->half = true;
  snprintf(ep->stuck, sizeof ep->stuck, "a part of a call was launched, and the rest was not, so close this rank: %s",
           why);
  return cuda_why(why, WEFT_ERR_SYSTEM, "%s", ep->stuck);
}

// Copies from the device in the owner's stream. Within a guard.
int cuda_get(struct device_ep *ep, void *to, const void *from, size_t size, const char *what, char *why) {
  int rc = cuda_check(why, cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, ep->owner), what);
  return rc ? rc : cuda_await(ep->owner, CUDA_OWN_WORK_MS * (uint64_t)1000000, what, why);
}
