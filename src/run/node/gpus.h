// Which memory the operations of a run use, and which GPU each local rank has. The lead decides for the whole run; a
// node that cannot follow the decision reports it before anything is started. The node's process makes no CUDA context.
#ifndef RUN_NODE_GPUS_H
#define RUN_NODE_GPUS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "run/common/config.h"

enum {
  RUN_GPUS_WHY = 512,
  RUN_GPUS_MAX = 64,
  RUN_GPUS_UUID = 16, // bytes that identify a GPU, independent of its index
};

// The decision for this node.
struct run_gpus {
  uint32_t count; // GPUs that its ranks use, 0 with host memory: indices 0 to count - 1 as its processes see them
  char why[RUN_GPUS_WHY]; // why `auto` chose host memory, or ""
  uint8_t uuid[RUN_GPUS_MAX][RUN_GPUS_UUID];
};

// How many ranks are live at the same time.
struct run_gpus_need {
  uint32_t in_all;
  // on this node: it must have GPUs for at least `least` ranks, and uses GPUs for at most `most`
  uint32_t least, most;
};

// Decides config->memory: it is HOST or CUDA afterwards. UNSUPPORTED: CUDA was requested but is not available; the
// error says why.
int run_gpus_choose(struct run_gpus *gpus, struct run_config *config, const struct run_gpus_need *need);

// The names of this node's GPUs, a list of strings such as "GPU-..."; NULL when memory ran out.
json_t *run_gpus_names(const struct run_gpus *gpus);

// The GPU of a process slot, -1 with host memory. Slots share GPUs if there are fewer GPUs than slots.
int32_t run_gpus_of_slot(const struct run_gpus *gpus, uint32_t slot);

// Checks a value of CUDA_VISIBLE_DEVICES (NULL: unset). UNSUPPORTED: with this value CUDA would see no GPU, or not the
// GPUs that it names; the error names the wrong word.
int run_gpus_check_visible(const char *list);

#endif
