// Ranks in one process, for tests and benchmarks of the kernels. Each rank has a device, or shares it with other ranks,
// and accesses the memory of the others directly.
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
  uint32_t devices = 8;    // the most devices to use
  uint32_t blocks = 0;     // of each kernel; 0: the rank's share of its device
  uint32_t halves = 0;     // a kernel for each half of dispatch and combine
  uint32_t early = 1;      // see launch.h; only if no ranks share a device
  uint32_t strict = 0;     // see layout.h
  uint32_t late = 0;       // the weights come with the combine
  uint32_t coded = 0;      // a combine travels as logfmt10
  uint32_t away = 0;       // not 0: one token in `away` stays on its rank, all others go to the next rank
  int dtype = CUDA_FP8;
};

struct rank {
  uint32_t index;
  int device;
  cudaStream_t stream;
  std::vector<char *> areas; // one for each member, which writes it
  cuda_state *state;
  device_report *report;
  uint16_t *x, *y, *out;
  float *given_scales; // of x, which then is e4m3; or NULL
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
  uint32_t rows, capacity, parts; // rows: of each part of the receive buffer, an expert's or the rank's
  bool before_hopper = false;     // the kernels are made for devices before Hopper
  std::vector<int32_t> active;
  std::vector<rank> ranks;

  explicit group(const struct shape &shape);
  ~group();
  group(const group &) = delete;

  // Writes rank `r`'s version of the view of the first `members` ranks.
  void fill_view(const rank &r, cuda_view &view, uint64_t epoch, uint32_t members) const;
  // Makes the rank begin with operation `op` in the view of `epoch`, which it has already.
  void begin(const rank &r, uint64_t op, uint64_t epoch) const;
  // Runs `work` for each rank in a separate thread, with the rank's device current.
  void each(const std::function<void(rank &)> &work);
  // Makes the rank's input to operation `op`, which depends on both numbers.
  input make_input(uint32_t index, uint64_t op, float drop, bool uneven) const;
  // Copies the input to the device, and poisons the rank's outputs.
  void upload(rank &r, const input &in) const;
  void dispatch(rank &r) const;
  void dispatch_halves(rank &r, uint32_t halves) const; // these halves, DEVICE_SEND or DEVICE_RECV, in one kernel
  void combine(rank &r) const;
  void end(rank &r) const; // without a combine
  // Waits for the rank's stream.
  void finish(const rank &r) const;
  // Computes y from the received rows, in the rank's stream: the experts are the identity. For PER_EXPERT.
  void run_experts(rank &r) const;
  // The members that the rank has lost, as bits.
  uint64_t lost(const rank &r) const;
  // The record of operation `op`, which must be one of the newest CUDA_RECORDS.
  device_record record(const rank &r, uint64_t op) const;
  void set_timeout(rank &r, uint64_t timeout_ns) const;
};

// Reads options of the form name=number into the shape. False: there is no such option.
bool shape_option(struct shape &shape, const char *argument);
void shape_print(const struct shape &shape);

#endif
