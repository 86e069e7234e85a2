// Calls NVML, with names and numbers of its public interface (nvml.h of the CUDA toolkit).
#include "limits/hardware/nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void *gpu_handle;

struct pci_info { // nvmlPciInfo_t
  char legacy_address[16];
  unsigned domain, bus, device, id, subsystem;
  char address[32];
};

struct field_value { // nvmlFieldValue_t
  unsigned field, scope;
  long long timestamp, latency_us;
  unsigned type;
  int result;
  union {
    double real;
    unsigned u32;
    unsigned long long u64;
  } value;
};

enum {
  NOT_SUPPORTED = 3,    // nvmlReturn_t: a GPU without NVLink
  ENABLED = 1,          // nvmlEnableState_t
  CLOCK_MEMORY = 2,     // nvmlClockType_t
  TO_SWITCH = 2,        // nvmlIntNvLinkDeviceType_t
  SPEED_OF_LINKS = 90,  // NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: 1e6 bytes a second
  SPEED_OF_A_LINK = 164 // NVML_FI_DEV_NVLINK_GET_SPEED: the same of one link, which is `scope`
};

struct nvml {
  void *library;
  int (*init)(void);
  int (*shutdown)(void);
  int (*count)(unsigned *count);
  int (*by_index)(unsigned index, gpu_handle *gpu);
  int (*pci)(gpu_handle gpu, struct pci_info *info);
  int (*bus_width)(gpu_handle gpu, unsigned *bits);
  int (*max_clock)(gpu_handle gpu, unsigned clock, unsigned *mhz);
  int (*link_state)(gpu_handle gpu, unsigned link, unsigned *state);
  int (*link_remote)(gpu_handle gpu, unsigned link, struct pci_info *info);
  int (*link_remote_type)(gpu_handle gpu, unsigned link, unsigned *type);
  int (*fields)(gpu_handle gpu, int count, struct field_value *values);
};

static bool open_library(struct nvml *nvml, const char *file) {
  const struct {
    void *at;
    const char *name;
  } symbols[] = {{&nvml->init, "nvmlInit_v2"},
                 {&nvml->shutdown, "nvmlShutdown"},
                 {&nvml->count, "nvmlDeviceGetCount_v2"},
                 {&nvml->by_index, "nvmlDeviceGetHandleByIndex_v2"},
                 {&nvml->pci, "nvmlDeviceGetPciInfo_v3"},
                 {&nvml->bus_width, "nvmlDeviceGetMemoryBusWidth"},
                 {&nvml->max_clock, "nvmlDeviceGetMaxClockInfo"},
                 {&nvml->link_state, "nvmlDeviceGetNvLinkState"},
                 {&nvml->link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2"},
                 {&nvml->link_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType"},
                 {&nvml->fields, "nvmlDeviceGetFieldValues"}};
  nvml->library = dlopen(file ? file : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; nvml->library && i < sizeof symbols / sizeof *symbols; i++) {
    void *found = dlsym(nvml->library, symbols[i].name);
    memcpy(symbols[i].at, &found, sizeof found);
  }
  // Old drivers may lack the last four calls: then the links are not known.
  return nvml->library && nvml->init && nvml->shutdown && nvml->count && nvml->by_index && nvml->pci;
}

// NVML writes domains of eight digits, and capitals.
static void copy_address(char out[NVML_ADDRESS], const struct pci_info *info) {
  const char *from = info->address;
  size_t domain = strnlen(from, sizeof info->address) > 12 && from[8] == ':' ? 4 : 0;
  snprintf(out, NVML_ADDRESS, "%.12s", from + domain);
  for (char *at = out; *at; at++)
    *at = (char)tolower((unsigned char)*at);
}

// The memory makes two transfers a clock.
static double memory_of(const struct nvml *nvml, gpu_handle gpu) {
  unsigned bits = 0, mhz = 0;
  bool known = nvml->bus_width && nvml->max_clock && nvml->bus_width(gpu, &bits) == 0 &&
               nvml->max_clock(gpu, CLOCK_MEMORY, &mhz) == 0;
  return known ? 2.0 * mhz * 1e6 * bits / 8 / 1e9 : 0;
}

static double link_speed(const struct nvml *nvml, gpu_handle gpu, unsigned link) {
  const struct { unsigned field, scope; } asked[] = {{SPEED_OF_A_LINK, link}, {SPEED_OF_LINKS, 0}};
  for (size_t i = 0; nvml->fields && i < sizeof asked / sizeof *asked; i++) {
    struct field_value value = {.field = asked[i].field, .scope = asked[i].scope, .result = -1};
    if (nvml->fields(gpu, 1, &value) == 0 && value.result == 0 && value.value.u32 > 0)
      return value.value.u32 / 1e3;
  }
  return 0;
}

static void list_links(const struct nvml *nvml, gpu_handle gpu, struct nvml_gpu *out) {
  for (unsigned link = 0; nvml->link_state && link < NVML_MAX_LINKS; link++) {
    unsigned state = 0, type = 0;
    struct pci_info remote = {0};
    int rc = nvml->link_state(gpu, link, &state);
    out->links_known |= link == 0 && (rc == 0 || rc == NOT_SUPPORTED);
    if (rc != 0 || state != ENABLED)
      continue;
    double speed = link_speed(nvml, gpu, link);
    out->link_gbps = speed > out->link_gbps ? speed : out->link_gbps;
    bool to_switch = nvml->link_remote_type && nvml->link_remote_type(gpu, link, &type) == 0 && type == TO_SWITCH;
    if (!to_switch && nvml->link_remote && nvml->link_remote(gpu, link, &remote) == 0)
      copy_address(out->links[out->num_links].address, &remote);
    out->num_links++;
  }
}

static uint32_t list_gpus(const struct nvml *nvml, struct nvml_gpu *gpus) {
  unsigned count = 0;
  uint32_t used = 0;
  if (nvml->count(&count) != 0)
    return 0;
  for (unsigned i = 0; i < count && used < NVML_MAX_GPUS; i++) {
    gpu_handle gpu = NULL;
    struct pci_info info = {0};
    if (nvml->by_index(i, &gpu) != 0 || nvml->pci(gpu, &info) != 0)
      continue;
    struct nvml_gpu *out = &gpus[used++];
    *out = (struct nvml_gpu){.memory_gbps = memory_of(nvml, gpu)};
    copy_address(out->address, &info);
    list_links(nvml, gpu, out);
  }
  return used;
}

static bool is_listed(const struct nvml_gpu *gpus, uint32_t count, const char *address) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(gpus[i].address, address) == 0)
      return true;
  return false;
}

// Drivers in virtual machines do not always report that the other end is a switch.
static void find_switches(struct nvml_gpu *gpus, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    gpus[i].to_switch = 0;
    for (uint32_t k = 0; k < gpus[i].num_links; k++)
      gpus[i].to_switch += !is_listed(gpus, count, gpus[i].links[k].address);
  }
}

uint32_t nvml_list(const char *library, struct nvml_gpu *gpus) {
  struct nvml nvml = {0};
  uint32_t count = 0;
  if (open_library(&nvml, library) && nvml.init() == 0) {
    count = list_gpus(&nvml, gpus);
    find_switches(gpus, count);
    nvml.shutdown();
  }
  if (nvml.library)
    dlclose(nvml.library);
  return count;
}
