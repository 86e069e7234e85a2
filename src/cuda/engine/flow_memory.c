// The memory of a group for throughput: its streams, the data of open operations, and routes.
#include "cuda/engine/engine.h"

static uint64_t aligned(uint64_t size) {
  return (size + CUDA_LINE - 1) / CUDA_LINE * CUDA_LINE;
}

static void *cut(char *base, uint64_t *at, uint64_t size) {
  void *piece = base + *at;
  *at += aligned(size);
  return piece;
}

uint64_t cuda_place_routing(struct cuda_routing *routing, const struct cuda_flow *flow, uint32_t max_tokens,
                            uint32_t max_rows, uint32_t topk, char *base) {
  struct cuda_route *r = &routing->arrays;
  uint64_t at = 0, selections = (uint64_t)max_rows * topk;
  routing->route = cut(base, &at, sizeof *routing->route);
  r->ways = cut(base, &at, (uint64_t)max_tokens * topk * sizeof *r->ways);
  r->seats = cut(base, &at, max_tokens * sizeof *r->seats);
  r->tokens = cut(base, &at, DEVICE_SEATS * sizeof *r->tokens);
  r->counts = cut(base, &at, (uint64_t)DEVICE_SEATS * flow->experts * sizeof *r->counts);
  r->sums = cut(base, &at, 4 * sizeof *r->sums);
  r->came = cut(base, &at, (uint64_t)DEVICE_SEATS * CUDA_CHANNELS * sizeof *r->came);
  r->order = cut(base, &at, (uint64_t)DEVICE_SEATS * CUDA_CHANNELS * flow->list * sizeof *r->order);
  r->token = cut(base, &at, max_rows * sizeof *r->token);
  r->place = cut(base, &at, selections * sizeof *r->place);
  r->expert = cut(base, &at, selections * sizeof *r->expert);
  r->weight = cut(base, &at, selections * sizeof *r->weight);
  r->max_rows = max_rows;
  r->topk = topk;
  return at;
}

int cuda_write_routing(struct device *device, const struct cuda_routing *routing, char *why) {
  return cuda_copy(device, routing->route, &routing->arrays, sizeof routing->arrays, device->stream, true, why);
}

// --- the memory of a group ---

uint32_t cuda_max_rows(const struct device_ep_options *o) {
  uint64_t all = (uint64_t)o->max_tokens * (o->capacity < DEVICE_SEATS ? o->capacity : DEVICE_SEATS);
  uint64_t most = INT32_MAX / o->topk, wanted = o->max_rows ? o->max_rows : all;
  return (uint32_t)(wanted < all ? wanted < most ? wanted : most : all < most ? all : most);
}

// Places the memory of a group for throughput that depends only on its sizes. `base` NULL: only computes the size.
static uint64_t place_sides(struct device_ep *ep, char *base) {
  struct cuda_streams *s = &ep->streams;
  const struct device_ep_options *o = &ep->options;
  uint64_t at = 0;
  for (int i = 0; i < EP_DEPTH; i++) {
    struct cuda_open_op *open = &s->open_ops[i];
    open->op = cut(base, &at, sizeof *open->op);
    open->counts = cut(base, &at, (uint64_t)DEVICE_SEATS * o->experts_per_rank * sizeof *open->counts);
    open->missing = cut(base, &at, o->max_tokens * sizeof *open->missing);
    at += aligned(cuda_place_routing(&open->routing, &s->flow, o->max_tokens, cuda_max_rows(o), o->topk,
                                     base ? base + at : NULL));
  }
  s->plan_workspace = cut(base, &at, cuda_plan_workspace(&s->flow, ep->blocks));
  s->rows_workspace = cut(base, &at, cuda_rows_workspace(&s->flow, ep->blocks, cuda_max_rows(o)));
  return at;
}

int cuda_flow_clear(struct device_ep *ep, const struct device_window *in, char *why) {
  return cuda_zero(ep->device, (char *)in->memory + ep->streams.offset, sizeof(struct cuda_flow_head), why);
}

int cuda_open_streams(struct device_ep *ep, char *why) {
  struct cuda_streams *s = &ep->streams;
  cuda_flow_of(&ep->options, &s->flow, &s->offset);
  uint64_t bytes = place_sides(ep, NULL);
  int rc = cuda_allocate(ep->device, bytes, &s->memory, why);
  if (rc != 0)
    return rc;
  place_sides(ep, s->memory);
  ep->bytes += bytes;
  const struct device_window own = {.memory = ep->area, .size = ep->window};
  rc = cuda_flow_clear(ep, &own, why);
  for (int i = 0; i < EP_DEPTH && rc == 0; i++)
    rc = cuda_write_routing(ep->device, &s->open_ops[i].routing, why);
  return rc;
}
