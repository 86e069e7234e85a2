// The GPUs that a worker copies with, opened when first used.
#include <string.h>

#include "base/fail.h"
#include "transport/cuda/cuda.h"

int cuda_device_open(struct cuda_worker *worker, int index, struct device **device) {
  char why[DEVICE_WHY] = "";
  if (index < 0 || index >= worker->num_devices)
    return fail(WEFT_ERR_INVALID, "there is no GPU %d: this process sees %d", index, worker->num_devices);
  int rc = 0;
  if (!worker->devices[index])
    rc = worker->api->open(index, &worker->devices[index], why);
  if (rc == 0 && !worker->streams[index])
    rc = worker->api->stream_open(worker->devices[index], &worker->streams[index], why);
  if (rc != 0)
    return device_fail(rc, "a GPU for copies", why);
  *device = worker->devices[index];
  return 0;
}

int cuda_device_find(const struct cuda_worker *worker, const uint8_t uuid[16]) {
  for (int i = 0; i < worker->num_devices; i++)
    if (memcmp(worker->info[i].uuid, uuid, sizeof worker->info[i].uuid) == 0)
      return i;
  return -1;
}
