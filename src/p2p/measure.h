// The loops that are timed.
#ifndef P2P_MEASURE_H
#define P2P_MEASURE_H

#include "p2p/buffer.h"
#include "p2p/session/session.h"

// The other end of transfers: a buffer of the peer's, or storage.
struct p2p_remote {
  weft_region_t region;
  uint64_t address;
  const weft_region_t *each; // instead of the two: a region for each place, which begins there; NULL: one for all
};

struct p2p_load {
  enum weft_transfer_op op;
  uint64_t bytes;
  uint32_t iterations, warmup;
  uint32_t depth; // transfers under way; they use that many places of the buffers, one after the other
  const char *transport;
};

// Places of `bytes` that a buffer of that length has for a load: at most `depth`.
uint32_t p2p_places(uint64_t length, uint64_t bytes, uint32_t depth);

// One transfer after the other; `transport` is told.
int p2p_latency(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                const struct p2p_remote *remote, struct histogram *latency, char transport[32]);
// `depth` of them under way; 1e9 bytes a second.
int p2p_bandwidth(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                  const struct p2p_remote *remote, double *gbps);

// --- a load that goes on until somebody has seen enough ---

struct p2p_lane;

// Prepares the transfers, and warms up. The caller closes it.
int p2p_lane_open(struct p2p_session *session, const struct p2p_load *load, const struct p2p_buffer *local,
                  const struct p2p_remote *remote, struct p2p_lane **lane);
void p2p_lane_close(struct p2p_lane *lane);

// `ended` transfers have. 0: more of them; 1: that was enough; negative: a failure.
typedef int p2p_look(void *arg, uint64_t ended);
// Keeps the places under way until `look` says otherwise, which is asked each time that `every` more have ended.
int p2p_lane_run(struct p2p_lane *lane, uint32_t every, p2p_look *look, void *arg);

#endif
