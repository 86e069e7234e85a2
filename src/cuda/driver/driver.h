// The functions of the CUDA driver that the plug-in calls itself. They are looked up at run time, so that the plug-in
// can be loaded without a driver, and can name what is missing.
#ifndef CUDA_DRIVER_DRIVER_H
#define CUDA_DRIVER_DRIVER_H

#include <cudaTypedefs.h>

// X(name, version of CUDA that introduced this form of it)
#define CUDA_DRIVER_MAP(X)                                                                                             \
  X(cuGetErrorString, 6000)                                                                                            \
  X(cuDeviceGet, 2000)                                                                                                 \
  X(cuDeviceGetAttribute, 2000)                                                                                        \
  X(cuDevicePrimaryCtxRetain, 7000)                                                                                    \
  X(cuCtxGetCurrent, 4000)                                                                                             \
  X(cuCtxPushCurrent, 4000)                                                                                            \
  X(cuCtxPopCurrent, 4000)                                                                                             \
  X(cuCtxGetDevice, 2000)                                                                                              \
  X(cuStreamGetCtx, 9020)                                                                                              \
  X(cuStreamWriteValue32, 11070)                                                                                       \
  X(cuDeviceGetP2PAttribute, 8000)                                                                                     \
  X(cuMemGetAddressRange, 3020)                                                                                        \
  X(cuMemGetAllocationGranularity, 10020)                                                                              \
  X(cuMemGetAllocationPropertiesFromHandle, 10020)                                                                     \
  X(cuMemCreate, 10020)                                                                                                \
  X(cuMemRelease, 10020)                                                                                               \
  X(cuMemExportToShareableHandle, 10020)                                                                               \
  X(cuMemImportFromShareableHandle, 10020)                                                                             \
  X(cuMemAddressReserve, 10020)                                                                                        \
  X(cuMemAddressFree, 10020)                                                                                           \
  X(cuMemMap, 10020)                                                                                                   \
  X(cuMemUnmap, 10020)                                                                                                 \
  X(cuMemSetAccess, 10020)

struct cuda_driver {
#define CUDA_DRIVER_FIELD(name, version) PFN_##name##_v##version name;
  CUDA_DRIVER_MAP(CUDA_DRIVER_FIELD)
#undef CUDA_DRIVER_FIELD
};

// NULL: there is no driver, or it is too old; `why` (may be NULL) says what is missing. [any]
const struct cuda_driver *cuda_driver(char *why);

#endif
