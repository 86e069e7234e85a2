// Ranks on GPUs in one process, without the library around them, for tests and benchmarks of the kernels.
#include "cuda/support/ranks.cuh"

#include <cstring>
#include <string>

#include <cuda_fp16.h>

#include "cuda/dispatch/cast.cuh"

using number = uint32_t shape::*;

static const struct {
  const char *name;
  number field;
} fields[] = {
    {"ranks", &shape::ranks},   {"tokens", &shape::tokens},         {"hidden", &shape::hidden},
    {"topk", &shape::topk},     {"experts", &shape::experts},       {"stride", &shape::stride},
    {"blocks", &shape::blocks}, {"rank_major", &shape::rank_major}, {"devices", &shape::devices},
    {"halves", &shape::halves}, {"early", &shape::early},           {"strict", &shape::strict},
    {"late", &shape::late},     {"coded", &shape::coded},           {"away", &shape::away},
};

bool shape_option(struct shape &shape, const char *argument) {
  const char *value = strchr(argument, '=');
  if (!value)
    return false;
  std::string name(argument, (size_t)(value - argument));
  if (name == "dtype") {
    shape.dtype = atoi(value + 1);
    return true;
  }
  for (const auto &field : fields)
    if (name == field.name) {
      shape.*field.field = (uint32_t)atoi(value + 1);
      return true;
    }
  return false;
}

void shape_print(const struct shape &shape) {
  static const char *const dtypes[] = {"", "bf16", "fp8", "fp8 pow2", "fp8 ue8m0"};
  printf("%u ranks, %u tokens, hidden %u, top-%u, %u experts per rank, %s, %s%s", shape.ranks, shape.tokens,
         shape.hidden, shape.topk, shape.experts, dtypes[shape.dtype], shape.rank_major ? "rank-major" : "per-expert",
         shape.halves ? ", halves apart" : "");
  printf("%s%s%s", shape.late ? ", late weights" : "", shape.strict ? ", strict" : "", shape.coded ? ", logfmt10" : "");
  if (shape.away)
    printf(", one token in %u stays, the others go to the next rank", shape.away);
}

static void open_rank(group &g, rank &r) {
  const shape &s = g.shape;
  size_t all = (size_t)g.parts * g.rows, T = s.tokens, H = s.hidden;
  OK(cudaSetDevice(r.device));
  OK(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
  for (uint32_t m = 0; m < s.ranks; m++) {
    char *area = device_alloc<char>(g.layout.area);
    OK(cudaMemset(area + sizeof(cuda_area_head), 0xFF, g.layout.area - sizeof(cuda_area_head))); // empty
    r.areas.push_back(area);
  }
  r.state = device_alloc<cuda_state>(1);
  r.x = device_alloc<uint16_t>(T * H);
  r.out = device_alloc<uint16_t>(T * H);
  r.topk_idx = device_alloc<int64_t>(T * s.topk);
  r.topk_weights = device_alloc<float>(T * s.topk);
  r.received = device_alloc<char>(all * g.layout.value_bytes);
  r.y = device_alloc<uint16_t>(all * H);
  r.scales = device_alloc<float>(all * (H / CUDA_BLOCK));
  r.counts = device_alloc<int32_t>(s.experts);
  r.src_rank = device_alloc<int32_t>(all);
  r.src_token = device_alloc<int32_t>(all);
  r.range = device_alloc<int64_t>((size_t)g.parts * g.capacity);
  r.local_expert = device_alloc<int32_t>(all * s.topk);
  r.weights = device_alloc<float>(all * s.topk);
  r.given_scales = nullptr;
  r.dispatch_trace = r.combine_trace = nullptr;
}

static void connect(group &g, rank &r) {
  const shape &s = g.shape;
  OK(cudaSetDevice(r.device));
  std::vector<char> memory(sizeof(cuda_state));
  cuda_state *state = (cuda_state *)memory.data();
  OK(cudaMallocHost(&r.report, sizeof *r.report));
  memset((void *)r.report, 0, sizeof *r.report);
  state->report = r.report;
  state->forms = g.forms;
  state->control.timeout_ns = 5000000000ull;
  state->control.operations_per_step = 1;
  state->control.strict = s.strict;
  state->control.ready = 1;
  g.fill_view(r, state->published[0], 1, s.ranks);
  for (cuda_handle &handle : state->handle) {
    size_t entries = (size_t)s.ranks * s.tokens * s.topk;
    handle.place = device_alloc<int32_t>(entries);
    handle.weight = device_alloc<float>(entries);
    handle.members = device_alloc<uint64_t>(s.tokens);
    handle.missing = device_alloc<uint64_t>(s.tokens);
    handle.unsent = device_alloc<uint64_t>(s.tokens);
    handle.token = device_alloc<uint32_t>((size_t)s.ranks * s.tokens);
  }
  OK(cudaMemcpy(r.state, state, sizeof *state, cudaMemcpyHostToDevice));
  g.begin(r, 0, 1);
}

namespace {

// Row i of expert e: the received row, converted to bf16.
__global__ void identity(const char *received, const float *scales, const int32_t *counts, uint16_t *y, uint32_t rows,
                         uint32_t hidden, int dtype) {
  for (uint32_t row = blockIdx.x; row < (uint32_t)counts[blockIdx.y]; row += gridDim.x)
    for (uint32_t i = threadIdx.x; i < hidden; i += blockDim.x) {
      size_t at = ((size_t)blockIdx.y * rows + row) * hidden + i;
      if (dtype == CUDA_BF16) {
        y[at] = ((const uint16_t *)received)[at];
        continue;
      }
      __half_raw raw = __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)received[at], __NV_E4M3);
      size_t bytes = (hidden / CUDA_BLOCK + 3) / 4 * 4; // of a row's scales, with ue8m0
      float scale = dtype == CUDA_FP8_UE8M0
                        ? exp2f((float)((const uint8_t *)scales)[at / hidden * bytes + i / CUDA_BLOCK] - 127.0f)
                        : scales[at / CUDA_BLOCK];
      float value = __half2float(*(__half *)&raw) * scale;
      y[at] = (uint16_t)to_bf16_pair(value, 0.0f);
    }
}

} // namespace

