// Which combine of which operation a launch does, and whether its places are free.
#ifndef CUDA_COMBINE_ROOM_CUH
#define CUDA_COMBINE_ROOM_CUH

#include "cuda/kernels/snapshot.cuh"

// The number of earlier operations that are still open.
__device__ __forceinline__ uint32_t ahead_of(const cuda_combine_args &args) {
  return CUDA_OPTION(args.c.ahead) ? args.c.ahead : 0;
}
// The number of earlier combines of the same operation.
__device__ __forceinline__ uint32_t round_of(const cuda_combine_args &args, const snapshot &snapshot, uint64_t op) {
  return CUDA_OPTION(!args.usual) ? snapshot.handle[op % CUDA_LIVE].kept : 0;
}

// Returns the seats of the members that have taken the former contents of this operation's places: the answers of the
// operation two before it or, for a further combine, of the previous combine. [warp]
__device__ __forceinline__ uint64_t await_room(const cuda_combine_args &args, const snapshot &snapshot,
                                               const cuda_view &view, uint64_t op) {
  uint32_t round = round_of(args, snapshot, op);
  uint64_t open = view.seats & ~(snapshot.counters.lost | snapshot.control.gone);
  if (round == 0 && snapshot.counters.taken_combine + 1 >= op)
    return open;
  return await_taken(args.state, view, open, round == 0 ? op - CUDA_DEPTH : op,
                     round == 0 ? op - 1 : cuda_round(op, round),
                     round == 0 ? &cuda_area_head::taken_combine : &cuda_area_head::taken_round);
}

#endif
