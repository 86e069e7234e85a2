// Many copies by one kernel.
//
// When a block has finished its part, it writes the number of the launch into its word, which is in pinned host memory.
// When the host has seen all words, everything has been copied, and all devices and processors see it.
#ifndef CUDA_KERNELS_COPIES_H
#define CUDA_KERNELS_COPIES_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "device/device.h"

enum {
  CUDA_COPIES_PIECE = 32 << 10, // bytes that one warp copies at a time: larger copies are divided
  CUDA_COPIES_WARPS = 8,        // warps of a block
  CUDA_COPIES_WORDS = 1024,     // blocks at most
};

struct cuda_copies_mark {
  uint32_t *words; // [blocks]
  uint32_t number;
};

#ifdef __cplusplus
extern "C" {
#endif
// `pieces` is in device memory; any lengths and alignments.
cudaError_t cuda_copies_launch(const struct device_copy *pieces, uint32_t count, uint32_t blocks,
                               const struct cuda_copies_mark *mark, cudaStream_t stream);
// Loads the kernel on the device. Otherwise the first launch would load it, and would wait for running kernels.
cudaError_t cuda_copies_load(void);
#ifdef __cplusplus
}
#endif

#endif
