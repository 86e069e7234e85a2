// Checks of arguments that need no operation, for all memory: types and strides.
#include "base/fail.h"
#include "ep/core/args.h"
#include "ep/core/engine.h"

struct ep_form ep_form_of(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  enum weft_ep_dtype dtype = args->dtype ? args->dtype : ep->dtype;
  if (dtype == WEFT_EP_OPAQUE)
    return (struct ep_form){dtype, args->row_bytes, args->scale_bytes};
  return ep_layout_form(&ep->layout, dtype);
}

enum { OPAQUE_UNIT = 16 }; // unit of row_bytes, so that scales behind the values, and copies of GPUs, are aligned

// Checks that the sizes for opaque rows are given with opaque rows, and only then.
static int check_opaque(const struct weft_ep_dispatch_args *args) {
  if (args->dtype != WEFT_EP_OPAQUE) {
    if (args->row_bytes || args->scale_bytes)
      return fail(
          WEFT_ERR_INVALID,
          "dispatch: %s is %u, but dtype is not OPAQUE: with other types the size of a row follows from the type",
          args->row_bytes ? "row_bytes" : "scale_bytes", args->row_bytes ? args->row_bytes : args->scale_bytes);
    return args->x_dtype != WEFT_EP_OPAQUE ? 0
                                           : fail(WEFT_ERR_INVALID, "dispatch: x_dtype is OPAQUE, and dtype is not");
  }
  if (args->row_bytes == 0 || args->row_bytes % OPAQUE_UNIT != 0)
    return fail(WEFT_ERR_INVALID, "dispatch: row_bytes is %u; with dtype OPAQUE it must be a multiple of %d, and not 0",
                args->row_bytes, OPAQUE_UNIT);
  if (args->scale_bytes % sizeof(uint32_t) != 0)
    return fail(WEFT_ERR_INVALID, "dispatch: scale_bytes is %u; it must be a multiple of %zu", args->scale_bytes,
                sizeof(uint32_t));
  if (args->num_tokens > 0 && (args->scales != NULL) != (args->scale_bytes > 0))
    return fail(WEFT_ERR_INVALID, "dispatch: scale_bytes is %u, but scales is %s", args->scale_bytes,
                args->scales ? "given" : "NULL");
  return 0;
}

static int check_types(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args, const struct ep_form *form) {
  const struct ep_layout *layout = &ep->layout;
  uint64_t bytes = (uint64_t)form->value_bytes + form->scale_bytes;
  if (bytes > layout->value_bytes + layout->scale_bytes)
    return fail(
        WEFT_ERR_INVALID,
        "dispatch: rows of dtype %d take %llu bytes, but the group was opened for dtype %d, whose rows take %zu",
        (int)form->dtype, (unsigned long long)bytes, (int)ep->dtype, layout->value_bytes + layout->scale_bytes);
  if (args->scales && form->dtype == WEFT_EP_BF16)
    return fail(WEFT_ERR_INVALID, "dispatch: scales are given, but the rows are bf16, which has no scales");
  bool as_given = args->scales || form->dtype == WEFT_EP_OPAQUE;
  if (args->x_dtype && args->x_dtype != (as_given ? form->dtype : WEFT_EP_BF16))
    return ep_unsupported("dispatch", "an x_dtype other than bf16, or than the rows' dtype with scales",
                          "leave it 0, and cast x before the call");
  if (args->topk > layout->topk)
    return fail(WEFT_ERR_INVALID, "dispatch: topk is %u, but the group was opened for %u at most", args->topk,
                layout->topk);
  return 0;
}

int ep_check_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args) {
  struct ep_form form = ep_form_of(ep, args);
  int rc = check_opaque(args);
  if (rc == 0)
    rc = check_types(ep, args, &form);
  if (rc != 0)
    return rc;
  bool as_it_travels = form.dtype == WEFT_EP_BF16 || form.dtype == WEFT_EP_OPAQUE || args->scales;
  uint64_t row_bytes = as_it_travels ? form.value_bytes : 2 * (uint64_t)ep->layout.hidden;
  if (args->row_stride && (args->row_stride < row_bytes || args->row_stride % sizeof(uint16_t) != 0))
    return fail(WEFT_ERR_INVALID, "dispatch: row_stride is %llu; it must be even, and a row of x takes %llu bytes",
                (unsigned long long)args->row_stride, (unsigned long long)row_bytes);
  if ((args->scale_row_stride || args->scale_block_stride) && !args->scales)
    return fail(WEFT_ERR_INVALID, "dispatch: strides of scales are given, but scales is NULL");
  return 0;
}

int ep_check_recv(weft_ep_t *ep, const struct weft_ep_recv_args *recv) {
  (void)ep;
  if ((recv->scale_row_stride || recv->scale_block_stride || recv->scale_expert_stride) && !recv->scales)
    return fail(WEFT_ERR_INVALID, "dispatch_recv: strides of scales are given, but scales is NULL");
  if (recv->scale_expert_stride && (recv->layout == WEFT_EP_RANK_MAJOR || recv->layout == WEFT_EP_PACKED))
    return fail(WEFT_ERR_INVALID,
                "dispatch_recv: scale_expert_stride is given, but rows in the layout %s have no parts",
                recv->layout == WEFT_EP_PACKED ? "PACKED" : "RANK_MAJOR");
  return 0;
}

int ep_check_combine(weft_ep_t *ep, const struct weft_ep_combine_args *args, const char *call) {
  if (!args->dtype || ep_layout_combine_bytes(&ep->layout, args->dtype) <= ep->layout.combine_bytes)
    return 0;
  return fail(WEFT_ERR_INVALID,
              "%s: rows of dtype %d take %zu bytes, but the group was opened for dtype %d, whose rows take %zu", call,
              (int)args->dtype, ep_layout_combine_bytes(&ep->layout, args->dtype), (int)ep->combine_dtype,
              ep->layout.combine_bytes);
}
