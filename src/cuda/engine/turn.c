// Turns on a device, and what its engines have of it.
#include "cuda/memory/driver.h"
#include "cuda/plugin.h"

// `context` NULL: whichever is current.
static int enter(const struct cuda_driver *driver, CUcontext context, struct cuda_turn *turn, char *why) {
  CUcontext current = NULL;
  turn->pushed = context && (driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context);
  if (turn->pushed) {
    int rc = cuda_check_driver(why, driver->cuCtxPushCurrent(context), "cannot use the device");
    if (rc != 0)
      return rc;
  }
  turn->mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&turn->mode);
  return 0;
}

int cuda_enter(const struct device *device, struct cuda_turn *turn, char *why) {
  const struct cuda_driver *driver = cuda_driver(why);
  return driver ? enter(driver, device->context, turn, why) : WEFT_ERR_UNSUPPORTED;
}

int cuda_enter_any(struct cuda_turn *turn) {
  const struct cuda_driver *driver = cuda_driver(NULL);
  CUcontext current = NULL;
  if (!driver)
    return WEFT_ERR_NOT_FOUND;
  if (driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
    return enter(driver, NULL, turn, NULL);
  const struct device *device = cuda_any_device();
  return device ? enter(driver, device->context, turn, NULL) : WEFT_ERR_NOT_FOUND;
}

void cuda_leave(const struct cuda_turn *turn) {
  enum cudaStreamCaptureMode mode = turn->mode;
  CUcontext popped;
  cudaThreadExchangeStreamCaptureMode(&mode);
  if (turn->pushed)
    cuda_driver(NULL)->cuCtxPopCurrent(&popped);
}

int cuda_with(struct device *device, void (*function)(void *arg), void *arg, char *why) {
  struct cuda_turn turn;
  int rc = cuda_enter(device, &turn, why);
  if (rc != 0)
    return rc;
  function(arg);
  cuda_leave(&turn);
  return 0;
}

int cuda_share_take(struct device *device, uint32_t processors, char *why) {
  int rc = 0;
  pthread_mutex_lock(&device->lock);
  if (device->processors + processors > device->info.processors) {
    rc =
        cuda_why(why, WEFT_ERR_LIMIT,
                 "ranks of this process have %u of the %u processors of device %d already, and this one wants %u: each "
                 "must be limited so that all can run at once",
                 device->processors, device->info.processors, device->index, processors);
  } else {
    device->processors += processors;
    __atomic_fetch_add(&device->engines, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&device->lock);
  return rc;
}

void cuda_share_give(struct device *device, uint32_t processors) {
  pthread_mutex_lock(&device->lock);
  device->processors -= processors;
  __atomic_fetch_sub(&device->engines, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&device->lock);
}

bool cuda_share_alone(const struct device *device) {
  return __atomic_load_n(&device->engines, __ATOMIC_RELAXED) == 1;
}
