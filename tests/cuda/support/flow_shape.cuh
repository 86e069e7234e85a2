// The parameters of a test of ranks with many tokens.
#ifndef TESTS_CUDA_FLOW_SHAPE_CUH
#define TESTS_CUDA_FLOW_SHAPE_CUH

#include <weft/ep.h>

#include <cstdint>
#include <vector>

enum flow_halves { WHOLE, HALVES, MIXED }; // ranks with a kernel for each half: none, all, every other

struct flow_shape {
  uint32_t ranks = 2, tokens = 4096, hidden = 7168, topk = 8, experts = 72;
  int dtype = WEFT_EP_BF16; // of rows
  bool casts = false;       // dispatch casts rows from bf16
  int layout = WEFT_EP_RANK_MAJOR;
  uint32_t alignment = 1;
  bool zero_padding = false, keep_places = false, narrow = false, columns = false;
  uint64_t window_bytes = 64 << 20;
  std::vector<uint32_t> blocks = {24};
  bool uneven = false; // ranks have different numbers of tokens, the last one has none
  uint32_t none = 0;   // percentage of selections of nothing, or of a rank outside the view
  bool one_expert = false;
  uint32_t run = 0; // n: each n consecutive tokens of a channel go to one rank, or to all; 0: each selection is free
  uint32_t biases = 0;
  bool weights_back = false, unweighted = false, coded = false;
  flow_halves halves = WHOLE;
  bool two_streams = false; // halves that receive are in another stream than those that send
  uint32_t combines = 1;    // in each operation
  bool relayed = false;     // windows are relayed, as between ranks on different hosts
  uint32_t zero_copy = 0;   // n: ranks have zero-copy memory, and every n-th rank combines from it; 0: none
  uint32_t seed = 1, batch = 0;
};

#endif
