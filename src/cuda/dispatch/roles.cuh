// Which blocks and warps of a dispatch do what.
#ifndef CUDA_DISPATCH_ROLES_CUH
#define CUDA_DISPATCH_ROLES_CUH

#include "cuda/kernels/snapshot.cuh"

// A part of the blocks sends rows, a few send metadata, and the others only receive: what a processor loads queues
// behind what it stores to other GPUs (0.9 us, for routing of a hundred rows), and a thread that waits for values waits
// for all loads of its warp. Where there are few blocks, each has warps for all of it.
//
// A sender has one packet under way, so it takes many to fill the links. But headers travel on the same links and wait
// behind all that was sent before them: so no more warps send than are needed, three packets each where there are few.
// One packet more for some would be a round more for all.
enum {
  SENDING_PART = 3,
  METADATA_PART = 20,
  SENDERS = 12, // warps of a block that sends, at most
  LEAST_SENDERS = 4,
  PACKETS_OF_SENDER = 3, // where that takes no more than SENDERS
  SENDERS_AMONG_FEW = 2,
};
enum { BARRIER_RECEIVE = 1, BARRIER_METADATA };

struct roles {
  role sending, sending_metadata, receiving;

  // `packets`: of this rank's tokens.
  __device__ __forceinline__ explicit roles(bool sends, uint32_t packets)
      : sending{0, 0, 0, 0, 0}, sending_metadata{0, 0, 0, 0, 0}, receiving{0, gridDim.x, 0, WARPS, BARRIER_RECEIVE} {
    if (!sends)
      return;
    if (gridDim.x < FEW_BLOCKS) {
      sending = {0, gridDim.x, 0, SENDERS_AMONG_FEW, 0};
      sending_metadata = receiving = {0, gridDim.x, SENDERS_AMONG_FEW, WARPS - SENDERS_AMONG_FEW, BARRIER_RECEIVE};
      return;
    }
    uint32_t part = gridDim.x / SENDING_PART, apart = max(gridDim.x / METADATA_PART, 1);
    uint32_t senders = (packets + part * PACKETS_OF_SENDER - 1) / (part * PACKETS_OF_SENDER);
    sending = {0, part, 0, min(max(senders, (uint32_t)LEAST_SENDERS), (uint32_t)SENDERS), 0};
    sending_metadata = {part, apart, 0, WARPS, BARRIER_METADATA};
    receiving.first_block = part + apart;
    receiving.blocks = gridDim.x - part - apart;
  }
};

#endif
