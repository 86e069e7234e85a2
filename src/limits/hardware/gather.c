// Gathers the description of the host's hardware.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/affinity.h"
#include "base/processors.h"
#include "limits/hardware/hardware.h"
#include "limits/hardware/sysfs.h"
#include "secure/hmac.h"

// A machine id is confidential (machine-id(5)); its hash with Weft's own key is not. A container may have no machine
// id; then its name is used.
static int name_machine(struct limits_hardware *hardware) {
  static const char key[] = "weft limits";
  char id[SYSFS_LINE], host[HARDWARE_LINE] = "";
  uint8_t digest[HMAC_SIZE];
  if (!sysfs_line(id, "%s/etc/machine-id", hardware->root) || !*id) {
    gethostname(host, sizeof host - 1);
    snprintf(id, sizeof id, "host %.100s", host);
  }
  const struct hmac_part part = {id, strlen(id)};
  int rc = hmac_sha256(key, sizeof key - 1, &part, 1, digest);
  for (size_t i = 0; i < (sizeof hardware->machine - 1) / 2; i++)
    snprintf(hardware->machine + 2 * i, 3, "%02x", digest[i]);
  return rc;
}

// On Arm there is no model name; the other lines are used instead.
static void name_cpu(struct limits_hardware *hardware) {
  char path[SYSFS_PATH], line[512];
  snprintf(path, sizeof path, "%s/proc/cpuinfo", hardware->root);
  FILE *file = fopen(path, "re");
  while (file && !*hardware->cpu && fgets(line, sizeof line, file)) {
    const char *value = strchr(line, ':');
    if (value && (strncmp(line, "model name", 10) == 0 || strncmp(line, "CPU part", 8) == 0))
      snprintf(hardware->cpu, sizeof hardware->cpu, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
  }
  if (file)
    fclose(file);
}

static void measure_memory(struct limits_hardware *hardware) {
  char path[SYSFS_PATH], line[128];
  unsigned long long kib = 0;
  snprintf(path, sizeof path, "%s/proc/meminfo", hardware->root);
  FILE *file = fopen(path, "re");
  while (file && kib == 0 && fgets(line, sizeof line, file))
    if (sscanf(line, "MemTotal: %llu kB", &kib) != 1)
      kib = 0;
  if (file)
    fclose(file);
  hardware->memory_bytes = (uint64_t)kib * 1024;
}

static uint32_t count_list(const char *list) {
  cpu_set_t set;
  return affinity_parse(list, &set) ? (uint32_t)CPU_COUNT(&set) : 0;
}

// Reads sizes such as "2048K" of cpu0's caches; all processors of a host are assumed to be equal.
static void measure_caches(struct limits_hardware *hardware) {
  const char *root = hardware->root;
  for (int i = 0; i < 8; i++) {
    char line[SYSFS_LINE];
    unsigned level = (unsigned)sysfs_number("%s/sys/devices/system/cpu/cpu0/cache/index%d/level", root, i);
    if (level < 1 || level > HARDWARE_CACHES)
      continue;
    if (sysfs_line(line, "%s/sys/devices/system/cpu/cpu0/cache/index%d/type", root, i) &&
        strcmp(line, "Instruction") == 0)
      continue;
    if (!sysfs_line(line, "%s/sys/devices/system/cpu/cpu0/cache/index%d/size", root, i))
      continue;
    char *unit;
    uint64_t size = strtoull(line, &unit, 10);
    hardware->caches[level].bytes = size << (*unit == 'K' ? 10 : *unit == 'M' ? 20 : 0);
    if (sysfs_line(line, "%s/sys/devices/system/cpu/cpu0/cache/index%d/shared_cpu_list", root, i))
      hardware->caches[level].shared = count_list(line);
  }
}

static int list_devices(struct limits_hardware *hardware) {
  const struct topology_choice_options options = {.nics = "", .root = *hardware->root ? hardware->root : NULL};
  return topology_choose(&hardware->choice, &options);
}

int limits_hardware_gather(struct limits_hardware *hardware, const char *root) {
  char line[SYSFS_LINE], cpus[HARDWARE_LINE];
  *hardware = (struct limits_hardware){0};
  snprintf(hardware->root, sizeof hardware->root, "%s", root);
  hardware->processors = processors_usable(root, cpus, sizeof cpus);
  hardware->nodes = sysfs_line(line, "%s/sys/devices/system/node/online", root) ? count_list(line) : 0;
  name_cpu(hardware);
  measure_memory(hardware);
  measure_caches(hardware);
  int rc = name_machine(hardware);
  if (rc == 0)
    rc = list_devices(hardware);
  if (rc != 0)
    limits_hardware_free(hardware);
  return rc;
}

void limits_hardware_free(struct limits_hardware *hardware) {
  topology_choice_free(hardware->choice);
  *hardware = (struct limits_hardware){0};
}
