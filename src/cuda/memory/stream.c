// Streams, events, and the one way in which the host waits for a GPU.
#include "cuda/driver/driver.h"
#include "cuda/plugin.h"

#include "base/time/clock.h"

enum { SPIN_NS = 200 * 1000, NAP_NS = 20 * 1000 };

int cuda_await_spinning(cudaStream_t stream, uint64_t timeout_ns, uint64_t spin_ns, const char *what, char *why) {
  uint64_t begun = clock_ns();
  for (;;) {
    cudaError_t error = cudaStreamQuery(stream);
    if (error != cudaErrorNotReady)
      return cuda_check(why, error, what);
    cudaGetLastError();
    uint64_t passed = clock_ns() - begun;
    if (passed >= timeout_ns)
      return cuda_why(why, WEFT_ERR_TIMEOUT, "%s: not done after %llu ms", what,
                      (unsigned long long)(timeout_ns / 1000000));
    struct timespec nap = clock_timespec(NAP_NS);
    if (passed > spin_ns)
      nanosleep(&nap, NULL);
  }
}

int cuda_await(cudaStream_t stream, uint64_t timeout_ns, const char *what, char *why) {
  return cuda_await_spinning(stream, timeout_ns, SPIN_NS, what, why);
}

int cuda_stream_open(struct device *device, void **stream, char *why) {
  struct cuda_guard guard;
  cudaStream_t made;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check(why, cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cannot make a stream");
  cuda_leave(&guard);
  if (rc == 0)
    *stream = made;
  return rc;
}

void cuda_stream_close(struct device *device, void *stream) {
  struct cuda_guard guard;
  if (!stream || cuda_enter(device, &guard, NULL) != 0)
    return;
  cudaStreamDestroy(stream);
  cudaGetLastError();
  cuda_leave(&guard);
}

int cuda_check_capture(cudaStream_t stream, char *why) {
  enum cudaStreamCaptureStatus status;
  int rc = cuda_check(why, cudaStreamIsCapturing(stream, &status), "cannot wait for the stream");
  if (rc == 0 && status != cudaStreamCaptureStatusNone)
    rc = cuda_why(why, WEFT_ERR_INVALID,
                  "the stream is being captured: nothing runs, and there is nothing to wait for, before its graph is "
                  "launched");
  return rc;
}

int cuda_stream_wait(struct device *device, void *stream, uint32_t timeout_ms, char *why) {
  struct cuda_guard guard;
  uint64_t before = __atomic_load_n(&device->launches, __ATOMIC_RELAXED);
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check_capture(stream, why);
  if (rc == 0)
    rc = cuda_await(stream, timeout_ms * (uint64_t)1000000, "work in the stream", why);
  cuda_leave(&guard);
  if (rc == 0) {
    pthread_mutex_lock(&device->lock);
    device->idle_stream = stream;
    device->idle_launches = before;
    pthread_mutex_unlock(&device->lock);
  }
  return rc;
}

// An invalidated capture has no number of its own.
static cudaError_t number_of(cudaStream_t stream, uint64_t *capture) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
#if CUDART_VERSION >= 13000
  cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, &number, NULL, NULL, NULL, NULL);
#else
  cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, &number, NULL, NULL, NULL);
#endif
  *capture = error == cudaSuccess && number ? number : UINT64_MAX;
  return error;
}

int cuda_stream_capture(void *stream, uint64_t *capture, char *why) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  struct cuda_guard guard;
  bool entered = cuda_enter_any(&guard) == 0;
  *capture = 0;
  cudaError_t error = cudaStreamIsCapturing(stream, &status); // the only call in the usual case
  if (error == cudaSuccess && status != cudaStreamCaptureStatusNone)
    error = number_of(stream, capture);
  if (entered)
    cuda_leave(&guard);
  // The last error: the stream is the default stream, which is never captured; the launch will report what is wrong.
  return error == cudaErrorStreamCaptureImplicit
             ? 0
             : cuda_check(why, error, "cannot query whether the stream is being captured");
}

int cuda_stream_device(void *stream, int *index, char *why) {
  const struct cuda_driver *driver = cuda_driver(why);
  CUcontext context = NULL, popped;
  CUdevice found = 0;
  if (!driver)
    return WEFT_ERR_UNSUPPORTED;
  CUresult result = driver->cuStreamGetCtx(stream, &context);
  if (!stream && (result != CUDA_SUCCESS || !context)) // the thread has used no device yet
    return cuda_check(why, cudaGetDevice(index), "cannot query the current device");
  if (result != CUDA_SUCCESS || driver->cuCtxPushCurrent(context) != CUDA_SUCCESS)
    return cuda_why(why, WEFT_ERR_INVALID, "%p is not a CUDA stream: want a cudaStream_t", stream);
  result = driver->cuCtxGetDevice(&found);
  driver->cuCtxPopCurrent(&popped);
  if (result != CUDA_SUCCESS)
    return cuda_check_driver(why, result, "cannot query the stream's device");
  *index = found; // the driver's and the runtime's numbers are the same
  return 0;
}

int cuda_event_open(struct device *device, void **event, char *why) {
  struct cuda_guard guard;
  cudaEvent_t made;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check(why, cudaEventCreateWithFlags(&made, cudaEventDefault), "cannot make an event");
  cuda_leave(&guard);
  if (rc == 0)
    *event = made;
  return rc;
}

void cuda_event_close(struct device *device, void *event) {
  struct cuda_guard guard;
  if (!event || cuda_enter(device, &guard, NULL) != 0)
    return;
  cudaEventDestroy(event);
  cudaGetLastError();
  cuda_leave(&guard);
}

int cuda_event_record(struct device *device, void *event, void *stream, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check(why, cudaEventRecord(event, stream), "cannot record an event in the stream");
  cuda_leave(&guard);
  return rc;
}

int cuda_event_elapsed(struct device *device, void *begin, void *end, uint64_t *ns, char *why) {
  struct cuda_guard guard;
  float ms = 0;
  int rc = cuda_enter(device, &guard, why);
  if (rc != 0)
    return rc;
  cudaError_t error = cudaEventElapsedTime(&ms, begin, end);
  rc = cuda_check(why, error, "cannot measure the time between two events");
  if (error == cudaErrorNotReady)
    rc = cuda_why(why, WEFT_ERR_BUSY, "the stream has not reached both events yet");
  cuda_leave(&guard);
  if (rc == 0)
    *ns = (uint64_t)((double)ms * 1e6);
  return rc;
}
