// The smaller kernels: the begin of the first operation, waking links, the end of an operation without a combine, what
// comes before a further combine, and reading masks.
#include "cuda/kernels/activate.cuh"
#include "cuda/kernels/empty.cuh"
#include "cuda/kernels/launch.h"

namespace {

enum { BEGIN_THREADS = 128, WAKING_LINES = 2048, FINISH_THREADS = 512, FINISH_BLOCKS = 32 };

// A link between GPUs sleeps after about ten milliseconds without traffic. The first access over it then takes 0.1 ms,
// also for a running rank in the middle of an operation. The lines of an area are spread over all links. So this
// function reads lines all over each peer's area; their contents do not matter.
__device__ uint64_t touch_links(const cuda_begin_args &args) {
  uint64_t lines = args.area / CUDA_LINE, step = lines / WAKING_LINES + 1, sum = 0;
  for (uint32_t i = 0; i < args.count; i++)
#pragma unroll 4
    for (uint64_t line = threadIdx.x * step; line < lines; line += blockDim.x * step)
      sum += ptx::load_volatile((const uint64_t *)(args.out[i] + line * CUDA_LINE));
  return sum;
}

__global__ void wake_links(const __grid_constant__ cuda_begin_args args) {
  if (touch_links(args) == 1) // never true in practice; makes the compiler keep all loads
    args.result->op = 1;
}

// Returns the earliest operation that any accepted peer has published, + 1, and its epoch. Peers may have published
// different operations if a rank died while they fixed it; then the earliest is valid.
__device__ uint64_t find_start(const cuda_begin_args &args, uint64_t *epoch) {
  uint64_t first = 0;
  for (uint32_t i = 0; i < args.count; i++) {
    uint4 unit = ptx::load_unit(&((const cuda_area_head *)args.in[i])->start);
    uint64_t op = (uint64_t)unit.y << 32 | unit.x;
    if (unit.w != 1 || (first != 0 && op >= first) || !(args.takes >> i & 1))
      continue;
    first = op;
    *epoch = unit.z;
  }
  return first;
}

__device__ void publish_awaits(const cuda_begin_args &args, uint64_t word) {
  for (uint32_t i = 0; i < args.count; i++)
    ptx::store_relaxed(&((cuda_area_head *)args.out[i])->awaits, word);
}

__device__ uint64_t load_awaits(const cuda_begin_args &args, uint32_t i) {
  return ptx::load_volatile(&((const cuda_area_head *)args.in[i])->awaits);
}

// Whether a peer that awaits its first operation has written something new.
__device__ bool has_news(const cuda_begin_args &args) {
  for (uint32_t i = 0; i < args.count; i++)
    if (load_awaits(args, i) != args.known[i])
      return true;
  return false;
}

__device__ bool await_start(const cuda_begin_args &args, uint64_t *op, uint64_t *epoch) {
  uint64_t begin = ptx::time_ns(), first;
  publish_awaits(args, args.awaits);
  while ((first = find_start(args, epoch)) == 0) {
    if (has_news(args) || ptx::time_ns() - begin > args.timeout_ns) {
      for (uint32_t i = 0; i < args.count; i++)
        args.result->awaits[i] = load_awaits(args, i);
      return false;
    }
    __nanosleep(200);
  }
  ptx::fence_system();
  first = find_start(args, epoch); // an earlier start was published before the one that was found
  *op = first - 1;
  return true;
}

__device__ uint32_t await_published(const cuda_begin_args &args, uint64_t epoch) {
  uint64_t begin = ptx::time_ns();
  uint32_t slot;
  while ((slot = find_published(args.state, epoch)) == NOT_PUBLISHED) {
    __nanosleep(200);
    if (ptx::time_ns() - begin > args.timeout_ns)
      break;
  }
  return slot;
}

__global__ void begin(const __grid_constant__ cuda_begin_args args) {
  cuda_state *state = args.state;
  uint64_t op = args.op, epoch = args.epoch;
  // Slow work is done before the wait, since the other ranks wait for this one from its first operation on.
  for (device_record &record : state->record)
    clear(&record, threadIdx.x, blockDim.x);
  for (cuda_votes &votes : state->votes)
    clear(&votes, threadIdx.x, blockDim.x);
  touch_links(args); // keeps the links awake; the values are not used
  __syncthreads();
  if (threadIdx.x != 0)
    return;
  state->arrived = 0;
  bool found = op != CUDA_AWAIT || await_start(args, &op, &epoch);
  args.result->op = op;
  args.result->epoch = found ? epoch : 0;
  uint32_t slot = found ? await_published(args, epoch) : (uint32_t)NOT_PUBLISHED;
  if (slot == NOT_PUBLISHED)
    return;
  cuda_view &live = state->live[0], &none = state->live[1];
  none.count = 0;
  make_live(live, state->published[slot], none, op, 0, 1);
  cuda_counters &counters = state->counters;
  counters.sent = counters.received = counters.answered = counters.combined = op;
  counters.emptied_rows = counters.emptied_answers = op;
  counters.lost = 0;
  counters.given_up = ptx::load_volatile(&state->control.gone);
  counters.newest = 0;
  state->heartbeats.own = live.self < live.count ? 1ull << live.members[live.self].seat : 0;
  for (uint8_t &index : counters.live)
    index = 0;
  notify_joiners(state, none, live, op); // a rank that died may have notified only some of the joiners
  publish_awaits(args, 0);
  report_activation(state, op, live.epoch);
  args.result->begun = 1;
  ptx::fence_system();
}

// Ends an operation and empties its places, as a combine would.
__global__ void __launch_bounds__(FINISH_THREADS, 1) finish(const __grid_constant__ cuda_finish_args args) {
  __shared__ snapshot snapshot;
  constexpr steps STEPS = {false, false, true, true, false, false, false, 0};
  const role all = {0, gridDim.x, 0, FINISH_THREADS / WARP, 0};
  ptx::kernel_wait();
  const snapshot_part<FINISH_THREADS> part(args.state);
  part.put(snapshot);
  __syncthreads();
  if (threadIdx.x / WARP == 0) {
    if (blockIdx.x == gridDim.x - 1) {
      publish(snapshot, args.state, STEPS);
      if (snapshot.handle[snapshot.counters.combined % CUDA_LIVE].kept == 0)
        args.state->handle[snapshot.counters.combined % CUDA_LIVE].tokens = 0; // no answers will come
    }
    arrive(snapshot, args.state, STEPS);
  }
  empty_read(args.layout, args.state, snapshot, warp_set(all));
}

// Runs before a further combine of an operation: empties the places of the previous combine's answers, and resets the
// counts. The kernel of the combine, which follows, gives the credit to the peers.
__global__ void __launch_bounds__(FINISH_THREADS, 1) reopen(const __grid_constant__ cuda_finish_args args) {
  __shared__ snapshot snapshot;
  const role all = {0, gridDim.x, 0, FINISH_THREADS / WARP, 0};
  ptx::kernel_wait();
  const snapshot_part<FINISH_THREADS> part(args.state);
  part.put(snapshot);
  __syncthreads();
  uint64_t op = snapshot.counters.combined + args.ahead;
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
    device_record &record = args.state->record[op % CUDA_RECORDS];
    args.state->votes[op % CUDA_LIVE].answers = 0;
    record.missing = record.answered_rows = 0;
    record.combine_lost = 0;
  }
  empty_answers(args.layout, snapshot, op, warp_set(all));
}

