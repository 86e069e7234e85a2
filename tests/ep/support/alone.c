// One rank, its buffers and its calls.
#include "ep/support/alone.h"

#include <string.h>

enum { SOON_MS = 10000 };

uint16_t alone_x[ALONE_TOKENS * ALONE_HIDDEN], alone_received[ALONE_EXPERTS * ALONE_ROWS * ALONE_HIDDEN],
    alone_out[ALONE_TOKENS * ALONE_HIDDEN];
const int64_t alone_topk_idx[ALONE_TOKENS * ALONE_TOPK] = {0, 1, 0, 1, 0, 1, 0, 1};
const float alone_weights[ALONE_TOKENS * ALONE_TOPK] = {1, 1, 1, 1, 1, 1, 1, 1};
int32_t alone_counts[ALONE_EXPERTS];

struct weft_ep_options alone_options(weft_store_t *store) {
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.rank = 0;
  options.capacity = ALONE_CAPACITY;
  options.hidden = ALONE_HIDDEN;
  options.max_tokens = ALONE_TOKENS;
  options.topk = ALONE_TOPK;
  return options;
}

weft_ep_t *alone_open(const struct weft_ep_options *options) {
  weft_ep_t *ep = NULL;
  assert_int_equal(weft_ep_open(&ep, options, SOON_MS), 0);
  assert_int_equal(weft_ep_activate(ep, SOON_MS), 0);
  return ep;
}

struct weft_ep_dispatch_args alone_dispatch(void) {
  struct weft_ep_dispatch_args args = WEFT_EP_DISPATCH_ARGS_INIT;
  args.x = alone_x;
  args.num_tokens = ALONE_TOKENS;
  args.topk_idx = alone_topk_idx;
  args.topk_weights = alone_weights;
  return args;
}

struct weft_ep_recv_args alone_recv(void) {
  struct weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  recv.x = alone_received;
  recv.rows = ALONE_ROWS;
  recv.counts = alone_counts;
  return recv;
}

struct weft_ep_combine_args alone_combine(void) {
  struct weft_ep_combine_args args = WEFT_EP_COMBINE_ARGS_INIT;
  args.y = alone_received;
  args.out = alone_out;
  return args;
}

bool alone_says(int rc, int code, const char *words) {
  return rc == code && strstr(weft_last_error(), words);
}
