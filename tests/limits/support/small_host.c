// The host of these tests.
#include "limits/support/small_host.h"

#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>

int root_make(void **state) {
  (void)state;
  if (root_make_named("weft-limits"))
    return -1;
  char cache[ROOT_PATH + 16];
  snprintf(cache, sizeof cache, "%s/cache", root);
  setenv("XDG_CACHE_HOME", cache, 1);
  unsetenv("HWLOC_XMLFILE");
  unsetenv("HWLOC_SYNTHETIC");
  return 0;
}

void root_put_small_host(void) {
  static const char *const caches[][2] = {{"1", "32K"}, {"1", "32K"}, {"2", "256K"}, {"3", "1024K"}};
  for (int i = 0; i < 4; i++) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
    root_put(path, caches[i][0]);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    root_put(path, caches[i][1]);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
    root_put(path, i == 0 ? "Data\n" : i == 1 ? "Instruction\n" : "Unified\n");
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/shared_cpu_list", i);
    root_put(path, i == 3 ? "0-1\n" : "0\n");
  }
  root_put("/sys/devices/system/node/online", "0\n");
  root_put("/proc/meminfo", "MemTotal:        4194304 kB\nMemAvailable:      65536 kB\n");
  root_put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Made-up processor\n");
  root_put("/etc/machine-id", "00112233445566778899aabbccddeeff\n");
}

bool root_gpu_address(uint32_t gpu, char address[16]) {
  snprintf(address, 16, "0000:%02x:00.0", gpu & 0xff);
  return true;
}

struct limits *root_open(void) {
  struct limits *limits = NULL;
  const char *nvml = getenv("FAKE_NVML"); // that of this machine says nothing of the made-up one
  const struct limits_places places = {
      .root = root, .nvml = nvml ? nvml : "/nowhere/nvml.so", .gpu_address = root_gpu_address};
  assert_int_equal(limits_open_at(&limits, &places), 0);
  return limits;
}
