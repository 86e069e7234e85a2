// Finds the GPU of a rank of this host, for `weft env`.
#ifndef CLI_COMMANDS_ENV_GPU_H
#define CLI_COMMANDS_ENV_GPU_H

#include "topology/choice/choice.h"

enum { CLI_ENV_WHY = 512 };

// The index in `choice` of the GPU that the rank-th process of this host gets if each process takes the next visible
// GPU; -1: none. `how` explains the result. Asks CUDA if the plug-in is installed, otherwise reads
// CUDA_VISIBLE_DEVICES.
int cli_env_gpu(const struct topology_choice *choice, uint32_t rank, char how[CLI_ENV_WHY]);

#endif