group::group(const struct shape &wanted) : shape(wanted) {
  struct shape &s = shape;
  s.devices = std::min({s.devices, (uint32_t)device_count(), s.ranks});
  uint32_t sharing = (s.ranks + s.devices - 1) / s.devices;
  int processors;
  OK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  if (s.blocks == 0)
    s.blocks = (uint32_t)processors / sharing;
  cuda_layout_init(&layout, &forms, s.tokens, s.hidden, s.topk, s.experts, s.dtype,
                   s.coded ? CUDA_COMBINE_LOGFMT10 : CUDA_COMBINE_BF16);
  rows = s.tokens * s.ranks;
  capacity = s.ranks * s.stride;
  parts = s.rank_major ? 1 : s.experts;
  for (uint32_t i = 0; i < s.devices; i++) {
    open_peers((int)i, (int)s.devices);
    bool early;
    OK(cuda_launch_load(&early));
    s.early = s.early && sharing == 1 && early;
    before_hopper |= !early;
    OK(load((const void *)identity)); // not at its first launch, when ranks that share a device may wait for each other
  }
  ranks.resize(s.ranks);
  for (uint32_t i = 0; i < s.ranks; i++) {
    active.push_back((int32_t)(i * s.stride));
    ranks[i].index = i;
    ranks[i].device = (int)(i % s.devices);
    open_rank(*this, ranks[i]);
  }
  for (rank &r : ranks)
    connect(*this, r);
}

group::~group() {
  for (uint32_t i = 0; i < shape.devices; i++) {
    cudaSetDevice((int)i);
    cudaDeviceReset();
  }
}

void group::fill_view(const rank &r, cuda_view &view, uint64_t epoch, uint32_t members) const {
  view = {};
  view.epoch = epoch;
  view.count = members;
  view.by_count = cuda_divisor_of(members);
  view.seats = (1ull << members) - 1;
  view.self = r.index < members ? r.index : CUDA_NOT_A_MEMBER;
  for (uint32_t m = 0; m < members; m++)
    view.members[m] = {r.areas[m], ranks[m].areas[r.index], active[m], m, 0};
}

void group::begin(const rank &r, uint64_t op, uint64_t epoch) const {
  cuda_begin *result;
  OK(cudaMallocHost(&result, sizeof *result));
  cuda_begin_args args = {};
  args.state = r.state;
  args.op = op;
  args.epoch = epoch;
  args.result = result;
  OK(cuda_launch_begin(&args, r.stream));
  OK(cudaStreamSynchronize(r.stream));
  OK(cudaFreeHost(result));
}

void group::each(const std::function<void(rank &)> &work) {
  at_once(ranks, work);
}

input group::make_input(uint32_t index, uint64_t op, float drop, bool uneven) const {
  const struct shape &s = shape;
  pattern pattern = {};
  pattern.seed = 7;
  pattern.num_tokens = s.tokens;
  pattern.hidden = s.hidden;
  pattern.topk = s.topk;
  pattern.experts_per_rank = s.experts;
  pattern.uneven = uneven;
  pattern.drop = drop;
  input in;
  in.x.resize((size_t)s.tokens * s.hidden);
  in.topk_idx.resize((size_t)s.tokens * s.topk);
  in.weights.resize((size_t)s.tokens * s.topk);
  in.num_tokens = pattern_fill(&pattern, op, active[index], active.data(), s.ranks, in.x.data(), in.topk_idx.data(),
                               in.weights.data());
  for (uint32_t t = 0; s.away && t < s.tokens; t++) {
    bool stays = t % s.away == s.away - 1;
    uint32_t rank = active[stays ? index : (index + 1) % s.ranks], first = t * 2654435761u >> 16;
    uint32_t apart = std::max(s.experts / s.topk, 1u);
    for (uint32_t k = 0; k < s.topk; k++)
      in.topk_idx[(size_t)t * s.topk + k] = (int64_t)rank * s.experts + (first + k * apart) % s.experts;
  }
  return in;
}

