// Looks up the functions of the CUDA driver through the runtime, so that nothing is linked to the driver.
#include "cuda/driver/driver.h"
#include "cuda/plugin.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct cuda_driver table;
static const char *lacking; // the first function that is missing
static cudaError_t error;

static void find(const char *name, unsigned version, void *function) {
  void *found = NULL;
  enum cudaDriverEntryPointQueryResult status;
#if CUDART_VERSION >= 12050
  cudaError_t rc = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &status);
#else
  (void)version;
  cudaError_t rc = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status);
#endif
  if ((rc != cudaSuccess || !found) && !lacking) {
    lacking = name;
    error = rc;
    cudaGetLastError();
  }
  *(void **)function = found;
}

static void find_all(void) {
#define FIND(name, version) find(#name, version, (void *)&table.name);
  CUDA_DRIVER_MAP(FIND)
#undef FIND
}

const struct cuda_driver *cuda_driver(char *why) {
  pthread_once(&once, find_all);
  if (!lacking)
    return &table;
  cuda_why(why, WEFT_ERR_UNSUPPORTED, "the NVIDIA driver here lacks %s (%s): install a newer one", lacking,
           error == cudaSuccess ? "it is too old" : cudaGetErrorString(error));
  return NULL;
}
