// The memory of one worker: for each kind of memory one area to send from and one to receive into. Each pair of each
// pattern has its place there. All workers know the plan, so each also knows the places of all others.
#ifndef BENCH_TRAFFIC_MEMORY_H
#define BENCH_TRAFFIC_MEMORY_H

#include <stdbool.h>

#include <jansson.h>
#include <weft/agent.h>

#include "bench/traffic/contents.h"
#include "bench/traffic/pattern.h"

enum traffic_side { TRAFFIC_SENDS, TRAFFIC_RECEIVES };

// How the areas are laid out.
struct traffic_layout {
  const struct traffic_plan *plan;
  enum traffic_memory memory; // of patterns that name none
  // patterns do not share bytes and are checked when all have run; else the next pattern reuses the memory
  bool apart;
};

enum traffic_memory traffic_layout_memory(const struct traffic_layout *layout, uint32_t pattern);
// Bytes of a worker's area.
uint64_t traffic_layout_bytes(const struct traffic_layout *layout, uint32_t rank, enum traffic_side side,
                              enum traffic_memory memory);
// Where pair `pair` of a pattern begins in the area of its sender or receiver.
uint64_t traffic_layout_place(const struct traffic_layout *layout, uint32_t pattern, uint32_t pair,
                              enum traffic_side side);

struct traffic_memories {
  weft_agent_t *agent;
  struct {
    weft_region_t region; // 0: there is none
    char *address;
  } areas[2][2]; // [memory][side]
  uint32_t gpu;  // of CUDA memory
  bool has_gpu;
  char gpu_uuid[33]; // hexadecimal; "" without
  const struct device_api *api;
  struct device *device;
};

// Allocates and registers what the worker needs. `place`: of this worker among those of its host, which chooses its
// GPU. LIMIT, NOMEM; UNSUPPORTED: no GPU here.
int traffic_memories_open(struct traffic_memories *memories, weft_agent_t *agent, const struct traffic_layout *layout,
                          uint32_t rank, uint32_t place);
// The agent must be closed before: until then transfers of peers may write to the memory.
void traffic_memories_close(struct traffic_memories *memories);

// Describes the areas for the other workers; and reads the description of another worker (PROTOCOL).
json_t *traffic_memories_describe(const struct traffic_memories *memories);
struct traffic_far {
  weft_region_t region[2][2];
  uint64_t address[2][2];
};
int traffic_memories_read(const json_t *facts, struct traffic_far *far);

// A pair's place in this worker's memory.
struct traffic_area traffic_memories_area(const struct traffic_memories *memories, const struct traffic_layout *layout,
                                          uint32_t pattern, uint32_t pair, enum traffic_side side);

#endif
