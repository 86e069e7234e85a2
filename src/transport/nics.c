// The NICs that a worker is opened with, from the topology or the environment.
#include "transport/nics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

enum { MAX_GPUS = 64, ADDRESS = 16 };

// Transports with a choice, and the variables by which a user makes it. FI_PROVIDER is none of them: the NICs are then
// chosen among those of that provider.
static const struct {
  const char *transport;
  const char *variables[8];
} settings[] = {
    {"ucx", {"UCX_NET_DEVICES"}},
    {"ofi",
     {"WEFT_OFI_NICS", "FI_VERBS_DEVICE_NAME", "FI_VERBS_IFACE", "FI_EFA_IFACE", "FI_CXI_DEVICE_NAME",
      "FI_OPX_HFI_SELECT", "PSM3_NIC"}},
};

static const char *const *variables_of(const struct transport *transport) {
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    if (strcmp(transport->name, settings[i].transport) == 0)
      return settings[i].variables;
  return NULL;
}

struct gpus {
  char addresses[MAX_GPUS][ADDRESS];
  const char *list[MAX_GPUS];
  size_t count;
};

static void add_gpu(struct gpus *gpus, const struct device_api *api, int index) {
  struct device_info info;
  char why[DEVICE_WHY];
  if (gpus->count == MAX_GPUS || api->describe(index, &info, why) != 0)
    return;
  snprintf(gpus->addresses[gpus->count], ADDRESS, "%s", info.pci);
  gpus->list[gpus->count] = gpus->addresses[gpus->count];
  gpus->count++;
}

static void find_gpus(int gpu, struct gpus *gpus) {
  const struct device_api *api;
  char why[DEVICE_WHY];
  int count = 0, current = 0;
  gpus->count = 0;
  if (gpu == TRANSPORT_NO_GPU || device_load(&api) != 0 || api->count(&count, why) != 0)
    return;
  if (gpu >= 0) {
    add_gpu(gpus, api, gpu);
    return;
  }
  if (count < 1 || api->stream_device(NULL, &current, why) != 0)
    current = 0;
  for (int i = 0; i < count; i++)
    add_gpu(gpus, api, (current + i) % count);
}

void transport_nics_choose(const struct transport *transport, int gpu, struct transport_nics *nics) {
  const char *const *variable = variables_of(transport);
  struct topology_served served;
  struct gpus gpus;
  *nics = (struct transport_nics){.wish = ""};
  if (!variable || !topology_has_choice())
    return;
  for (; *variable; variable++) {
    const char *value = getenv(*variable);
    if (!value || !*value)
      continue;
    snprintf(nics->why, sizeof nics->why, "%s says which: %.200s", *variable, value);
    return;
  }
  find_gpus(gpu, &gpus);
  if (topology_serve(gpus.list, gpus.count, &served) != 0) {
    snprintf(nics->why, sizeof nics->why, "the transport's own choice: %.300s", weft_last_error());
    return;
  }
  if (!*served.nics) {
    snprintf(nics->why, sizeof nics->why, "the transport's own choice: %.300s", served.why);
    return;
  }
  snprintf(nics->why, sizeof nics->why, "%s", served.why);
  snprintf(nics->wish, sizeof nics->wish, "nics=%s", served.nics);
  nics->settings[0] = nics->wish;
}
