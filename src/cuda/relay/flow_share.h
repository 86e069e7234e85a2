// Rows that cross to another host once: see flow_share.c. Part of the relay of streams (flow.h).
#ifndef CUDA_RELAY_FLOW_SHARE_H
#define CUDA_RELAY_FLOW_SHARE_H

#include "cuda/relay/flow.h"

// A row that is to be sent: what of it is the same for all ranks that get its token, and what is not.
struct cuda_flow_share_row {
  uint32_t index; // of its channel
  uint64_t op, position;
  uint32_t values, foot; // bytes; values 0: it cannot be shared
  uint32_t token;
};

enum cuda_flow_share_way {
  CUDA_SHARE_SEND, // all of it goes
  CUDA_SHARE_NAME, // the reader finds the values in the window of a neighbour
  CUDA_SHARE_WAIT, // it will, or a neighbour will find them in its own
};

// 0, or NOMEM.
int cuda_flow_share_open(struct cuda_flow_relay *relay);
void cuda_flow_share_close(struct cuda_flow_relay *relay);

// Whether nobody reads what is in the place of the row any more.
bool cuda_flow_share_is_free(const struct cuda_flow_relay *relay, const struct device_sharing *sharing,
                             const struct cuda_flow_share_row *row);
// How the row goes. NAME: `*where` says where its values are.
enum cuda_flow_share_way cuda_flow_share_find(const struct cuda_flow_relay *relay, const struct device_sharing *sharing,
                                              const struct cuda_flow_share_row *row, struct cuda_elsewhere *where);
// It has gone in that way.
void cuda_flow_share_record(struct cuda_flow_relay *relay, struct device_sharing *sharing,
                            const struct cuda_flow_share_row *row, const struct cuda_elsewhere *named);

// Batches up to that stamp have landed; nothing that the peer sent since has been delivered.
void cuda_flow_share_land(struct cuda_flow_relay *relay, uint64_t stamp);

// Where the values are that a run names; NULL: the run says what no peer says. `*where` is a copy, as the peer may
// write there.
const char *cuda_flow_share_resolve(const struct cuda_flow_relay *relay, const struct cuda_run *run, const char *from,
                                    const struct device_neighbours *neighbours, struct cuda_elsewhere *where);

#endif
