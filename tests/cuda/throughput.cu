// The kernels for many tokens, without control: every byte of rows, of their descriptions and of sums, against values
// computed on the host, for many shapes. With one GPU, all ranks share it.
#include <algorithm>

#include "cuda/support/flow_ranks.cuh"
#include "cuda/support/flow_values.cuh"

namespace {

int failures;

void try_shape(const char *name, const flow_shape &shape) {
  flow_group group(shape);
  bool right = group.try_all() && group.try_all();
  printf("%s - %s%s%s\n", right ? "ok" : "FAILED", name, right ? "" : ": ", group.wrong.c_str());
  fflush(stdout);
  failures += !right;
}

flow_shape small() {
  flow_shape shape;
  shape.tokens = 333;
  shape.hidden = 512;
  shape.experts = 9;
  shape.blocks = {8, 24};
  return shape;
}

// Whether a window has room for the rings. Of a relay's window an eighth may be for more.
bool is_enough(const flow_shape &shape, uint64_t window_bytes, cuda_flow *flow) {
  cuda_flow_init(flow, window_bytes / 8 * 7, shape.tokens, shape.hidden, shape.topk, shape.experts, 2 * shape.hidden);
  return flow->bytes > 0;
}

// The smallest window for rows of bf16, to about 4 KiB: each ring has three places for them.
uint64_t smallest_window(const flow_shape &shape) {
  cuda_flow flow;
  uint64_t bytes = 64 << 20;
  for (uint64_t step = bytes / 2; step >= 4096; step /= 2)
    if (is_enough(shape, bytes - step, &flow))
      bytes -= step;
  return bytes;
}

// Tokens of a channel go to one rank for a while, then to another, and rings are as small as they may be: so ranks wait
// for each other all the time.
template <typename F> void draw_runs(flow_shape &shape, F draw) {
  shape.run = 1 + draw(12);
  shape.tokens = 500 + draw(3500);
  shape.hidden = 128 * (1 + draw(6));
  shape.window_bytes = smallest_window(shape);
}

// Random shapes from a seed.
flow_shape drawn(uint32_t seed) {
  uint64_t v = mix(seed);
  auto draw = [&](uint32_t below) {
    v = mix(v);
    return (uint32_t)(v >> 20) % below;
  };
  flow_shape shape;
  shape.seed = seed;
  shape.ranks = 2 + draw(4);
  shape.tokens = 1 + draw(900);
  shape.hidden = 128 * (1 + draw(20));
  shape.topk = 1 + draw(16);
  shape.experts = 1 + draw(40);
  const int dtypes[] = {WEFT_EP_BF16, WEFT_EP_FP8, WEFT_EP_FP8_POW2, WEFT_EP_FP8_UE8M0};
  shape.dtype = dtypes[draw(4)];
  shape.casts = shape.dtype != WEFT_EP_BF16 && draw(2);
  const int layouts[] = {WEFT_EP_RANK_MAJOR, WEFT_EP_PACKED, WEFT_EP_PER_EXPERT};
  shape.layout = layouts[draw(3)];
  shape.alignment = shape.layout == WEFT_EP_PACKED ? 1 + draw(256) : 1;
  shape.zero_padding = draw(2);
  shape.keep_places = draw(2);
  shape.narrow = draw(2);
  shape.columns = draw(2);
  shape.uneven = draw(2);
  shape.none = draw(3) * 20;
  shape.one_expert = draw(8) == 0;
  shape.biases = draw(3);
  shape.weights_back = draw(2);
  shape.unweighted = draw(4) == 0;
  shape.window_bytes = draw(2) ? 64 << 20 : 2 << 20;
  shape.blocks.clear();
  for (uint32_t i = 0; i < shape.ranks; i++)
    shape.blocks.push_back(8 + draw(14)); // of a GPU that all may share
  shape.coded = draw(3) == 0;
  shape.halves = (flow_halves)draw(3);
  shape.two_streams = draw(2);
  shape.combines = 1 + draw(3);
  shape.relayed = draw(4) == 0;
  shape.zero_copy = draw(4) ? 1 + draw(2) : 0;
  if (draw(3) == 0)
    draw_runs(shape, draw);
  // Single halves need a window with places for all rows.
  cuda_flow flow;
  if (!is_enough(shape, shape.window_bytes, &flow)) {
    shape.window_bytes = 64 << 20;
    is_enough(shape, shape.window_bytes, &flow);
  }
  if (shape.tokens > std::min(cuda_ring_tokens(&flow.rows), cuda_ring_tokens(&flow.answers)))
    shape.halves = WHOLE;
  return shape;
}

// Answers that are read where they lie.
void try_zero_copy() {
  flow_shape shape = small();
  shape.zero_copy = 1;
  try_shape("a combine that reads rows where they lie", shape);
  shape.weights_back = true;
  shape.biases = 1;
  shape.combines = 3;
  shape.uneven = true;
  try_shape("the same with weights back and a bias, three times", shape);
  shape.ranks = 4;
  shape.zero_copy = 2;
  try_shape("the same of every other rank of four", shape);
  shape.halves = MIXED;
  try_shape("the same beside ranks with single halves", shape);
  shape.relayed = true;
  try_shape("the same where nobody can map it", shape);
}

// Ranks whose windows are in host memory.
void try_relayed() {
  flow_shape shape = small();
  shape.relayed = true;
  try_shape("bf16 by rank, by the relay", shape);
  shape.window_bytes = 2 << 20; // less than an operation
  shape.tokens = 2000;
  shape.layout = WEFT_EP_PACKED;
  shape.dtype = WEFT_EP_FP8;
  try_shape("fp8 packed, by the relay, through a small window", shape);
  shape.coded = true;
  shape.ranks = 3;
  try_shape("the same with three ranks, and back as logfmt10", shape);
}

} // namespace

