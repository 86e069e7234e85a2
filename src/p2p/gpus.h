// Which GPUs the two ends use, and whether both use the same one.
#ifndef P2P_GPUS_H
#define P2P_GPUS_H

#include <jansson.h>

#include "p2p/buffer.h"
#include "p2p/report.h"

// Checks whether the GPU of --gpu-id can be used, and chooses the GPU of a local target: `*target`. This is the GPU of
// --target-gpu-id; without that option another GPU than the initiator's, if the two reach each other's memory. A
// separate process asks the drivers, because a process that has used them cannot fork any more. UNSUPPORTED: no
// plug-in, no driver, or no such GPU.
int p2p_gpus_choose(const struct p2p_config *config, uint32_t *target);

// The target adds members that describe its memory to its answer.
void p2p_gpus_describe(const struct p2p_buffer *buffer, json_t *ready);
// The initiator reads these members.
void p2p_gpus_compare(const struct p2p_buffer *buffer, const json_t *ready, struct p2p_ends *ends);

#endif
