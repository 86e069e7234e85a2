// Tries what an engine may refuse as UNSUPPORTED, on a group of one rank.
#include <stdio.h>

#include "cmocka_all.h"
#include "ep/host/support/drawn.h"

enum { TIMEOUT_MS = 30000, HIDDEN = WEFT_EP_BLOCK, ROWS = 8 };

// One token, which selects the first expert of one rank.
struct probe {
  weft_ep_t *ep;
  weft_ep_route_t *route;
  uint16_t x[HIDDEN], received[ROWS * HIDDEN], y[ROWS * HIDDEN], out[HIDDEN], bias[HIDDEN];
  int64_t topk_idx[1];
  float weights[1], row_weights[ROWS], out_weights[1], recv_weights[ROWS];
  int32_t counts[1], slot[ROWS], expert_end[1], local_expert[ROWS];
  struct weft_ep_dispatch_args dispatch;
  struct weft_ep_recv_args recv;
  struct weft_ep_combine_args combine;
};

const char *drawn_feature_name(uint32_t index) {
  static const char *const names[DRAWN_FEATURES] = {"packed rows", "opaque rows",       "biases",
                                                    "unweighted",  "weights back",      "filled routes",
                                                    "kept routes", "combines by routes"};
  return names[index];
}

static bool has(int rc, const char *what) {
  if (rc != 0 && rc != WEFT_ERR_UNSUPPORTED)
    fail_msg("%s: %s: %s", what, weft_err_name(rc), weft_last_error());
  return rc == 0;
}

static void arm(struct probe *p) {
  p->dispatch = (struct weft_ep_dispatch_args)WEFT_EP_DISPATCH_ARGS_INIT;
  p->dispatch.x = p->x;
  p->dispatch.topk_idx = p->topk_idx;
  p->dispatch.topk_weights = p->weights;
  p->dispatch.num_tokens = 1;
  p->recv = (struct weft_ep_recv_args)WEFT_EP_RECV_ARGS_INIT;
  p->recv.x = p->received;
  p->recv.counts = p->counts;
  p->recv.rows = ROWS;
  p->combine = (struct weft_ep_combine_args)WEFT_EP_COMBINE_ARGS_INIT;
  p->combine.y = p->y;
  p->combine.out = p->out;
}

static void ask_for(struct probe *p, enum drawn_feature feature) {
  arm(p);
  switch (feature) {
  case DRAWN_PACKED:
    p->recv.layout = WEFT_EP_PACKED;
    p->recv.alignment = 4;
    p->recv.flags = WEFT_EP_RECV_ZERO_PADDING;
    p->recv.slot = p->slot;
    p->recv.expert_end = p->expert_end;
    break;
  case DRAWN_OPAQUE:
    p->dispatch.dtype = WEFT_EP_OPAQUE;
    p->dispatch.row_bytes = 64;
    break;
  case DRAWN_BIAS:
    p->combine.bias[0] = p->bias;
    break;
  case DRAWN_UNWEIGHTED:
    p->combine.flags = WEFT_EP_COMBINE_UNWEIGHTED;
    break;
  case DRAWN_ROW_WEIGHTS:
    p->recv.layout = WEFT_EP_RANK_MAJOR;
    p->recv.local_expert = p->local_expert;
    p->recv.weights = p->recv_weights;
    p->combine.row_weights = p->row_weights;
    p->combine.out_weights = p->out_weights;
    break;
  case DRAWN_FILL:
  case DRAWN_KEPT:
    p->dispatch.route = p->route;
    break;
  default:
    break;
  }
  if (feature == DRAWN_KEPT) {
    p->dispatch.topk_idx = NULL;
    p->dispatch.topk_weights = NULL;
  }
}

static bool try(struct probe *p, enum drawn_feature feature) {
  uint64_t op;
  bool routed = feature == DRAWN_FILL || feature == DRAWN_KEPT || feature == DRAWN_BACK;
  if (routed && !p->route) {
    struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
    if (!has(weft_ep_route_create(p->ep, &options, &p->route), "weft_ep_route_create"))
      return false;
  }
  ask_for(p, feature);
  if (feature == DRAWN_BACK)
    return has(weft_ep_combine_route(p->ep, p->route, &p->combine, NULL, &op), "weft_ep_combine_route");
  int rc = weft_ep_dispatch(p->ep, &p->dispatch, &p->recv, NULL, &op);
  if (!has(rc, "weft_ep_dispatch"))
    return false;
  rc = weft_ep_combine(p->ep, op, &p->combine, NULL);
  if (rc == WEFT_ERR_UNSUPPORTED)
    assert_int_equal(weft_ep_finish(p->ep, op), 0);
  return has(rc, "weft_ep_combine");
}

bool drawn_probe(enum weft_ep_mode mode, uint32_t *features) {
  static const int32_t founder = 0;
  struct probe p = {.weights = {1}};
  weft_store_t *store;
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.rank = 0;
  options.founders = &founder;
  options.num_founders = 1;
  options.capacity = 2;
  options.max_tokens = 4;
  options.hidden = HIDDEN;
  options.topk = 1;
  options.experts_per_rank = 1;
  options.mode = mode;
  *features = 0;
  bool opened = has(weft_ep_open(&p.ep, &options, TIMEOUT_MS), "weft_ep_open");
  if (opened) {
    assert_int_equal(weft_ep_activate(p.ep, TIMEOUT_MS), 0);
    for (uint32_t i = 0; i < DRAWN_FEATURES; i++)
      *features |= try(&p, (enum drawn_feature)(1u << i)) ? 1u << i : 0;
    weft_ep_route_free(p.route);
    weft_ep_close(p.ep);
  }
  weft_store_close(store);
  return opened;
}
