// Rows that are sent to another host only once: see flow_share.c. Part of the relay of streams (flow.h).
#ifndef CUDA_RELAY_FLOW_SHARE_H
#define CUDA_RELAY_FLOW_SHARE_H

#include "cuda/relay/flow.h"

// A row to be sent: the part that is the same for all ranks that get its token (values), and the part that differs
// (foot).
struct cuda_flow_share_row {
  uint32_t index; // index of its channel
  uint64_t op, position;
  uint32_t values, foot; // sizes in bytes; values 0: the row cannot be shared
  uint32_t token;
};

enum cuda_flow_share_way {
  CUDA_SHARE_SEND, // the whole row is sent
  CUDA_SHARE_NAME, // the reader finds the values in the window of a neighbour
  CUDA_SHARE_WAIT, // the row waits: the reader, or a neighbour in the reader's window, will find the values
};

// 0, or NOMEM.
int cuda_flow_share_open(struct cuda_flow_relay *relay);
void cuda_flow_share_close(struct cuda_flow_relay *relay);

// Whether the former contents of the row's place are not read any more.
bool cuda_flow_share_is_free(const struct cuda_flow_relay *relay, const struct device_sharing *sharing,
                             const struct cuda_flow_share_row *row);
// Decides how the row is sent. NAME: `*where` says where its values are.
enum cuda_flow_share_way cuda_flow_share_find(const struct cuda_flow_relay *relay, const struct device_sharing *sharing,
                                              const struct cuda_flow_share_row *row, struct cuda_elsewhere *where);
// Records that the row has been sent in that way.
void cuda_flow_share_record(struct cuda_flow_relay *relay, struct device_sharing *sharing,
                            const struct cuda_flow_share_row *row, const struct cuda_elsewhere *named);

// Records that batches up to that stamp have landed. Data that the peer sent after that must not have been delivered
// yet.
void cuda_flow_share_land(struct cuda_flow_relay *relay, uint64_t stamp);

// Returns the address of the values that a run names; NULL: the run is not valid. `*where` must be a copy, since the
// peer may change the original.
const char *cuda_flow_share_resolve(const struct cuda_flow_relay *relay, const struct cuda_run *run, const char *from,
                                    const struct device_neighbours *neighbours, struct cuda_elsewhere *where);

#endif
