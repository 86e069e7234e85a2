// Which memory the operations of a run use, and which GPU each local rank has. The lead decides for the whole run; an
// node that cannot follow says so before anything is started. The node's process makes no context of CUDA.
#ifndef RUN_NODE_GPUS_H
#define RUN_NODE_GPUS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "run/common/config.h"

enum {
  RUN_GPUS_WHY = 512,
  RUN_GPUS_MAX = 64,
  RUN_GPUS_UUID = 16, // bytes that name a GPU, whoever counts
};

// What was decided for this node.
struct run_gpus {
  uint32_t count; // GPUs that its ranks use, 0 with host memory: indices 0 to count - 1 as its processes see them
  char why[RUN_GPUS_WHY]; // why `auto` came to host memory, or ""
  uint8_t uuid[RUN_GPUS_MAX][RUN_GPUS_UUID];
};

// How many ranks are live at once.
struct run_gpus_need {
  uint32_t in_all;
  uint32_t least, most; // on this node: it has to have GPUs for so many, and uses no more than for so many
};

// Settles config->memory: it is HOST or CUDA afterwards. UNSUPPORTED: CUDA was asked for and cannot be had; says why.
int run_gpus_choose(struct run_gpus *gpus, struct run_config *config, const struct run_gpus_need *need);

// The names of this node's GPUs, a list of strings such as "GPU-..."; NULL when memory ran out.
json_t *run_gpus_names(const struct run_gpus *gpus);

// The GPU of a process slot, -1 with host memory. Slots share GPUs when there are fewer of these.
int32_t run_gpus_of_slot(const struct run_gpus *gpus, uint32_t slot);

// Looks at a value of CUDA_VISIBLE_DEVICES (NULL: unset). UNSUPPORTED: CUDA would see no GPU at all with it, or not the
// ones that it names; says which word is odd.
int run_gpus_check_visible(const char *list);

#endif
