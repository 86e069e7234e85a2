// Copies that belong together: large ones by the copy engines, the others by one kernel.
#include "cuda/kernels/copies.h"
#include "cuda/plugin.h"

#include <stdlib.h>

enum {
  ENGINE_FROM = 8 << 20, // bytes of a copy from which on the copy engine's start costs nothing
  ENGINE_COUNT = 8,      // so few copies are not worth a kernel
};

struct device_copies {
  struct device *device;
  struct device_copy *large; // by the copy engine
  uint32_t num_large;
  struct device_copy *pieces; // in device memory
  uint32_t num_pieces;
  uint32_t blocks;
};

static bool for_engine(const struct device_copy *copy, uint32_t count) {
  return copy->size >= ENGINE_FROM || count <= ENGINE_COUNT;
}

static uint64_t count_pieces(const struct device_copy *copies, uint32_t count) {
  uint64_t pieces = 0;
  for (uint32_t i = 0; i < count; i++)
    if (!for_engine(&copies[i], count))
      pieces += (copies[i].size + CUDA_COPIES_PIECE - 1) / CUDA_COPIES_PIECE;
  return pieces;
}

static void cut(const struct device_copy *copies, uint32_t count, struct device_copies *out,
                struct device_copy *pieces) {
  for (uint32_t i = 0; i < count; i++) {
    if (for_engine(&copies[i], count)) {
      out->large[out->num_large++] = copies[i];
      continue;
    }
    for (uint64_t at = 0; at < copies[i].size; at += CUDA_COPIES_PIECE) {
      uint64_t left = copies[i].size - at;
      pieces[out->num_pieces++] = (struct device_copy){.to = (char *)copies[i].to + at,
                                                       .from = (const char *)copies[i].from + at,
                                                       .size = left < CUDA_COPIES_PIECE ? left : CUDA_COPIES_PIECE};
    }
  }
}

// The pieces go to the device, which reads them there thousands of times faster than from here.
static int place(struct device_copies *copies, const struct device_copy *pieces, char *why) {
  size_t size = copies->num_pieces * sizeof *pieces;
  uint32_t wanted = (copies->num_pieces + CUDA_COPIES_WARPS - 1) / CUDA_COPIES_WARPS;
  uint32_t most = copies->device->info.processors;
  copies->blocks = wanted < most ? wanted : most;
  struct cuda_guard guard;
  int rc = cuda_enter(copies->device, &guard, why);
  if (rc == 0) {
    rc = cuda_check(why, cuda_copies_load(), "cannot load the kernel for copies");
    cuda_leave(&guard);
  }
  if (rc == 0)
    rc = cuda_allocate(copies->device, size, (void **)&copies->pieces, why);
  if (rc == 0)
    rc = cuda_copy(copies->device, copies->pieces, pieces, size, copies->device->stream, true, why);
  return rc;
}

int cuda_copies_open(struct device *device, const struct device_copy *copies, uint32_t count,
                     struct device_copies **opened, char *why) {
  uint64_t num_pieces = count_pieces(copies, count);
  if (num_pieces > UINT32_MAX)
    return cuda_why(why, WEFT_ERR_LIMIT, "%u copies make more than 2^32 pieces: want fewer bytes", count);
  struct device_copies *made = calloc(1, sizeof *made);
  struct device_copy *pieces = calloc(num_pieces + 1, sizeof *pieces);
  int rc = 0;
  if (made) {
    made->device = device;
    made->large = calloc(count + 1, sizeof *made->large);
  }
  if (!made || !made->large || !pieces)
    rc = cuda_why(why, WEFT_ERR_NOMEM, "no memory for %u copies", count);
  if (rc == 0) {
    cut(copies, count, made, pieces);
    if (made->num_pieces > 0)
      rc = place(made, pieces, why);
  }
  free(pieces);
  if (rc == 0)
    *opened = made;
  else
    cuda_copies_close(made);
  return rc;
}

static int run(const struct device_copies *copies, cudaStream_t stream, char *why) {
  for (uint32_t i = 0; i < copies->num_large; i++) {
    const struct device_copy *one = &copies->large[i];
    cudaError_t error = cudaMemcpyAsync(one->to, one->from, one->size, cudaMemcpyDefault, stream);
    if (error != cudaSuccess)
      return cuda_check(why, error, "cannot copy");
  }
  if (copies->num_pieces == 0)
    return 0;
  return cuda_check(why, cuda_copies_launch(copies->pieces, copies->num_pieces, copies->blocks, stream),
                    "cannot launch copies");
}

int cuda_copies_run(struct device_copies *copies, void *stream, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(copies->device, &guard, why);
  if (rc != 0)
    return rc;
  rc = run(copies, stream, why);
  cuda_leave(&guard);
  return rc;
}

void cuda_copies_close(struct device_copies *copies) {
  if (!copies)
    return;
  cuda_release(copies->device, copies->pieces);
  free(copies->large);
  free(copies);
}

int cuda_pin_caller(void *memory, uint64_t size, char *why) {
  struct cuda_guard guard;
  bool entered = cuda_enter_any(&guard) == 0;
  cudaError_t error = cudaHostRegister(memory, size, cudaHostRegisterPortable);
  if (entered)
    cuda_leave(&guard);
  if (error == cudaErrorHostMemoryAlreadyRegistered) {
    cudaGetLastError();
    return cuda_why(why, WEFT_ERR_EXISTS, "%p is pinned already", memory);
  }
  return cuda_check(why, error, "cannot pin host memory");
}

void cuda_unpin_caller(void *memory) {
  struct cuda_guard guard;
  bool entered = cuda_enter_any(&guard) == 0;
  cudaHostUnregister(memory);
  cudaGetLastError();
  if (entered)
    cuda_leave(&guard);
}
