// Ranks of groups for throughput on CUDA memory, and their operations.
#include "ep/gpu/support/flow.h"

const int64_t flow_experts[4] = {0, 1, 1, 2};
const float flow_weights[4] = {1, 1, 1, 1};
uint16_t flow_x[512], flow_y[512];

struct weft_ep_options flow_options(int32_t rank, uint32_t founders) {
  static const int32_t list[] = {0, 1, 2, 3};
  struct weft_ep_options options = fake_options(rank, founders ? list : NULL, founders);
  options.mode = WEFT_EP_THROUGHPUT;
  options.max_tokens = 4096;
  options.topk = 2;
  return options;
}

void flow_found(weft_ep_t **eps, uint32_t count) {
  struct fake_activation activations[4];
  for (uint32_t i = 0; i < count; i++)
    eps[i] = fake_open(flow_options((int32_t)i, count));
  for (uint32_t i = 0; i < count; i++)
    fake_begin(&activations[i], eps[i]);
  for (uint32_t i = 0; i < count; i++)
    fake_end(&activations[i]);
}

struct weft_ep_dispatch_args flow_tokens(void) {
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  args.x = flow_x;
  args.num_tokens = 2;
  args.topk_idx = flow_experts;
  args.topk_weights = flow_weights;
  return args;
}

int flow_operate_by(weft_ep_t **eps, weft_ep_route_t **routes, uint32_t count, bool keeps, uint64_t *op) {
  struct weft_ep_combine_args combine = WEFT_EP_COMBINE_ARGS_INIT;
  int rc = 0;
  uint64_t ops[4];
  combine.y = flow_y;
  combine.out = flow_y;
  for (uint32_t i = 0; i < count; i++) {
    struct weft_ep_dispatch_args args = flow_tokens();
    args.route = routes[i];
    if (keeps)
      args.topk_idx = NULL, args.topk_weights = NULL;
    assert_ok(weft_ep_dispatch(eps[i], &args, fake_no_rows(), NULL, &ops[i]));
    assert_ok(weft_ep_combine(eps[i], ops[i], &combine, NULL));
  }
  for (uint32_t i = count; i-- > 0;) {
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    rc = weft_ep_await(eps[i], ops[i], &info, NULL, DEADLINE_MS);
  }
  *op = ops[0];
  return rc;
}
