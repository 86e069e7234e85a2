// An NVML of four GPUs, at 0000:00:00.0 to 0000:03:00.0: 0 and 1 have 18 links each to switches, 2 and 3 have 4 links
// to each other, and nothing else. FAKE_NVML_OLD: a driver that knows nothing of links.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { GPUS = 4, NOT_SUPPORTED = 3 };
static int gpus[GPUS];

struct pci_info {
  char legacy_address[16];
  unsigned domain, bus, device, id, subsystem;
  char address[32];
};

struct field_value {
  unsigned field, scope;
  long long timestamp, latency_us;
  unsigned type;
  int result;
  union {
    unsigned u32;
    unsigned long long u64;
  } value;
};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu);
EXPORT int nvmlDeviceGetPciInfo_v3(void *gpu, struct pci_info *info);
EXPORT int nvmlDeviceGetMemoryBusWidth(void *gpu, unsigned *bits);
EXPORT int nvmlDeviceGetMaxClockInfo(void *gpu, unsigned clock, unsigned *mhz);
EXPORT int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, unsigned *state);
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *gpu, unsigned link, struct pci_info *info);
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void *gpu, unsigned link, unsigned *type);
EXPORT int nvmlDeviceGetFieldValues(void *gpu, int count, struct field_value *values);

static long index_of(void *gpu) {
  return (int *)gpu - gpus;
}

static int address_of(long index, struct pci_info *info) {
  snprintf(info->address, sizeof info->address, "00000000:%02lX:00.0", index);
  return 0;
}

int nvmlInit_v2(void) {
  return 0;
}

int nvmlShutdown(void) {
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = GPUS;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) {
  *gpu = &gpus[index];
  return 0;
}

int nvmlDeviceGetPciInfo_v3(void *gpu, struct pci_info *info) {
  return address_of(index_of(gpu), info);
}

int nvmlDeviceGetMemoryBusWidth(void *gpu, unsigned *bits) {
  *bits = 5120;
  return index_of(gpu) < 2 ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxClockInfo(void *gpu, unsigned clock, unsigned *mhz) {
  (void)gpu;
  *mhz = 2600;
  return clock == 2 ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, unsigned *state) {
  unsigned most = index_of(gpu) < 2 ? 18 : 4;
  const char *answer = getenv("FAKE_NVML_LINKS");
  *state = 1;
  if (answer && atoi(answer) != 0)
    return atoi(answer);
  return link < most ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *gpu, unsigned link, struct pci_info *info) {
  (void)link;
  return address_of(index_of(gpu) < 2 ? 0x40 : 5 - index_of(gpu), info);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *gpu, unsigned link, unsigned *type) {
  (void)link;
  *type = index_of(gpu) < 2 ? 2 : 0;
  return getenv("FAKE_NVML_LINKS") ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetFieldValues(void *gpu, int count, struct field_value *values) {
  (void)gpu;
  for (int i = 0; i < count; i++) {
    values[i].result = values[i].field == 90 ? 0 : NOT_SUPPORTED;
    values[i].value.u32 = 25000;
  }
  return 0;
}
