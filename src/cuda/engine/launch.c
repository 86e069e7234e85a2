// Launches of an engine's kernels, and the results of their operations. A launch reads nothing from the device and
// waits for nothing, so that it can be captured.
#include "cuda/engine/engine.h"

enum { RELAYED_BLOCKS = 12 }; // blocks if peers are on other hosts

// Blocks read a window in host memory in small pieces, one after the other: 81 blocks took 65 us to read a header once,
// and a few blocks suffice for the bandwidth of the way through a host. A graph keeps the choice made at its capture.
static bool is_relayed(const struct device_ep *ep) {
  return __atomic_load_n(&ep->device->host_windows, __ATOMIC_RELAXED) > 0;
}

// `most`: the caller's limit; 0: as opened.
static uint32_t blocks(const struct device_ep *ep, uint32_t most) {
  uint32_t count = most > 0 && most < ep->blocks ? most : ep->blocks;
  return is_relayed(ep) && count > RELAYED_BLOCKS ? RELAYED_BLOCKS : count;
}

// The layout for a call with its own types and top-k. Hosts that relay use the layout with which the group was opened,
// and expect one combine for each operation.
static int layout_of(const struct device_ep *ep, uint32_t topk, int dtype, int combine_dtype, bool further,
                     struct cuda_layout *layout, char *why) {
  const struct device_ep_options *o = &ep->options;
  topk = topk ? topk : o->topk;
  dtype = dtype ? dtype : o->dtype;
  combine_dtype = combine_dtype ? combine_dtype : o->combine_dtype;
  bool differs = topk != o->topk || dtype != o->dtype || combine_dtype != o->combine_dtype;
  *layout = ep->layout;
  if (differs || further) {
    if (is_relayed(ep))
      return cuda_why(
          why, WEFT_ERR_UNSUPPORTED,
          "%s: not supported while a peer is on a host that NVLink does not reach; open the group for it instead",
          differs ? "a dtype or a topk other than that of the group" : "KEEP");
    cuda_layout_call(layout, &ep->forms, topk, dtype, combine_dtype);
  }
  return 0;
}

int cuda_ep_dispatch(struct device_ep *ep, const struct device_dispatch *d, void *stream, char *why) {
  struct cuda_dispatch_args args = {
      .state = ep->state, .capacity = ep->options.capacity, .members = ep->members, .d = *d};
  struct cuda_guard guard;
  int rc = layout_of(ep, d->topk, d->dtype, 0, false, &args.layout, why);
  if (rc == 0)
    rc = cuda_enter_stream(ep, stream, &guard, why);
  if (rc != 0)
    return rc;
  cuda_complete(&args);
  if (d->kind == 1 && (d->halves & DEVICE_SEND))
    rc = cuda_check_sent(ep, d, true, why);
  if (rc == 0 && d->kind == 1 && (d->halves & DEVICE_RECV))
    rc = cuda_check_received(ep, d, args.layout.scale_bytes > 0, why);
  if (rc == 0)
    rc = cuda_launched(ep, cuda_launch_dispatch(&args, blocks(ep, d->processors), cuda_early(ep), stream), stream,
                       "cannot launch dispatch", why);
  cuda_leave(&guard);
  return rc;
}

static int check_combine(struct device_ep *ep, const struct device_combine *c, char *why) {
  bool sends = c->halves & DEVICE_SEND, some = c->num_tokens > 0;
  bool receives = c->halves & DEVICE_RECV;
  const struct cuda_argument list[] = {
      {"y", sends ? c->y : NULL, CUDA_PIECE, false},
      {"out", receives && some ? c->out : NULL, CUDA_PIECE, receives && some},
      {"topk_idx", some ? c->topk_idx : NULL, c->narrow ? sizeof(int32_t) : sizeof(int64_t), receives && some},
      {"topk_weights", some ? c->topk_weights : NULL, sizeof *c->topk_weights, c->late_weights && some},
  };
  return cuda_check_arguments(ep, list, CUDA_COUNT(list), why);
}