int main(int argc, char **argv) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  if (device_count() == 0) {
    printf("no GPU\n");
    return 77;
  }
  uint32_t from = argc > 1 ? (uint32_t)atoi(argv[1]) : 1, to = argc > 2 ? (uint32_t)atoi(argv[2]) : 40;
  if (argc <= 1) {
    flow_shape shape = small();
    try_shape("bf16 by rank", shape);
    shape.layout = WEFT_EP_PACKED;
    shape.alignment = 16;
    try_shape("bf16 packed", shape);
    shape.coded = shape.weights_back = true;
    try_shape("bf16 packed, and back as logfmt10, with weights", shape);
    shape.coded = shape.weights_back = false;
    shape.layout = WEFT_EP_PER_EXPERT;
    shape.alignment = 1;
    try_shape("bf16 per expert", shape);
    shape.dtype = WEFT_EP_FP8;
    try_shape("fp8 per expert", shape);
    shape.casts = true;
    shape.layout = WEFT_EP_RANK_MAJOR;
    try_shape("fp8 cast by rank", shape);
    shape.ranks = 4;
    shape.biases = 2;
    shape.weights_back = true;
    try_shape("four ranks, biases, weights back", shape);
    shape.halves = MIXED;
    try_shape("the same, and two ranks with single halves", shape);
    shape.halves = HALVES;
    shape.two_streams = true;
    shape.combines = 3;
    try_shape("all ranks with single halves, in two streams, and three combines", shape);
    shape.coded = true;
    shape.hidden = 640; // no whole packets
    try_shape("the same as logfmt10", shape);
    try_zero_copy();
    try_relayed();
  }
  for (uint32_t seed = from; seed <= to; seed++) {
    char name[64];
    flow_shape shape = drawn(seed);
    snprintf(name, sizeof name, "seed %u%s", seed, shape.relayed ? ", by the relay" : "");
    try_shape(name, shape);
  }
  return failures != 0;
}
