// The loops that are timed.
#ifndef P2P_MEASURE_H
#define P2P_MEASURE_H

#include "p2p/buffer.h"
#include "p2p/session/session.h"

// The other end of transfers: a buffer of the peer's, or storage.
struct p2p_remote {
  weft_region_t region;
  uint64_t address;
  // Used in place of the two above: one region for each place, which begins at it. NULL: one region for all places.
  const weft_region_t *each;
};

struct p2p_load {
  enum weft_transfer_op op;
  uint64_t bytes;
  uint32_t iterations, warmup;
  uint32_t depth; // transfers under way at once, each on its own place of the buffers; the places follow each other
  const char *transport;
};

// The number of places of `bytes` bytes in a buffer of `length` bytes, at most `depth`.
uint32_t p2p_places(uint64_t length, uint64_t bytes, uint32_t depth);

// Measures one transfer after the other; writes the name of their transport to `transport`.
int p2p_latency(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                const struct p2p_remote *remote, struct histogram *latency, char transport[32]);
// Measures with `depth` transfers under way; the result is in 1e9 bytes a second.
int p2p_bandwidth(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                  const struct p2p_remote *remote, double *gbps);

// --- a load that goes on until somebody has seen enough ---

struct p2p_lane;

// Prepares the transfers, and warms up. The caller closes it.
int p2p_lane_open(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                  const struct p2p_remote *remote, struct p2p_lane **lane);
void p2p_lane_close(struct p2p_lane *lane);

// `ended` transfers have ended. Returns 0 to go on, 1 to stop, or a negative error.
typedef int p2p_look(void *arg, uint64_t ended);
// Keeps a transfer under way on each place until `look` stops it; calls `look` each time `every` more have ended.
int p2p_lane_run(struct p2p_lane *lane, uint32_t every, p2p_look *look, void *arg);

#endif
