// Ranks in one process, for tests and benchmarks of the kernels: each has a device, or shares one with others, and maps
// the others' memory directly.
#ifndef TESTS_CUDA_RANKS_CUH
#define TESTS_CUDA_RANKS_CUH

#include <functional>
#include <vector>

#include <weft/ep.h>

#include "cuda/kernels/launch.h"
#include "cuda/support/devices.cuh"

extern "C" {
#include "ep/oracle/pattern.h"
}

struct shape {
  uint32_t ranks = 4, tokens = 128, hidden = 7168, topk = 8;
  uint32_t experts = 72;   // per rank
  uint32_t stride = 1;     // rank indices are multiples of it
  uint32_t rank_major = 0; // layout
  uint32_t devices = 8;    // to be used at most
  uint32_t blocks = 0;     // of each kernel; 0: what a rank's share of its device allows
  uint32_t halves = 0;     // a kernel for each half of dispatch and combine
  uint32_t early = 1;      // see launch.h; where ranks share no device
  uint32_t strict = 0;     // see layout.h
  uint32_t late = 0;       // the weights come with the combine
  uint32_t coded = 0;      // a combine travels as logfmt10
  uint32_t away = 0;       // not 0: tokens go to the next rank only, but for each one in `away`, which stays
  int dtype = CUDA_FP8;
};

struct rank {
  uint32_t index;
  int device;
  cudaStream_t stream;
  std::vector<char *> areas; // that each member writes
  cuda_state *state;
  device_report *report;
  uint16_t *x, *y, *out;
  float *given_scales; // of x, which is e4m3 then; or NULL
  int64_t *topk_idx;
  float *topk_weights;
  uint32_t num_tokens;
  char *received;
  float *scales;
  int32_t *counts, *src_rank, *src_token, *local_expert;
  int64_t *range;
  float *weights;
  uint64_t *dispatch_trace, *combine_trace;
};

struct input {
  std::vector<uint16_t> x;
  std::vector<int64_t> topk_idx;
  std::vector<float> weights;
  uint32_t num_tokens;
};

struct group {
  struct shape shape;
  cuda_layout layout;
  cuda_forms forms;
  uint32_t rows, capacity, parts; // rows of each part of the receive buffer: an expert's, or the rank's
  bool before_hopper = false;     // the kernels are those for devices before Hopper
  std::vector<int32_t> active;
  std::vector<rank> ranks;

  explicit group(const struct shape &shape);
  ~group();
  group(const group &) = delete;

  // The view of the first `members` ranks, as rank `r` knows it.
  void fill_view(const rank &r, cuda_view &view, uint64_t epoch, uint32_t members) const;
  // The rank begins with operation `op` in the view of `epoch`, which it knows.
  void begin(const rank &r, uint64_t op, uint64_t epoch) const;
  // Runs `work` for each rank, in a thread of its own with the rank's device current.
  void each(const std::function<void(rank &)> &work);
  // The rank's input to operation `op`; a function of both.
  input make_input(uint32_t index, uint64_t op, float drop, bool uneven) const;
  // Copies it to the device, and poisons the rank's outputs.
  void upload(rank &r, const input &in) const;
  void dispatch(rank &r) const;
  void dispatch_halves(rank &r, uint32_t halves) const; // those alone, DEVICE_SEND or DEVICE_RECV, in one kernel
  void combine(rank &r) const;
  void end(rank &r) const; // without a combine
  // Waits for the rank's stream.
  void finish(const rank &r) const;
  // The experts are the identity: makes y from what the rank received. PER_EXPERT. In the rank's stream.
  void run_experts(rank &r) const;
  // Members that the rank lost, by bit.
  uint64_t lost(const rank &r) const;
  // What an operation of the newest did.
  device_record record(const rank &r, uint64_t op) const;
  void set_timeout(rank &r, uint64_t timeout_ns) const;
};

// Reads options of the form name=number into the shape. False: it has none of that name.
bool shape_option(struct shape &shape, const char *argument);
void shape_print(const struct shape &shape);

#endif
