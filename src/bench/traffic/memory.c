// A worker's memory, laid out by the plan.
#include "bench/traffic/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

enum { ALIGN = 4096 };

static const char *const side_names[] = {"send", "receive"};

enum traffic_memory traffic_layout_memory(const struct traffic_layout *layout, uint32_t pattern) {
  const struct traffic_pattern *p = &layout->plan->patterns[pattern];
  return p->memory_given ? p->memory : layout->memory;
}

static uint64_t aligned(uint64_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

// Bytes that the first `pairs` pairs of a pattern need in a worker's area.
static uint64_t pattern_bytes(const struct traffic_pattern *pattern, uint32_t pairs, uint32_t rank,
                              enum traffic_side side) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < pairs; i++) {
    const struct traffic_pair *pair = &pattern->pairs[i];
    if ((side == TRAFFIC_SENDS ? pair->from : pair->to) == rank)
      bytes += aligned(pair->bytes);
  }
  return bytes;
}

// Where a pattern begins in a worker's area.
static uint64_t pattern_begin(const struct traffic_layout *layout, uint32_t pattern, uint32_t rank,
                              enum traffic_side side) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; layout->apart && i < pattern; i++)
    if (traffic_layout_memory(layout, i) == traffic_layout_memory(layout, pattern))
      bytes += pattern_bytes(&layout->plan->patterns[i], layout->plan->patterns[i].num_pairs, rank, side);
  return bytes;
}

uint64_t traffic_layout_bytes(const struct traffic_layout *layout, uint32_t rank, enum traffic_side side,
                              enum traffic_memory memory) {
  uint64_t sum = 0, most = 0;
  for (uint32_t i = 0; i < layout->plan->num_patterns; i++) {
    const struct traffic_pattern *pattern = &layout->plan->patterns[i];
    uint64_t bytes =
        traffic_layout_memory(layout, i) == memory ? pattern_bytes(pattern, pattern->num_pairs, rank, side) : 0;
    sum += bytes;
    most = bytes > most ? bytes : most;
  }
  return layout->apart ? sum : most;
}

uint64_t traffic_layout_place(const struct traffic_layout *layout, uint32_t pattern, uint32_t pair,
                              enum traffic_side side) {
  const struct traffic_pattern *p = &layout->plan->patterns[pattern];
  uint32_t rank = side == TRAFFIC_SENDS ? p->pairs[pair].from : p->pairs[pair].to;
  return pattern_begin(layout, pattern, rank, side) + pattern_bytes(p, pair, rank, side);
}

static int open_gpu(struct traffic_memories *memories, uint32_t place) {
  char why[DEVICE_WHY] = "";
  int count = 0;
  int rc = device_load(&memories->api);
  if (rc != 0)
    return rc;
  rc = memories->api->count(&count, why);
  if (rc == 0 && count < 1)
    return fail(WEFT_ERR_UNSUPPORTED, "memory cuda: this host has no GPU that this process may use");
  memories->gpu = count > 0 ? place % (uint32_t)count : 0;
  struct device_info info = {0};
  if (rc == 0)
    rc = memories->api->describe((int)memories->gpu, &info, why);
  if (rc == 0)
    rc = memories->api->open((int)memories->gpu, &memories->device, why);
  if (rc != 0)
    return device_fail(rc, "memory cuda", why);
  for (size_t i = 0; i < sizeof info.uuid; i++)
    snprintf(memories->gpu_uuid + 2 * i, 3, "%02x", info.uuid[i]);
  memories->has_gpu = true;
  return 0;
}

static int open_area(struct traffic_memories *memories, enum traffic_memory memory, enum traffic_side side,
                     uint64_t bytes) {
  bool cuda = memory == TRAFFIC_CUDA;
  void *address = NULL;
  weft_region_t region = 0;
  int rc = weft_agent_allocate(memories->agent, cuda ? WEFT_MEMORY_CUDA : WEFT_MEMORY_HOST, bytes,
                               cuda ? (int32_t)memories->gpu : -1, &region, &address);
  if (rc != 0)
    return fail_context(rc, "%" PRIu64 " bytes of %s memory to %s", bytes, traffic_memory_names[memory],
                        side_names[side]);
  memories->areas[memory][side].region = region;
  memories->areas[memory][side].address = address;
  if (!cuda)
    memset(address, 0, bytes); // the first touch of a page is slow
  return 0;
}

int traffic_memories_open(struct traffic_memories *memories, weft_agent_t *agent, const struct traffic_layout *layout,
                          uint32_t rank, uint32_t place) {
  *memories = (struct traffic_memories){.agent = agent};
  int rc = 0;
  for (int memory = 0; memory < 2 && rc == 0; memory++)
    for (int side = 0; side < 2 && rc == 0; side++) {
      uint64_t bytes = traffic_layout_bytes(layout, rank, side, memory);
      if (bytes > 0 && memory == TRAFFIC_CUDA && !memories->has_gpu)
        rc = open_gpu(memories, place);
      if (bytes > 0 && rc == 0)
        rc = open_area(memories, memory, side, bytes);
    }
  if (rc != 0)
    traffic_memories_close(memories);
  return rc;
}

void traffic_memories_close(struct traffic_memories *memories) {
  if (memories->device)
    memories->api->close(memories->device);
  *memories = (struct traffic_memories){0};
}

json_t *traffic_memories_describe(const struct traffic_memories *memories) {
  json_t *areas = json_object();
  char name[32];
  for (int memory = 0; memory < 2; memory++)
    for (int side = 0; side < 2; side++) {
      snprintf(name, sizeof name, "%s_%s", traffic_memory_names[memory], side_names[side]);
      if (memories->areas[memory][side].region)
        json_object_set_new(areas, name,
                            json_pack("[I, I]", (json_int_t)memories->areas[memory][side].region,
                                      (json_int_t)(uintptr_t)memories->areas[memory][side].address));
    }
  return areas;
}

int traffic_memories_read(const json_t *facts, struct traffic_far *far) {
  char name[32];
  *far = (struct traffic_far){0};
  for (int memory = 0; memory < 2; memory++)
    for (int side = 0; side < 2; side++) {
      snprintf(name, sizeof name, "%s_%s", traffic_memory_names[memory], side_names[side]);
      const json_t *area = json_object_get(facts, name);
      const json_t *region = json_array_get(area, 0), *address = json_array_get(area, 1);
      if (!area)
        continue;
      if (!json_is_integer(region) || !json_is_integer(address))
        return fail(WEFT_ERR_PROTOCOL, "it announced its area %s without a region and an address", name);
      far->region[memory][side] = (weft_region_t)json_integer_value(region);
      far->address[memory][side] = (uint64_t)json_integer_value(address);
    }
  return 0;
}

struct traffic_area traffic_memories_area(const struct traffic_memories *memories, const struct traffic_layout *layout,
                                          uint32_t pattern, uint32_t pair, enum traffic_side side) {
  enum traffic_memory memory = traffic_layout_memory(layout, pattern);
  bool cuda = memory == TRAFFIC_CUDA;
  return (struct traffic_area){.address = memories->areas[memory][side].address +
                                          traffic_layout_place(layout, pattern, pair, side),
                               .api = cuda ? memories->api : NULL,
                               .device = cuda ? memories->device : NULL};
}
