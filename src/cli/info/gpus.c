// The GPUs, for `weft info`.
#include "cli/info/facts.h"

#include "base/fail.h"
#include "device/device.h"
#include "run/node/gpus.h"

#include <stdio.h>
#include <stdlib.h>

static json_t *describe(const struct device_api *api, int index) {
  struct device_info info = {0};
  char why[DEVICE_WHY] = "", uuid[37], compute[24];
  int err = api->describe(index, &info, why);
  if (err)
    return json_pack("{s:i, s:s}", "index", index, "error", why);
  const uint8_t *id = info.uuid;
  snprintf(uuid, sizeof uuid, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0], id[1],
           id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12], id[13], id[14], id[15]);
  snprintf(compute, sizeof compute, "%d.%d", info.major, info.minor);
  return json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:I, s:b, s:b}", "index", index, "name", info.name, "pci", info.pci,
                   "uuid", uuid, "compute_capability", compute, "processors", (int)info.processors, "memory_bytes",
                   (json_int_t)info.memory_bytes, "windows", info.windows, "fabric", info.fabric);
}

static int count_gpus(const struct device_api **api, int *count) {
  char why[DEVICE_WHY] = "";
  int err = run_gpus_check_visible(getenv("CUDA_VISIBLE_DEVICES"));
  if (!err)
    err = device_load(api);
  if (!err && (err = (*api)->count(count, why)))
    fail(err, "%s", why);
  return err;
}

json_t *cli_info_gpus(void) {
  const struct device_api *api = NULL;
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  json_t *devices = json_array();
  int count = 0, err = count_gpus(&api, &count);
  for (int i = 0; !err && i < count; i++)
    json_array_append_new(devices, describe(api, i));
  return json_pack("{s:b, s:s, s:s?, s:o}", "available", !err && count > 0, "reason",
                   err          ? weft_last_error()
                   : count == 0 ? "there is no GPU"
                                : "",
                   "visible", visible, "devices", devices);
}
