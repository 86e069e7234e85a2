// Many copies by one kernel.
//
// When a block has made its part, it writes the number of the launch into its word, in host memory that is pinned. The
// host that has seen all words knows that everything was copied, and all devices and processors see it.
#ifndef CUDA_KERNELS_COPIES_H
#define CUDA_KERNELS_COPIES_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "device/device.h"

enum {
  CUDA_COPIES_PIECE = 32 << 10, // bytes that one warp copies at a time: what is larger is cut
  CUDA_COPIES_WARPS = 8,        // of a block
  CUDA_COPIES_WORDS = 1024,     // blocks at most
};

struct cuda_copies_mark {
  uint32_t *words; // [blocks]
  uint32_t number;
};

#ifdef __cplusplus
extern "C" {
#endif
// `pieces`, in device memory; any lengths and alignments.
cudaError_t cuda_copies_launch(const struct device_copy *pieces, uint32_t count, uint32_t blocks,
                               const struct cuda_copies_mark *mark, cudaStream_t stream);
// Brings the kernel to the device, which would wait for what runs if it were done by the first launch.
cudaError_t cuda_copies_load(void);
#ifdef __cplusplus
}
#endif

#endif
