// Ranks of groups for throughput on CUDA memory, on the fake device, and their operations of two tokens with top-2.
#ifndef TESTS_EP_GPU_FLOW_H
#define TESTS_EP_GPU_FLOW_H

#include "ep/gpu/support/fake_ranks.h"

extern const int64_t flow_experts[4]; // [token][k]
extern const float flow_weights[4];
extern uint16_t flow_x[512], flow_y[512];

// `founders`: their number; 0: the rank joins.
struct weft_ep_options flow_options(int32_t rank, uint32_t founders);
// Opens ranks 0 to count - 1, which make up the first view.
void flow_found(weft_ep_t **eps, uint32_t count);
struct weft_ep_dispatch_args flow_tokens(void);
// One operation of all ranks, each by its route, or without one. `keeps`: the routes have the top-k. Returns the result
// of the first rank's await.
int flow_operate_by(weft_ep_t **eps, weft_ep_route_t **routes, uint32_t count, bool keeps, uint64_t *op);

#endif
