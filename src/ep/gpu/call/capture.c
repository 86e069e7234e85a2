// Operations and captures of the caller's stream: captured launches do not run yet.
#include "base/fail.h"
#include "ep/gpu/call/op.h"

int ep_gpu_find_capture(weft_ep_t *ep, void *stream, const char *call, uint64_t *capture) {
  char why[DEVICE_WHY] = "";
  *capture = 0;
  if (!ep->gpu->api->stream_capture)
    return 0;
  int rc = ep->gpu->api->stream_capture(stream, capture, why);
  return rc == 0 ? 0 : fail(rc, "%s: the stream: %s", call, why);
}

int ep_gpu_op_outside(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call, bool *outside) {
  uint64_t capture = 0;
  int rc = ep_gpu_op_captured(op) ? ep_gpu_find_capture(ep, stream, call, &capture) : 0;
  *outside = ep_gpu_op_captured(op) && capture == 0;
  return rc;
}

int ep_gpu_op_check_runs(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call) {
  uint64_t capture;
  int rc = ep_gpu_find_capture(ep, stream, call, &capture);
  if (rc != 0 || capture == 0)
    return rc;
  return fail(WEFT_ERR_INVALID,
              "%s: operation %llu began outside of a capture, but the stream is being captured: end the operation "
              "before the capture",
              call, (unsigned long long)op->number);
}

int ep_gpu_op_check_inside(weft_ep_t *ep, const struct gpu_op *op, void *stream, const char *call) {
  bool outside;
  if (!ep_gpu_op_captured(op))
    return ep_gpu_op_check_runs(ep, op, stream, call);
  int rc = ep_gpu_op_outside(ep, op, stream, call, &outside);
  if (rc != 0 || !outside)
    return rc;
  return fail(WEFT_ERR_INVALID,
              "%s: the operation began in a capture, but the stream is not being captured: a graph has to end the "
              "operations that it begins",
              call);
}

int ep_gpu_check_results(bool captures, bool results, const char *call) {
  if (!captures || !results)
    return 0;
  return fail(WEFT_ERR_INVALID,
              "%s: no result is known while the stream is being captured: call weft_ep_await after a replay", call);
}
