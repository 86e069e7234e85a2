// The memory that transfers write to and read from. Its contents are a function of a seed and the position.
#ifndef P2P_BUFFER_H
#define P2P_BUFFER_H

#include "device/device.h"
#include "p2p/p2p.h"

struct p2p_buffer {
  enum p2p_memory memory;
  uint32_t gpu; // CUDA
  weft_agent_t *agent;
  weft_region_t region;
  char *address;
  uint64_t length;
  const struct device_api *api; // CUDA
  struct device *device;
};

// Checks whether this host has room for so many buffers of that kind. LIMIT: the error says how much room there is.
int p2p_buffer_room(enum p2p_memory memory, uint64_t length, uint32_t number);
int p2p_buffer_open(struct p2p_buffer *buffer, weft_agent_t *agent, enum p2p_memory memory, uint32_t gpu,
                    uint64_t length);
void p2p_buffer_close(struct p2p_buffer *buffer);
// Closes the buffer after a measurement with `peer` (0: none came) that has ended with `rc`, and returns that, with its
// sentence. After a failure the agent disconnects from the peer first, whose transfers to this memory may be under way.
int p2p_buffer_end(struct p2p_buffer *buffer, weft_peer_t peer, int rc);

// Writes the contents of `seed` into the first `bytes`.
int p2p_buffer_fill(struct p2p_buffer *buffer, uint64_t seed, uint64_t bytes);
// DATA: says where the first wrong byte is, and how many there are.
int p2p_buffer_check(struct p2p_buffer *buffer, uint64_t seed, uint64_t bytes);

#endif
