// The current context of a thread, and the processors that engines have reserved.
#include "cuda/driver/driver.h"
#include "cuda/plugin.h"

// `context` NULL: the current one.
static int enter(const struct cuda_driver *driver, CUcontext context, struct cuda_guard *guard, char *why) {
  CUcontext current = NULL;
  guard->pushed = context && (driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context);
  if (guard->pushed) {
    int rc = cuda_check_driver(why, driver->cuCtxPushCurrent(context), "cannot use the device");
    if (rc != 0)
      return rc;
  }
  guard->mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&guard->mode);
  return 0;
}

int cuda_enter(const struct device *device, struct cuda_guard *guard, char *why) {
  const struct cuda_driver *driver = cuda_driver(why);
  return driver ? enter(driver, device->context, guard, why) : WEFT_ERR_UNSUPPORTED;
}

int cuda_enter_any(struct cuda_guard *guard) {
  const struct cuda_driver *driver = cuda_driver(NULL);
  CUcontext current = NULL;
  if (!driver)
    return WEFT_ERR_NOT_FOUND;
  if (driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
    return enter(driver, NULL, guard, NULL);
  const struct device *device = cuda_any_device();
  return device ? enter(driver, device->context, guard, NULL) : WEFT_ERR_NOT_FOUND;
}

void cuda_leave(const struct cuda_guard *guard) {
  enum cudaStreamCaptureMode mode = guard->mode;
  CUcontext popped;
  cudaThreadExchangeStreamCaptureMode(&mode);
  if (guard->pushed)
    cuda_driver(NULL)->cuCtxPopCurrent(&popped);
}

int cuda_with(struct device *device, void (*function)(void *arg), void *arg, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  function(arg);
  cuda_leave(&guard);
  return 0;
}

// Ordered ranks never run at the same time, so together they need the processors of the largest. This number does not
// decrease until the last of them leaves.
int cuda_quota_take(struct device *device, uint32_t processors, bool ordered, char *why) {
  int rc = 0;
  pthread_mutex_lock(&device->lock);
  uint32_t had = ordered ? device->ordered_processors : 0;
  uint32_t more = processors > had ? processors - had : 0;
  if (device->processors + more > device->info.processors) {
    rc =
        cuda_why(why, WEFT_ERR_LIMIT,
                 "ranks of this process have %u of the %u processors of device %d already, and this one wants %u: each "
                 "must be limited so that all can run at once, or all ordered",
                 device->processors - had, device->info.processors, device->index, processors);
  } else {
    device->processors += more;
    if (ordered)
      device->ordered_processors = had + more;
    if (!ordered || device->ordered++ == 0)
      __atomic_fetch_add(&device->engines, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&device->lock);
  return rc;
}

void cuda_quota_return(struct device *device, uint32_t processors, bool ordered) {
  pthread_mutex_lock(&device->lock);
  bool last = ordered && --device->ordered == 0;
  if (last) {
    processors = device->ordered_processors;
    device->ordered_processors = 0;
  }
  if (!ordered || last) {
    device->processors -= processors;
    __atomic_fetch_sub(&device->engines, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&device->lock);
}

bool cuda_quota_alone(const struct device *device) {
  return __atomic_load_n(&device->engines, __ATOMIC_RELAXED) == 1;
}
