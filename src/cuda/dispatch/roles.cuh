// The roles of the blocks and warps of a dispatch.
#ifndef CUDA_DISPATCH_ROLES_CUH
#define CUDA_DISPATCH_ROLES_CUH

#include "cuda/kernels/snapshot.cuh"

// Some blocks send rows, a few send metadata, and the others only receive. Reasons: loads of a processor queue behind
// its stores to other GPUs (0.9 us for the routing of a hundred rows), and a thread that waits for values waits for all
// loads of its warp. If there are few blocks, each has warps for all roles.
//
// A sender has one packet in flight, so many senders are needed to saturate the links. But headers use the same links
// and wait behind all earlier data. So no more warps send than are needed; if there are few packets, each warp sends
// three. One more packet for some warps would mean one more round for all.
enum {
  SENDING_PART = 3,
  METADATA_PART = 20,
  SENDERS = 12, // most sending warps of a block
  LEAST_SENDERS = 4,
  PACKETS_OF_SENDER = 3, // if this needs no more than SENDERS warps
  SENDERS_AMONG_FEW = 2,
};
enum { BARRIER_RECEIVE = 1, BARRIER_METADATA };

struct roles {
  role sending, sending_metadata, receiving;

  // `packets`: number of packets of this rank's tokens.
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
