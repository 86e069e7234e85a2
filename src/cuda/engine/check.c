// Checks the arguments of a launch: an access to memory that a kernel cannot use would end all work of the process on
// its device.
#include "cuda/driver/driver.h"
#include "cuda/engine/engine.h"

static int check_memory(const struct device_ep *ep, const struct cuda_argument *a, char *why) {
  struct cudaPointerAttributes is;
  int index = ep->device->index;
  int rc = cuda_check(why, cudaPointerGetAttributes(&is, a->memory), "cannot find the device of an argument");
  if (rc != 0)
    return rc;
  if (is.type == cudaMemoryTypeDevice && is.device != index)
    return cuda_why(why, WEFT_ERR_INVALID, "%s (%p) is memory of device %d: want memory of device %d, the rank's",
                    a->name, a->memory, is.device, index);
  if (is.type == cudaMemoryTypeUnregistered || is.devicePointer != a->memory)
    return cuda_why(why, WEFT_ERR_INVALID, "%s (%p) is memory of the host: want memory of device %d, the rank's",
                    a->name, a->memory, index);
  return 0;
}

static int check(struct device_ep *ep, const struct cuda_argument *a, char *why) {
  if (!a->memory)
    return a->needed
               ? cuda_why(why, WEFT_ERR_INVALID, "%s is NULL: want memory of device %d", a->name, ep->device->index)
               : 0;
  uintptr_t address = (uintptr_t)a->memory;
  if (address % a->align != 0)
    return cuda_why(why, WEFT_ERR_INVALID, "%s (%p) is not aligned: want a multiple of %u bytes", a->name, a->memory,
                    a->align);
  // Memory of the device usually stays allocated as long as launches use it, so known addresses are not checked again.
  // Asking CUDA about an argument takes about a tenth of the time of a launch, and there are up to ten arguments.
  const void **known = &ep->known[(address / 16 ^ address / 4096) % CUDA_KNOWN];
  if (*known == a->memory)
    return 0;
  int rc = check_memory(ep, a, why);
  if (rc == 0)
    *known = a->memory;
  return rc;
}

int cuda_check_arguments(struct device_ep *ep, const struct cuda_argument *list, size_t count, char *why) {
  int rc = 0;
  for (size_t i = 0; i < count && rc == 0; i++)
    rc = check(ep, &list[i], why);
  return rc;
}

int cuda_check_sent(struct device_ep *ep, const struct device_dispatch *d, bool selects, char *why) {
  bool some = d->num_tokens > 0;
  selects &= some;
  const struct cuda_argument list[] = {
      {"x", some ? d->x : NULL, CUDA_PIECE, some},
      {"scales", some ? d->scales : NULL, 4, false},
      {"num_tokens_at", d->num_tokens_at, sizeof *d->num_tokens_at, false},
      {d->narrow ? "topk_idx32" : "topk_idx", selects ? d->topk_idx : NULL,
       d->narrow ? sizeof(int32_t) : sizeof(int64_t), selects},
      {"topk_weights", some ? d->topk_weights : NULL, sizeof *d->topk_weights, false},
  };
  if (d->num_tokens > ep->options.max_tokens)
    return cuda_why(why, WEFT_ERR_INVALID, "num_tokens is %u, more than max_tokens, %u", d->num_tokens,
                    ep->options.max_tokens);
  return cuda_check_arguments(ep, list, CUDA_COUNT(list), why);
}

int cuda_check_received(struct device_ep *ep, const struct device_dispatch *d, bool scales, char *why) {
  const struct cuda_argument list[] = {
      {"recv.x", d->out, CUDA_PIECE, d->rows > 0},
      {"recv.scales", d->out_scales, 4, d->rows > 0 && scales},
      {"recv.counts", d->counts, sizeof *d->counts, true},
      {"recv.src_rank", d->src_rank, sizeof *d->src_rank, false},
      {"recv.src_token", d->src_token, sizeof *d->src_token, false},
      {"recv.range", d->range, sizeof *d->range, false},
      {"recv.local_expert", d->local_expert, sizeof *d->local_expert, false},
      {"recv.weights", d->weights, sizeof *d->weights, false},
      {"recv.expert_total", d->expert_total, sizeof *d->expert_total, false},
      {"recv.wait_ns", d->wait_ns, sizeof *d->wait_ns, false},
      {"recv.status", d->status, sizeof(uint64_t), false},
      {"recv.lost", d->lost, sizeof *d->lost, false},
  };
  return cuda_check_arguments(ep, list, CUDA_COUNT(list), why);
}

int cuda_check_stream(const struct device_ep *ep, void *stream, char *why) {
  const struct cuda_driver *driver = cuda_driver(why);
  CUcontext context = NULL;
  int index = -1;
  if (!driver)
    return WEFT_ERR_UNSUPPORTED;
  CUresult result = driver->cuStreamGetCtx(stream, &context);
  if (!stream && (result != CUDA_SUCCESS || !context))
    return 0; // the thread has used no device yet: this is the default stream of our device
  if (result == CUDA_SUCCESS && context == ep->device->context)
    return 0;
  int rc = cuda_stream_device(stream, &index, why);
  if (rc != 0)
    return rc;
  if (index == ep->device->index)
    return cuda_why(why, WEFT_ERR_INVALID,
                    "the stream belongs to another context of device %d: want one of its primary context", index);
  return cuda_why(why, WEFT_ERR_INVALID, "the stream is one of device %d: want one of device %d, the rank's", index,
                  ep->device->index);
}
