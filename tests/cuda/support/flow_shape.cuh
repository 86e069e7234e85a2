// What ranks of many tokens are tried with.
#ifndef TESTS_CUDA_FLOW_SHAPE_CUH
#define TESTS_CUDA_FLOW_SHAPE_CUH

#include <weft/ep.h>

#include <cstdint>
#include <vector>

enum flow_halves { WHOLE, HALVES, MIXED }; // whose kernels do a single half: nobody's, all ranks', every other rank's

struct flow_shape {
  uint32_t ranks = 2, tokens = 4096, hidden = 7168, topk = 8, experts = 72;
  int dtype = WEFT_EP_BF16; // of rows
  bool casts = false;       // from bf16
  int layout = WEFT_EP_RANK_MAJOR;
  uint32_t alignment = 1;
  bool zero_padding = false, keep_places = false, narrow = false, columns = false;
  uint64_t window_bytes = 64 << 20;
  std::vector<uint32_t> blocks = {24};
  bool uneven = false; // ranks have different numbers of tokens, the last has none
  uint32_t none = 0;   // of 100 selections, so many select nothing or an absent rank
  bool one_expert = false;
  uint32_t biases = 0;
  bool weights_back = false, unweighted = false, coded = false;
  flow_halves halves = WHOLE;
  bool two_streams = false; // halves that receive are in another stream than those that send
  uint32_t combines = 1;    // of an operation
  bool relayed = false;     // ranks are on different hosts, as far as their windows go
  uint32_t zero_copy = 0;   // the ranks have such memory; with 1 all combine from it, with n every nth one
  uint32_t seed = 1, batch = 0;
};

#endif
