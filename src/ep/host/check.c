// What the engine on host memory does not do yet of weft/ep.h: refused, with what it does instead.
#include "base/fail.h"
#include "ep/core/args.h"
#include "ep/host/host.h"

// The first field of a list that is set.
struct field {
  const char *name;
  bool set;
};

static int refuse(const char *call, const struct field *fields, size_t count, const char *instead) {
  for (size_t i = 0; i < count; i++)
    if (fields[i].set)
      return ep_unsupported(call, fields[i].name, instead);
  return 0;
}

int ep_host_check_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  enum weft_ep_dtype x_dtype = args->scales ? ep->dtype : WEFT_EP_BF16;
  const struct field fields[] = {
      {"a dtype other than that of the group", args->dtype && args->dtype != ep->dtype},
      {"an x_dtype other than bf16, or than the group's dtype with scales", args->x_dtype && args->x_dtype != x_dtype},
      {"a topk other than that of the group", args->topk && args->topk != ep->layout.topk},
      {"topk_idx32", args->topk_idx32},
      {"num_tokens_at", args->num_tokens_at},
      {"row_stride", args->row_stride},
      {"scale_row_stride", args->scale_row_stride},
      {"scale_block_stride", args->scale_block_stride},
      {"RECYCLE", args->flags & WEFT_EP_DISPATCH_RECYCLE},
  };
  int rc = refuse("dispatch", fields, sizeof fields / sizeof *fields, "leave it 0");
  if (rc != 0)
    return rc;
  if (args->scales && ep->dtype == WEFT_EP_BF16)
    return fail(WEFT_ERR_INVALID, "dispatch: scales are given, but the group dispatches bf16, which has none");
  return 0;
}

int ep_host_check_recv(weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  const struct field fields[] = {
      {"told", recv->told},
      {"lost", recv->lost},
      {"KEEP_PLACES", recv->flags & WEFT_EP_RECV_KEEP_PLACES},
      {"scale_row_stride", recv->scale_row_stride},
      {"scale_block_stride", recv->scale_block_stride},
      {"scale_expert_stride", recv->scale_expert_stride},
  };
  int rc = refuse("dispatch_recv", fields, sizeof fields / sizeof *fields, "leave it 0");
  if (rc != 0)
    return rc;
  if (recv->x && recv->rows > 0 && ep->dtype != WEFT_EP_BF16 && !recv->scales)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: scales is NULL, and the group dispatches fp8");
  return 0;
}

int ep_host_check_combine(weft_ep_t *ep, const struct weft_ep_combine_args *args, const char *call) {
  const struct field fields[] = {
      {"a dtype other than that of the group", args->dtype && args->dtype != ep->combine_dtype},
      {"KEEP", args->flags & WEFT_EP_COMBINE_KEEP},
  };
  return refuse(call, fields, sizeof fields / sizeof *fields, "leave it 0");
}