// Writes the masked seats as ranks, for the view in which the next dispatch runs.
__global__ void masks(const __grid_constant__ cuda_masks_args args) {
  const cuda_state *state = args.state;
  const cuda_counters &counters = state->counters;
  const cuda_view &view = state->live[counters.live[counters.sent % CUDA_LIVE]];
  uint64_t masked = args.replays ? state->control.masked : args.masked;
  for (uint32_t i = threadIdx.x; i < args.count; i += blockDim.x)
    args.ranks[i] = 0;
  __syncthreads();
  for (uint32_t m = threadIdx.x; m < view.count; m += blockDim.x)
    if (view.members[m].seat < DEVICE_SEATS && masked >> view.members[m].seat & 1 &&
        (uint32_t)view.members[m].rank < args.count)
      args.ranks[view.members[m].rank] = 1;
}

} // namespace

int cuda_launch_begin(const struct cuda_begin_args *args, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch((const void *)begin, params, 1, BEGIN_THREADS, 0, false, stream);
}

int cuda_launch_wake_links(const struct cuda_begin_args *args, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch((const void *)wake_links, params, 1, BEGIN_THREADS, 0, false, stream);
}

int cuda_launch_finish(const struct cuda_finish_args *args, uint32_t blocks, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch((const void *)finish, params, blocks < FINISH_BLOCKS ? blocks : (uint32_t)FINISH_BLOCKS,
                     FINISH_THREADS, 0, false, stream);
}

int cuda_launch_reopen(const struct cuda_finish_args *args, uint32_t blocks, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch((const void *)reopen, params, blocks < FINISH_BLOCKS ? blocks : (uint32_t)FINISH_BLOCKS,
                     FINISH_THREADS, 0, false, stream);
}

int cuda_launch_masks(const struct cuda_masks_args *args, cudaStream_t stream) {
  void *params[] = {(void *)args};
  return (int)launch((const void *)masks, params, 1, BEGIN_THREADS, 0, false, stream);
}

int cuda_launch_load(bool *early) {
  *early = true;
  int rc = (int)load((const void *)begin, early);
  if (rc == cudaSuccess)
    rc = (int)load((const void *)wake_links, early);
  if (rc == cudaSuccess)
    rc = (int)load((const void *)finish, early);
  if (rc == cudaSuccess)
    rc = (int)load((const void *)reopen, early);
  if (rc == cudaSuccess)
    rc = (int)load((const void *)masks, early);
  if (rc == cudaSuccess)
    rc = cuda_load_dispatch(early);
  if (rc == cudaSuccess)
    rc = cuda_load_combine(early);
  if (rc == cudaSuccess)
    rc = cuda_load_control(early);
  if (rc == cudaSuccess)
    rc = cuda_load_lists(early);
  if (rc == cudaSuccess)
    rc = cuda_load_compare(early);
  return rc == cudaSuccess ? cuda_load_throughput(early) : rc;
}
