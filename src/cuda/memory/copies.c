// Groups of copies. The copy engines make large copies, or a few of any size; one kernel makes the others. Words in
// pinned host memory say when all copies have been made: the host reads them without a call of the driver, for which
// posting threads would have to wait.
#include "cuda/kernels/copies.h"
#include "cuda/driver/driver.h"
#include "cuda/plugin.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  ENGINE_FROM = 8 << 20, // least bytes of a copy for which the start of the copy engine costs nothing
  ENGINE_COUNT = 8,      // up to so many copies use the engine, since a kernel ends 3 us later (H100)
  LOOKS = 256,           // reads of the words between two calls that ask the driver whether the device has failed
};

struct device_copies {
  struct device *device;
  struct device_copy *large; // for the copy engine
  uint32_t num_large;
  struct device_copy *pieces; // in device memory
  uint32_t num_pieces;
  uint32_t blocks;              // of the kernel; 0: none
  struct cuda_copies_mark mark; // of the last run
  uint32_t seen;                // words of that
  uint32_t looks;
  cudaStream_t stream; // of that
  int failed;          // error of the last run, if it was launched only in part
  char why[DEVICE_WHY];
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

static uint32_t count_blocks(const struct device_copies *copies) {
  uint32_t wanted = (copies->num_pieces + CUDA_COPIES_WARPS - 1) / CUDA_COPIES_WARPS;
  uint32_t most = copies->device->info.processors;
  most = most < CUDA_COPIES_WORDS ? most : CUDA_COPIES_WORDS;
  return wanted < most ? wanted : most;
}

// Copies the list of pieces to the device, which reads it there thousands of times faster than from host memory.
static int place(struct device_copies *copies, const struct device_copy *pieces, char *why) {
  size_t size = copies->num_pieces * sizeof *pieces;
  int rc = cuda_allocate(copies->device, size, (void **)&copies->pieces, why);
  return rc == 0 ? cuda_copy(copies->device, copies->pieces, pieces, size, copies->device->stream, true, why) : rc;
}

// Prepares the other things that a run needs.
static int set_up(struct device_copies *copies, const struct device_copy *pieces, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(copies->device, &guard, why);
  if (rc != 0)
    return rc;
  copies->blocks = count_blocks(copies);
  rc = cuda_mark_take(copies->device, &copies->mark.words, why);
  if (rc == 0 && copies->num_pieces > 0)
    rc = cuda_check(why, cuda_copies_load(), "cannot load the kernel for copies");
  if (rc == 0 && copies->num_pieces > 0)
    rc = place(copies, pieces, why);
  cuda_leave(&guard);
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
    rc = set_up(made, pieces, why);
  }
  free(pieces);
  if (rc == 0)
    *opened = made;
  else
    cuda_copies_close(made);
  return rc;
}

// *begun: number of copies launched.
static int run_large(const struct device_copies *copies, uint32_t *begun, cudaStream_t stream, char *why) {
  cudaError_t error = cudaSuccess;
  for (*begun = 0; *begun < copies->num_large; ++*begun) {
    const struct device_copy *one = &copies->large[*begun];
    error = cudaMemcpyAsync(one->to, one->from, one->size, cudaMemcpyDefault, stream);
    if (error != cudaSuccess)
      break;
  }
  return cuda_check(why, error, "cannot copy");
}

// The kernel after the copy engines marks the end of all copies; without a kernel the stream writes the word itself.
static int run_rest(const struct device_copies *copies, cudaStream_t stream, char *why) {
  if (copies->num_pieces > 0)
    return cuda_check(why,
                      cuda_copies_launch(copies->pieces, copies->num_pieces, copies->blocks, &copies->mark, stream),
                      "cannot launch copies");
  return cuda_check_driver(why,
                           cuda_driver(NULL)->cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)copies->mark.words,
                                                                   copies->mark.number, CU_STREAM_WRITE_VALUE_DEFAULT),
                           "cannot mark the end of copies");
}

int cuda_copies_run(struct device_copies *copies, void *stream, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(copies->device, &guard, why);
  if (rc != 0)
    return rc;
  copies->mark.number++;
  copies->seen = copies->looks = 0;
  copies->stream = stream;
  uint32_t begun;
  rc = run_large(copies, &begun, stream, why);
  if (rc == 0)
    rc = run_rest(copies, stream, why);
  cuda_leave(&guard);
  copies->failed = begun > 0 ? rc : 0;
  if (copies->failed == 0)
    return rc;
  // Earlier copies still write: the error is reported when they have ended.
  snprintf(copies->why, sizeof copies->why, "%s", why);
  return 0;
}

// A device that has failed writes no word.
static int ask_stream(const struct device_copies *copies, bool *passed, char *why) {
  struct cuda_guard guard;
  int rc = cuda_enter(copies->device, &guard, why);
  if (rc != 0)
    return rc;
  cudaError_t error = cudaStreamQuery(copies->stream);
  *passed = error == cudaSuccess;
  if (error == cudaErrorNotReady)
    cudaGetLastError();
  else
    rc = cuda_check(why, error, "copies");
  cuda_leave(&guard);
  return rc;
}

static int failed_passed(const struct device_copies *copies, bool *passed, char *why) {
  int rc = ask_stream(copies, passed, why);
  return rc == 0 && *passed ? cuda_why(why, copies->failed, "%s", copies->why) : rc;
}

int cuda_copies_passed(struct device_copies *copies, bool *passed, char *why) {
  if (copies->failed != 0)
    return failed_passed(copies, passed, why);
  uint32_t words = copies->blocks > 0 ? copies->blocks : 1;
  while (copies->seen < words &&
         __atomic_load_n(&copies->mark.words[copies->seen], __ATOMIC_ACQUIRE) == copies->mark.number)
    copies->seen++;
  *passed = copies->seen == words;
  if (*passed || ++copies->looks % LOOKS != 0)
    return 0;
  return ask_stream(copies, passed, why);
}

void cuda_copies_close(struct device_copies *copies) {
  if (!copies)
    return;
  cuda_release(copies->device, copies->pieces);
  cuda_mark_give(copies->device, copies->mark.words);
  free(copies->large);
  free(copies);
}