void group::upload(rank &r, const input &in) const {
  const struct shape &s = shape;
  size_t all = (size_t)parts * rows;
  enum { POISON = 0xFF };
  OK(cudaMemcpy(r.x, in.x.data(), in.x.size() * 2, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(r.topk_idx, in.topk_idx.data(), in.topk_idx.size() * 8, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(r.topk_weights, in.weights.data(), in.weights.size() * 4, cudaMemcpyHostToDevice));
  r.num_tokens = in.num_tokens;
  OK(cudaMemset(r.received, POISON, all * layout.value_bytes));
  OK(cudaMemset(r.scales, POISON, all * (s.hidden / CUDA_BLOCK) * 4));
  OK(cudaMemset(r.out, POISON, (size_t)s.tokens * s.hidden * 2));
  OK(cudaMemset(r.counts, POISON, s.experts * 4));
  OK(cudaMemset(r.src_rank, POISON, all * 4));
  OK(cudaMemset(r.src_token, POISON, all * 4));
  OK(cudaMemset(r.range, POISON, (size_t)parts * capacity * 8));
  OK(cudaMemset(r.local_expert, POISON, all * s.topk * 4));
  OK(cudaMemset(r.weights, POISON, all * s.topk * 4));
  OK(cudaDeviceSynchronize());
}

void group::dispatch_halves(rank &r, uint32_t halves) const {
  cuda_dispatch_args args = {};
  args.state = r.state;
  args.layout = layout;
  args.capacity = capacity;
  args.members = shape.ranks;
  args.trace = r.dispatch_trace;
  device_dispatch &d = args.d;
  d.kind = 1;
  d.x = r.x;
  d.scales = r.given_scales;
  d.topk_idx = r.topk_idx;
  d.topk_weights = shape.late ? nullptr : r.topk_weights;
  d.num_tokens = r.num_tokens;
  d.rank_major = shape.rank_major;
  d.rows = rows;
  d.out = r.received;
  d.out_scales = r.scales;
  d.counts = r.counts;
  d.src_rank = r.src_rank;
  d.src_token = r.src_token;
  d.range = r.range;
  d.local_expert = r.local_expert;
  d.weights = r.weights;
  d.halves = halves;
  cuda_complete(&args);
  OK(cuda_launch_dispatch(&args, shape.blocks, shape.early, r.stream));
}

void group::dispatch(rank &r) const {
  dispatch_halves(r, shape.halves ? DEVICE_SEND : DEVICE_SEND | DEVICE_RECV);
  if (shape.halves)
    dispatch_halves(r, DEVICE_RECV);
}

void group::combine(rank &r) const {
  cuda_combine_args args = {};
  args.state = r.state;
  args.layout = layout;
  args.usual = true;
  args.before_hopper = before_hopper;
  args.trace = r.combine_trace;
  device_combine &c = args.c;
  c.rank_major = shape.rank_major;
  c.late_weights = shape.late;
  c.y = r.y;
  c.out = r.out;
  c.num_tokens = r.num_tokens;
  c.topk_idx = r.topk_idx;
  c.topk_weights = r.topk_weights;
  c.halves = shape.halves ? DEVICE_SEND : DEVICE_SEND | DEVICE_RECV;
  OK(cuda_launch_combine(&args, shape.blocks, shape.early, r.stream));
  c.halves = DEVICE_RECV;
  if (shape.halves)
    OK(cuda_launch_combine(&args, shape.blocks, shape.early, r.stream));
}

void group::end(rank &r) const {
  const cuda_finish_args args = {r.state, layout, 0};
  OK(cuda_launch_finish(&args, shape.blocks, r.stream));
}

void group::finish(const rank &r) const {
  OK(cudaSetDevice(r.device));
  OK(cudaStreamSynchronize(r.stream));
}

device_record group::record(const rank &r, uint64_t op) const {
  OK(cudaSetDevice(r.device));
  return fetch(&r.state->record[op % CUDA_RECORDS], 1)[0];
}

void group::set_timeout(rank &r, uint64_t timeout_ns) const {
  OK(cudaSetDevice(r.device));
  OK(cudaMemcpy(&r.state->control.timeout_ns, &timeout_ns, sizeof timeout_ns, cudaMemcpyHostToDevice));
}

uint64_t group::lost(const rank &r) const {
  OK(cudaSetDevice(r.device));
  return fetch(&r.state->counters.lost, 1)[0];
}

void group::run_experts(rank &r) const {
  identity<<<dim3(32, shape.experts), 256, 0, r.stream>>>(r.received, r.scales, r.counts, r.y, rows, shape.hidden,
                                                          shape.dtype);
  OK(cudaGetLastError());
}