int cuda_ep_combine(struct device_ep *ep, const struct device_combine *c, void *stream, char *why) {
  struct cuda_combine_args args = {.state = ep->state, .before_hopper = !ep->early, .c = *c};
  struct cuda_guard guard;
  int rc = layout_of(ep, c->topk, 0, c->dtype, c->keeps || c->again, &args.layout, why);
  if (rc == 0)
    rc = cuda_enter_stream(ep, stream, &guard, why);
  if (rc != 0)
    return rc;
  args.by_call = args.layout.coded && !ep->layout.coded;
  args.usual = !c->keeps && !c->again && c->ahead == 0 && !c->narrow && !args.by_call;
  uint64_t before = ep->last_launch;
  rc = check_combine(ep, c, why);
  if (rc == 0 && c->again && (c->halves & DEVICE_SEND)) {
    const struct cuda_finish_args reopen = {.state = ep->state, .layout = args.layout, .ahead = c->ahead};
    rc = cuda_launched(ep, cuda_launch_reopen(&reopen, blocks(ep, c->processors), stream), stream,
                       "cannot launch what comes before a further combine", why);
  }
  if (rc == 0)
    rc = cuda_launched(ep, cuda_launch_combine(&args, blocks(ep, c->processors), cuda_early(ep), stream), stream,
                       "cannot launch combine", why);
  rc = cuda_launched_all(ep, before, NULL, rc, stream, why);
  cuda_leave(&guard);
  return rc;
}

int cuda_ep_finish(struct device_ep *ep, void *stream, char *why) {
  const struct cuda_finish_args args = {.state = ep->state, .layout = ep->layout};
  struct cuda_guard guard;
  int rc = cuda_enter_stream(ep, stream, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_launched(ep, cuda_launch_finish(&args, ep->options.throughput ? 1 : blocks(ep, 0), stream), stream,
                     "cannot launch finish", why);
  cuda_leave(&guard);
  return rc;
}

int cuda_ep_read_masks(struct device_ep *ep, int32_t *ranks, uint32_t count, uint64_t masked, bool replays,
                       void *stream, char *why) {
  const struct cuda_masks_args args = {
      .state = ep->state, .ranks = ranks, .count = count, .masked = masked, .replays = replays};
  const struct cuda_argument list[] = {{"masked", ranks, sizeof *ranks, true}};
  struct cuda_guard guard;
  int rc = cuda_enter_stream(ep, stream, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_check_arguments(ep, list, CUDA_COUNT(list), why);
  if (rc == 0)
    rc = cuda_launched(ep, cuda_launch_masks(&args, stream), stream, "cannot launch the reading of masks", why);
  cuda_leave(&guard);
  return rc;
}

int cuda_ep_record(struct device_ep *ep, uint64_t op, struct device_record *record, char *why) {
  struct device_record *copy = &ep->host->record;
  struct cuda_guard guard;
  int rc = cuda_enter(ep->device, &guard, why);
  if (rc != 0)
    return rc;
  rc = cuda_get(ep, copy, &ep->state->record[op % CUDA_RECORDS], sizeof *copy, "reading what an operation did", why);
  if (rc == 0 && (copy->op != op || copy->kind == 0))
    rc = cuda_why(why, WEFT_ERR_NOT_FOUND, "operation %llu has not ended, or is too old: the newest two are kept",
                  (unsigned long long)op);
  if (rc == 0 && ep->options.throughput)
    rc = cuda_flow_record(ep, op, copy, why);
  *record = *copy;
  cuda_leave(&guard);
  return rc;
}

int cuda_ep_missing(struct device_ep *ep, uint64_t op, uint64_t *missing, uint32_t num_tokens, char *why) {
  struct cuda_guard guard;
  if (num_tokens > ep->options.max_tokens)
    return cuda_why(why, WEFT_ERR_INVALID, "num_tokens is %u, more than max_tokens, %u", num_tokens,
                    ep->options.max_tokens);
  int rc = cuda_enter(ep->device, &guard, why);
  if (rc != 0)
    return rc;
  if (ep->options.throughput) {
    rc = cuda_flow_missing(ep, op, missing, num_tokens, why);
    cuda_leave(&guard);
    return rc;
  }
  size_t size = num_tokens * sizeof *missing;
  if (size > 0)
    rc = cuda_get(ep, ep->host->missing, ep->handle[op % CUDA_LIVE].missing, size, "reading what is missing", why);
  for (uint32_t i = 0; rc == 0 && i < num_tokens; i++)
    missing[i] = ep->host->missing[i];
  cuda_leave(&guard);
  return rc;
}
