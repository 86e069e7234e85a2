// A plug-in without any function, with FAKE_ABI as the number of its interface.
#include "device/device.h"

static const struct device_api api = {.abi = FAKE_ABI};

__attribute__((visibility("default"))) device_api_fn weft_cuda_api;
const struct device_api *weft_cuda_api(void) {
  return &api;
}
