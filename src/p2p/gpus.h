// Which GPUs the two ends use, and whether that is one and the same.
#ifndef P2P_GPUS_H
#define P2P_GPUS_H

#include <jansson.h>

#include "p2p/buffer.h"
#include "p2p/report.h"

// Whether the GPU of --gpu-id can be used, and which one a local target takes: `*target`. That of --target-gpu-id; else
// another one than the initiator's, if there is one that reaches it. The drivers are asked in a process of its own, for
// one that has asked cannot be forked any more. UNSUPPORTED: no plug-in, no driver, or no such GPU.
int p2p_gpus_choose(const struct p2p_config *config, uint32_t *target);

// What the target tells of its memory, as members of its answer.
void p2p_gpus_describe(const struct p2p_buffer *buffer, json_t *ready);
// What the initiator learns from that.
void p2p_gpus_compare(const struct p2p_buffer *buffer, const json_t *ready, struct p2p_ends *ends);

#endif
