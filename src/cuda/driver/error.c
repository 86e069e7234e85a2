// Translates errors of CUDA to Weft's codes and messages.
#include "cuda/driver/driver.h"
#include "cuda/plugin.h"

#include <stdarg.h>
#include <stdio.h>

int cuda_why(char *why, int rc, const char *format, ...) {
  if (why) {
    va_list args;
    va_start(args, format);
    vsnprintf(why, DEVICE_WHY, format, args);
    va_end(args);
  }
  return rc;
}

static int code_of(cudaError_t error) {
  switch (error) {
  case cudaErrorMemoryAllocation:
    return WEFT_ERR_NOMEM;
  case cudaErrorNoDevice:
  case cudaErrorInsufficientDriver:
  case cudaErrorNotSupported:
  case cudaErrorPeerAccessUnsupported:
  case cudaErrorSystemDriverMismatch:
  case cudaErrorSystemNotReady:
  case cudaErrorNoKernelImageForDevice:
  case cudaErrorUnsupportedPtxVersion:
  case cudaErrorCallRequiresNewerDriver:
  case cudaErrorDevicesUnavailable:
    return WEFT_ERR_UNSUPPORTED;
  case cudaErrorInvalidValue:
  case cudaErrorInvalidDevice:
  case cudaErrorInvalidResourceHandle:
  case cudaErrorStreamCaptureUnsupported:
  case cudaErrorStreamCaptureInvalidated:
  case cudaErrorStreamCaptureImplicit:
  case cudaErrorStreamCaptureIsolation:
  case cudaErrorStreamCaptureUnjoined:
  case cudaErrorStreamCaptureUnmatched:
    return WEFT_ERR_INVALID;
  default:
    return WEFT_ERR_SYSTEM;
  }
}

int cuda_check(char *why, cudaError_t error, const char *what) {
  if (error == cudaSuccess)
    return 0;
  cudaGetLastError(); // so that no later call reports this error again
  return cuda_why(why, code_of(error), "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

int cuda_check_driver(char *why, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return 0;
  const struct cuda_driver *driver = cuda_driver(NULL);
  const char *text = NULL;
  if (!driver || driver->cuGetErrorString(result, &text) != CUDA_SUCCESS)
    text = NULL;
  int rc = WEFT_ERR_SYSTEM;
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    rc = WEFT_ERR_NOMEM;
  else if (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_PERMITTED ||
           result == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED || result == CUDA_ERROR_INVALID_DEVICE)
    rc = WEFT_ERR_UNSUPPORTED;
  return cuda_why(why, rc, "%s: %s (CUDA driver error %d)", what, text ? text : "unknown error", (int)result);
}
