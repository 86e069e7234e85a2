// Ranks of one process, on one GPU or several, whose operations of many tokens are moved by the kernels alone: the host
// says what control would. And what has to come out of them, computed by the host.
#ifndef TESTS_CUDA_FLOW_RANKS_CUH
#define TESTS_CUDA_FLOW_RANKS_CUH

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <weft/ep.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/kernels/state.h"
#include "cuda/throughput/launch.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    int rc_ = (int)(call);                                                                                             \
    if (rc_ != 0) {                                                                                                    \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString((cudaError_t)rc_));             \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

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
  bool weights_back = false, unweighted = false;
  uint32_t seed = 1, batch = 0;
};

template <typename T> T *device_array(size_t count) {
  void *p;
  OK(cudaMalloc(&p, count * sizeof(T) + 256));
  OK(cudaMemset(p, 0, count * sizeof(T) + 256));
  return (T *)p;
}
template <typename T> T *device_copy_of(const std::vector<T> &v) {
  T *p = device_array<T>(v.size() + 1);
  OK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}
template <typename T> std::vector<T> host_copy_of(const T *p, size_t count) {
  std::vector<T> v(count);
  OK(cudaMemcpy(v.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost));
  return v;
}

static inline uint64_t mix(uint64_t v) {
  v += 0x9E3779B97F4A7C15ull;
  v = (v ^ v >> 30) * 0xBF58476D1CE4E5B9ull;
  v = (v ^ v >> 27) * 0x94D049BB133111EBull;
  return v ^ v >> 31;
}
static inline float unit_of(uint64_t v) {
  return (float)(v >> 40) / (float)(1 << 24);
}
static inline float from_bf16(uint16_t v) {
  uint32_t bits = (uint32_t)v << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
static inline uint16_t to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  if ((bits & 0x7FFFFFFF) > 0x7F800000)
    return 0x7FFF;
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static void in_parallel(size_t count, const std::function<void(size_t)> &work) {
  size_t threads = std::max(1u, std::min(32u, std::thread::hardware_concurrency()));
  std::vector<std::thread> all;
  for (size_t t = 0; t < threads; t++)
    all.emplace_back([=, &work] {
      for (size_t i = t; i < count; i += threads)
        work(i);
    });
  for (std::thread &thread : all)
    thread.join();
}

enum { CAPACITY = 256 }; // of a group

// What a rank has, and what it is to get.
struct flow_rank {
  uint32_t index, tokens;
  int32_t rank;
  int device;
  cudaStream_t stream;
  // host
  std::vector<char> x, scales;        // as the caller has them
  std::vector<char> sent, row_scales; // as they travel, one behind the other
  std::vector<int64_t> topk;
  std::vector<float> weights;
  std::vector<uint16_t> y, bias[2];
  std::vector<float> row_weights;
  std::vector<int32_t> number, row_of;     // [T][K]
  std::vector<std::vector<int32_t>> pairs; // by source: its tokens, in order
  // device
  cuda_state *state;
  device_report *report;
  cuda_route *route;
  cuda_route host_route;
  cuda_flow_op *op;
  cuda_flow_op host_op;
  char *dx, *dscales;
  void *dtopk;
  float *dweights;
  char *out, *out_scales;
  int32_t *counts, *src_rank, *src_token, *local_expert, *slot, *expert_end;
  int64_t *range;
  float *out_row_weights; // [rows][K] received
  uint16_t *dy, *dbias[2], *sum;
  float *drow_weights, *sum_weights;
  uint64_t *missing;
  uint32_t *plan_space, *rows_space;
  uint32_t rows; // room
  size_t buffer_rows;
};

__global__ static void advance(cuda_flow_op *op, cuda_state *state, uint64_t number) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  op->op = number;
  op->lost = op->answers_lost = 0;
  state->counters.sent = number;
}

struct flow_group {
  flow_shape shape;
  cuda_flow flow;
  cuda_row_shape row;
  std::vector<flow_rank> all;
  std::vector<std::vector<char *>> window; // [of][written by]
  int devices;
  uint64_t next = 1000;
  std::string wrong;

  explicit flow_group(const flow_shape &shape) : shape(shape) {
    OK(cudaGetDeviceCount(&devices));
    if (getenv("FLOW_DEVICES"))
      devices = std::min(devices, atoi(getenv("FLOW_DEVICES")));
    uint32_t H = shape.hidden, K = shape.topk, E = shape.experts;
    bool fp8 = shape.dtype != WEFT_EP_BF16;
    uint32_t words = !fp8 ? 0 : shape.dtype == WEFT_EP_FP8_UE8M0 ? (H / 128 + 3) / 4 : H / 128;
    row = {fp8 && !shape.casts ? H : 2 * H, fp8 ? H : 2 * H, words, shape.casts ? shape.dtype : 0};
    cuda_flow_init(&flow, shape.window_bytes, shape.tokens, H, K, E, fp8 ? H + 4 * words : 2 * H);
    if (shape.batch)
      flow.rows.batch = flow.answers.batch = shape.batch;
    if (flow.bytes == 0) {
      fprintf(stderr, "the window is too small\n");
      exit(1);
    }
    all.resize(shape.ranks);
    window.resize(shape.ranks, std::vector<char *>(shape.ranks));
    for (uint32_t i = 0; i < shape.ranks; i++) {
      flow_rank &r = all[i];
      r.index = i;
      r.rank = (int32_t)(shape.ranks == 2 ? i : 2 * i + i / 2); // sparse
      r.device = (int)i % devices;
      r.tokens = shape.uneven ? (i + 1 == shape.ranks ? 0 : shape.tokens - i * shape.tokens / 5) : shape.tokens;
      OK(cudaSetDevice(r.device));
      static bool reached[16];
      for (int peer = 0; peer < devices && !reached[r.device]; peer++)
        if (peer != r.device)
          OK(cudaDeviceEnablePeerAccess(peer, 0));
      reached[r.device] = true;
      bool early = true;
      OK(cuda_load_throughput(&early));
      OK(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
      for (uint32_t j = 0; j < shape.ranks; j++)
        window[i][j] = device_array<char>(flow.bytes);
      make_inputs(r);
    }
    for (flow_rank &r : all)
      route_all(r);
    for (flow_rank &r : all)
      make_device(r);
  }
  ~flow_group() {
    for (flow_rank &r : all) {
      cudaSetDevice(r.device);
      cudaStreamDestroy(r.stream);
    }
    // Everything else goes with the process; large groups give their largest parts back.
    for (flow_rank &r : all) {
      cudaSetDevice(r.device);
      for (char *w : window[r.index])
        cudaFree(w);
      cudaFree(r.out), cudaFree(r.dy), cudaFree(r.dx), cudaFree(r.sum);
    }
  }
  flow_group(const flow_group &) = delete;

  uint32_t seat_of(uint32_t i, uint32_t peer) const { return (peer * 5 + i * 3 + 1) % 64; }
  int member_of(int64_t expert) const {
    for (uint32_t i = 0; i < shape.ranks; i++)
      if (expert >= 0 && expert / shape.experts == all[i].rank)
        return (int)i;
    return -1;
  }

  void make_inputs(flow_rank &r) {
    uint32_t T = r.tokens, H = shape.hidden, K = shape.topk, E = shape.experts;
    uint64_t seed = shape.seed * 1000003ull + r.index * 7919ull;
    bool fp8 = shape.dtype != WEFT_EP_BF16;
    r.x.resize((size_t)T * row.in_bytes);
    r.sent.resize((size_t)T * row.value_bytes);
    r.row_scales.resize((size_t)T * row.scale_words * 4);
    in_parallel(T, [&](size_t t) {
      char *x = &r.x[t * row.in_bytes], *out = &r.sent[t * row.value_bytes];
      if (row.in_bytes == 2 * H)
        for (uint32_t i = 0; i < H; i++) {
          uint64_t v = mix(seed + t * H + i);
          ((uint16_t *)x)[i] = to_bf16((unit_of(v) - 0.5f) * exp2f((float)((int)(v & 15) - 8)));
        }
      else
        for (uint32_t i = 0; i < H / 8; i++)
          ((uint64_t *)x)[i] = mix(seed + t * H + i);
      if (!shape.casts)
        memcpy(out, x, row.value_bytes);
      uint32_t *words = (uint32_t *)&r.row_scales[t * row.scale_words * 4];
      if (fp8 && !shape.casts)
        for (uint32_t i = 0; i < row.scale_words; i++)
          words[i] = (uint32_t)mix(seed * 3 + t * 1000 + i);
      if (shape.casts)
        for (uint32_t b = 0; b < H / 128; b++) {
          float most = 1e-4f;
          for (uint32_t i = 0; i < 128; i++)
            most = fmaxf(most, fabsf(from_bf16(((uint16_t *)x)[b * 128 + i])));
          float scale = most / 448.0f, inverse = 448.0f / most;
          if (shape.dtype != WEFT_EP_FP8) {
            uint32_t bits;
            memcpy(&bits, &scale, 4);
            bits = (bits + 0x007FFFFF) & 0x7F800000;
            memcpy(&scale, &bits, 4);
            inverse = 1.0f / scale;
            if (shape.dtype == WEFT_EP_FP8_UE8M0)
              ((uint8_t *)words)[b] = (uint8_t)(bits >> 23);
          }
          if (shape.dtype != WEFT_EP_FP8_UE8M0)
            memcpy(&words[b], &scale, 4);
          for (uint32_t i = 0; i < 128; i++)
            out[b * 128 + i] = (char)__nv_cvt_float_to_fp8(from_bf16(((uint16_t *)x)[b * 128 + i]) * inverse,
                                                           __NV_SATFINITE, __NV_E4M3);
        }
    });
    r.topk.resize((size_t)T * K);
    r.weights.resize((size_t)T * K);
    for (size_t t = 0; t < T; t++)
      for (uint32_t k = 0; k < K; k++) {
        int64_t &expert = r.topk[t * K + k];
        uint64_t v = mix(seed * 5 + t * K + k);
        for (;; v = mix(v)) { // all of a token differ
          uint32_t peer = (uint32_t)(v >> 8) % shape.ranks;
          int32_t rank = (int32_t)(shape.ranks == 2 ? peer : 2 * peer + peer / 2);
          expert = (int64_t)rank * E + (uint32_t)(v >> 32) % E;
          bool again = false;
          for (uint32_t i = 0; i < k; i++)
            again |= r.topk[t * K + i] == expert;
          if (!again || (uint64_t)shape.ranks * E < 2 * K)
            break;
        }
        if (shape.one_expert)
          expert = E - 1;
        if (mix(v + 1) % 100 < shape.none)
          expert = v % 3 ? -1 : (int64_t)1000 * E;
        r.weights[t * K + k] = unit_of(mix(v + 2)) + 0.01f;
      }
  }

  // By the definition: rows of each rank in the order of tokens.
  void route_all(flow_rank &r) {
    uint32_t K = shape.topk;
    r.number.assign(r.topk.size(), -1);
    r.row_of.assign(r.topk.size(), -1);
    std::vector<int32_t> count(shape.ranks * shape.experts, 0);
    for (flow_rank &to : all)
      if (to.pairs.empty())
        to.pairs.resize(shape.ranks);
    for (uint32_t t = 0; t < r.tokens; t++) {
      std::vector<bool> has(shape.ranks, false);
      for (uint32_t k = 0; k < K; k++) {
        int64_t expert = r.topk[(size_t)t * K + k];
        int m = member_of(expert);
        if (m < 0)
          continue;
        if (!has[m])
          all[m].pairs[r.index].push_back((int32_t)t);
        has[m] = true;
        r.row_of[(size_t)t * K + k] = (int32_t)all[m].pairs[r.index].size() - 1;
        r.number[(size_t)t * K + k] = count[m * shape.experts + expert % shape.experts]++;
      }
    }
  }
  uint32_t count_of(uint32_t source, uint32_t to, uint32_t e) const {
    const flow_rank &s = all[source];
    uint32_t n = 0;
    for (size_t i = 0; i < s.topk.size(); i++)
      n += s.number[i] >= 0 && member_of(s.topk[i]) == (int)to && s.topk[i] % shape.experts == e;
    return n;
  }
  uint32_t pairs_of(const flow_rank &r) const {
    uint32_t n = 0;
    for (auto &p : r.pairs)
      n += (uint32_t)p.size();
    return n;
  }

  std::vector<std::vector<std::vector<uint32_t>>> counted; // [to][source][e]
  void make_device(flow_rank &r) {
    OK(cudaSetDevice(r.device));
    uint32_t M = shape.ranks, K = shape.topk, E = shape.experts, H = shape.hidden, i = r.index;
    if (counted.empty()) {
      counted.assign(M, std::vector<std::vector<uint32_t>>(M, std::vector<uint32_t>(E)));
      for (flow_rank &s : all)
        for (size_t at = 0; at < s.topk.size(); at++)
          if (s.number[at] >= 0)
            counted[member_of(s.topk[at])][s.index][s.topk[at] % E]++;
    }
    uint32_t pairs = pairs_of(r), most = 0, packed = 0;
    for (uint32_t e = 0; e < E; e++) {
      uint32_t rows = 0;
      for (uint32_t s = 0; s < M; s++)
        rows += counted[i][s][e];
      most = std::max(most, rows);
      packed += (rows + shape.alignment - 1) / shape.alignment * shape.alignment;
    }
    r.rows = shape.layout == WEFT_EP_RANK_MAJOR ? pairs : shape.layout == WEFT_EP_PACKED ? packed : most;
    r.rows = std::max(r.rows, 1u) + 3;
    r.buffer_rows = shape.layout == WEFT_EP_PER_EXPERT ? (size_t)r.rows * E : r.rows;
    uint32_t max_rows = pairs + 8;
    // state
    cuda_state *state = (cuda_state *)calloc(1, sizeof(cuda_state));
    OK(cudaHostAlloc((void **)&r.report, sizeof(device_report), cudaHostAllocMapped));
    memset((void *)r.report, 0, sizeof(device_report));
    state->report = r.report;
    state->control.timeout_ns = 2000000000;
    state->counters.sent = next;
    cuda_view &view = state->live[0];
    view.epoch = 1;
    view.count = M;
    view.self = i;
    char *heads = device_array<char>(4096);
    for (uint32_t j = 0; j < M; j++)
      view.members[j] = {heads, heads, all[j].rank, seat_of(i, j), 0};
    r.state = device_array<cuda_state>(1);
    OK(cudaMemcpy(r.state, state, sizeof *state, cudaMemcpyHostToDevice));
    free(state);
    // route
    cuda_route &route = r.host_route;
    route.ways = device_array<cuda_way>((size_t)shape.tokens * K);
    route.seats = device_array<uint64_t>(shape.tokens);
    route.tokens = device_array<uint32_t>(DEVICE_SEATS);
    route.counts = device_array<uint32_t>(DEVICE_SEATS * E);
    route.sums = device_array<uint32_t>(4);
    route.came = device_array<uint32_t>(DEVICE_SEATS * CUDA_CHANNELS);
    route.order = device_array<int32_t>((size_t)DEVICE_SEATS * CUDA_CHANNELS * flow.list);
    route.token = device_array<int32_t>(max_rows);
    route.place = device_array<int32_t>((size_t)max_rows * K);
    route.expert = device_array<int32_t>((size_t)max_rows * K);
    route.weight = device_array<float>((size_t)max_rows * K);
    route.max_rows = max_rows;
    route.topk = K;
    r.route = device_array<cuda_route>(1);
    OK(cudaMemcpy(r.route, &route, sizeof route, cudaMemcpyHostToDevice));
    // what control says
    cuda_flow_op &op = r.host_op;
    memset(&op, 0, sizeof op);
    std::vector<uint32_t> counts(DEVICE_SEATS * E, 0);
    op.self = seat_of(i, i);
    op.count = M;
    for (uint32_t j = 0; j < M; j++) {
      uint32_t seat = seat_of(i, j);
      op.seats |= 1ull << seat;
      op.by_rank[j] = (uint8_t)seat;
      op.rank[seat] = all[j].rank;
      op.rows[seat] = (uint32_t)r.pairs[j].size();
      op.in[seat] = window[i][j];
      op.out[seat] = window[j][i];
      for (uint32_t e = 0; e < E; e++)
        counts[seat * E + e] = counted[i][j][e];
    }
    op.counts = device_copy_of(counts);
    r.op = device_array<cuda_flow_op>(1);
    OK(cudaMemcpy(r.op, &op, sizeof op, cudaMemcpyHostToDevice));
    // inputs
    r.dx = device_copy_of(r.x);
    std::vector<char> scales = r.row_scales;
    if (shape.columns)
      for (uint32_t t = 0; t < r.tokens; t++)
        for (uint32_t w = 0; w < row.scale_words; w++)
          memcpy(&scales[((size_t)w * r.tokens + t) * 4], &r.row_scales[((size_t)t * row.scale_words + w) * 4], 4);
    r.dscales = row.scale_words && !shape.casts ? device_copy_of(scales) : nullptr;
    if (shape.narrow)
      r.dtopk = device_copy_of(std::vector<int32_t>(r.topk.begin(), r.topk.end()));
    else
      r.dtopk = device_copy_of(r.topk);
    r.dweights = device_copy_of(r.weights);
    // outputs
    r.out = device_array<char>(r.buffer_rows * row.value_bytes);
    r.out_scales = row.scale_words ? device_array<char>(r.buffer_rows * row.scale_words * 4) : nullptr;
    r.counts = device_array<int32_t>(E);
    r.src_rank = device_array<int32_t>(r.buffer_rows);
    r.src_token = device_array<int32_t>(r.buffer_rows);
    r.local_expert = device_array<int32_t>(r.buffer_rows * K);
    r.out_row_weights = device_array<float>(r.buffer_rows * K);
    r.slot = device_array<int32_t>(r.buffer_rows * K);
    r.expert_end = device_array<int32_t>(E);
    r.range = device_array<int64_t>((size_t)E * CAPACITY);
    // combine
    r.y.resize(r.buffer_rows * H);
    in_parallel(r.buffer_rows, [&](size_t n) {
      for (uint32_t h = 0; h < H; h++)
        r.y[n * H + h] = to_bf16(unit_of(mix(shape.seed * 11 + i * 13 + n * H + h)) * 4.0f - 2.0f);
    });
    r.dy = device_copy_of(r.y);
    for (uint32_t b = 0; b < 2; b++) {
      r.bias[b].resize((size_t)r.tokens * H);
      for (size_t n = 0; n < r.bias[b].size() && b < shape.biases; n++)
        r.bias[b][n] = to_bf16(unit_of(mix(n * 17 + b)) - 0.5f);
      r.dbias[b] = b < shape.biases ? device_copy_of(r.bias[b]) : nullptr;
    }
    r.row_weights.resize(r.buffer_rows * K);
    for (size_t n = 0; n < r.row_weights.size(); n++)
      r.row_weights[n] = unit_of(mix(n + i));
    r.drow_weights = shape.weights_back ? device_copy_of(r.row_weights) : nullptr;
    r.sum = device_array<uint16_t>((size_t)shape.tokens * H);
    r.sum_weights = device_array<float>((size_t)shape.tokens * K);
    r.missing = device_array<uint64_t>(shape.tokens);
    r.plan_space = device_array<uint32_t>(cuda_plan_workspace(&flow, 132) / 4 + 64);
    r.rows_space = device_array<uint32_t>(cuda_rows_workspace(&flow, 132, (uint32_t)r.buffer_rows) / 4 + 64);
  }

  uint32_t blocks_of(const flow_rank &r) const { return shape.blocks[r.index % shape.blocks.size()]; }

  void plan(flow_rank &r, bool early = false) {
    cuda_plan_args args = {};
    args.state = r.state;
    args.route = r.route;
    args.flow = flow;
    args.topk_idx = r.dtopk;
    args.num_tokens = r.tokens;
    args.topk = shape.topk;
    args.workspace = r.plan_space;
    args.members = shape.ranks;
    args.narrow = shape.narrow;
    OK(cuda_launch_plan(&args, blocks_of(r), early, r.stream));
  }
  void rows(flow_rank &r, bool kept, bool early = false) {
    cuda_rows_args args = {};
    args.state = r.state;
    args.route = r.route;
    args.op = r.op;
    args.flow = flow;
    args.shape = row;
    args.topk = shape.topk;
    args.kept = kept;
    args.members = shape.ranks;
    args.layout = shape.layout;
    args.keep_places = shape.keep_places;
    args.zero_padding = shape.zero_padding;
    args.alignment = shape.alignment;
    args.capacity = CAPACITY;
    args.x = r.dx;
    args.scales = r.dscales;
    args.topk_weights = kept ? nullptr : r.dweights;
    args.rows = r.rows;
    if (shape.columns && row.scale_words) {
      args.scale_row_stride = 1;
      args.scale_block_stride = std::max(r.tokens, 1u);
      args.out_scale_row_stride = 1;
      args.out_scale_block_stride = (uint32_t)r.buffer_rows;
      args.out_scale_expert_stride = r.rows;
    }
    args.out = r.out;
    args.out_scales = r.out_scales;
    args.counts = r.counts;
    args.src_rank = r.src_rank;
    args.src_token = r.src_token;
    args.range = r.range;
    if (shape.layout == WEFT_EP_RANK_MAJOR) {
      args.local_expert = r.local_expert;
      args.weights = r.out_row_weights;
    }
    if (shape.layout == WEFT_EP_PACKED) {
      args.slot = r.slot;
      args.expert_end = r.expert_end;
    }
    args.workspace = r.rows_space;
    OK(cuda_launch_rows(&args, blocks_of(r), early, r.stream));
  }
  void answers(flow_rank &r, bool early = false) {
    cuda_answers_args args = {};
    args.state = r.state;
    args.route = r.route;
    args.op = r.op;
    args.flow = flow;
    args.topk = shape.topk;
    args.rank_major = shape.layout == WEFT_EP_RANK_MAJOR;
    args.unweighted = shape.unweighted;
    args.rows = r.rows;
    args.y = r.dy;
    args.topk_idx = r.dtopk;
    args.narrow = shape.narrow;
    args.topk_weights = r.dweights;
    args.row_weights = r.drow_weights;
    args.bias[0] = r.dbias[0];
    args.bias[1] = r.dbias[1];
    args.out = r.sum;
    args.out_weights = shape.weights_back ? r.sum_weights : nullptr;
    args.missing = r.missing;
    OK(cuda_launch_answers(&args, blocks_of(r), early, r.stream));
  }
  void begin(flow_rank &r, uint64_t number, bool early = false) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = early;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(1);
    config.stream = r.stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cudaLaunchKernelEx(&config, advance, r.op, r.state, number));
  }
  void each(const std::function<void(flow_rank &)> &what) {
    for (flow_rank &r : all) {
      OK(cudaSetDevice(r.device));
      what(r);
    }
  }
  void wait() {
    each([](flow_rank &r) { OK(cudaStreamSynchronize(r.stream)); });
  }

  bool complain(const char *what, const flow_rank &r, size_t at, long long is, long long should) {
    if (wrong.empty()) {
      char text[256];
      snprintf(text, sizeof text, "%s of rank %d, at %zu: %lld (0x%llx) instead of %lld (0x%llx)", what, (int)r.rank,
               at, is, is, should, should);
      wrong = text;
    }
    return false;
  }
  template <typename T>
  bool same(const char *what, const flow_rank &r, const std::vector<T> &is, const std::vector<T> &should) {
    for (size_t i = 0; i < should.size(); i++)
      if (memcmp(&is[i], &should[i], sizeof(T)) != 0) {
        long long a = 0, b = 0;
        memcpy(&a, &is[i], sizeof(T)), memcpy(&b, &should[i], sizeof(T));
        return complain(what, r, i, a, b);
      }
    return true;
  }

  bool check_plan(flow_rank &r) {
    uint32_t K = shape.topk;
    OK(cudaSetDevice(r.device));
    std::vector<cuda_way> is = host_copy_of(r.host_route.ways, r.topk.size()), should(r.topk.size());
    std::vector<uint64_t> seats(r.tokens);
    for (size_t i = 0; i < r.topk.size(); i++) {
      int m = member_of(r.topk[i]);
      should[i] = {CUDA_WAY_NONE, 0};
      if (m < 0)
        continue;
      uint32_t seat = seat_of(r.index, (uint32_t)m);
      should[i] = {(uint32_t)r.row_of[i] | seat << CUDA_WAY_SEAT,
                   (uint32_t)r.number[i] | (uint32_t)(r.topk[i] % shape.experts) << CUDA_WAY_EXPERT};
      seats[i / K] |= 1ull << seat;
    }
    std::vector<uint32_t> tokens = host_copy_of(r.host_route.tokens, DEVICE_SEATS);
    for (uint32_t j = 0; j < shape.ranks; j++)
      if (tokens[seat_of(r.index, j)] != all[j].pairs[r.index].size())
        return complain("tokens", r, j, tokens[seat_of(r.index, j)], (long long)all[j].pairs[r.index].size());
    std::vector<uint32_t> counts = host_copy_of(r.host_route.counts, DEVICE_SEATS * shape.experts);
    for (uint32_t j = 0; j < shape.ranks; j++)
      for (uint32_t e = 0; e < shape.experts; e++)
        if (counts[seat_of(r.index, j) * shape.experts + e] != counted[j][r.index][e])
          return complain("counts", r, e, counts[seat_of(r.index, j) * shape.experts + e], counted[j][r.index][e]);
    return same("ways", r, is, should) && same("seats", r, host_copy_of(r.host_route.seats, r.tokens), seats);
  }

  // Where the rows of each selection of `to` stand: place[source][token * K + k], or -1.
  std::vector<std::vector<int64_t>> places_of(const flow_rank &to, std::vector<uint32_t> *begins = nullptr) {
    uint32_t M = shape.ranks, E = shape.experts;
    std::vector<std::vector<uint32_t>> first(M, std::vector<uint32_t>(E));
    uint32_t at = 0;
    for (uint32_t e = 0; e < E; e++) {
      if (shape.layout == WEFT_EP_PER_EXPERT)
        at = e * to.rows;
      if (begins)
        begins->push_back(at);
      for (uint32_t s = 0; s < M; s++) {
        first[s][e] = at;
        at += counted[to.index][s][e];
      }
      if (begins)
        begins->push_back(at);
      if (shape.layout == WEFT_EP_PACKED)
        at = (at + shape.alignment - 1) / shape.alignment * shape.alignment;
    }
    std::vector<std::vector<int64_t>> place(M);
    uint32_t base = 0;
    for (uint32_t s = 0; s < M; s++) {
      place[s].assign(all[s].topk.size(), -1);
      for (size_t i = 0; i < all[s].topk.size(); i++)
        if (all[s].number[i] >= 0 && member_of(all[s].topk[i]) == (int)to.index)
          place[s][i] = shape.layout == WEFT_EP_RANK_MAJOR ? base + (uint32_t)all[s].row_of[i]
                                                           : first[s][all[s].topk[i] % E] + (uint32_t)all[s].number[i];
      base += (uint32_t)to.pairs[s].size();
    }
    return place;
  }

  enum { FILL = 0xA5 };
  void clear(flow_rank &r) {
    OK(cudaSetDevice(r.device));
    OK(cudaMemset(r.out, FILL, r.buffer_rows * row.value_bytes));
    if (r.out_scales)
      OK(cudaMemset(r.out_scales, FILL, r.buffer_rows * row.scale_words * 4));
    for (int32_t *p : {r.src_rank, r.src_token})
      OK(cudaMemset(p, FILL, r.buffer_rows * 4));
    for (void *p : {(void *)r.local_expert, (void *)r.out_row_weights, (void *)r.slot})
      OK(cudaMemset(p, FILL, r.buffer_rows * shape.topk * 4));
    OK(cudaMemset(r.sum, FILL, (size_t)shape.tokens * shape.hidden * 2));
    OK(cudaDeviceSynchronize());
  }

  bool check_rows(flow_rank &r) {
    OK(cudaSetDevice(r.device));
    uint32_t M = shape.ranks, K = shape.topk, E = shape.experts, W = row.scale_words;
    size_t R = r.buffer_rows;
    std::vector<uint32_t> bounds;
    auto place = places_of(r, &bounds);
    std::vector<char> out = host_copy_of(r.out, R * row.value_bytes);
    std::vector<char> scales = W ? host_copy_of(r.out_scales, R * W * 4) : std::vector<char>();
    std::vector<int32_t> src_rank = host_copy_of(r.src_rank, R), src_token = host_copy_of(r.src_token, R);
    std::vector<int64_t> of(R, -1); // source << 32 | token
    for (uint32_t s = 0; s < M; s++)
      for (size_t i = 0; i < place[s].size(); i++)
        if (place[s][i] >= 0)
          of[place[s][i]] = (int64_t)s << 32 | (int64_t)(i / K);
    std::vector<char> bad(R, 0);
    in_parallel(R, [&](size_t n) {
      std::vector<char> fill(row.value_bytes + W * 4, (char)FILL);
      const char *values = fill.data(), *words = fill.data();
      int32_t rank, token;
      memset(&rank, FILL, 4), memset(&token, FILL, 4);
      bool gap = of[n] < 0 && shape.layout == WEFT_EP_PACKED && shape.zero_padding &&
                 n < bounds.back() + (shape.alignment - bounds.back() % shape.alignment) % shape.alignment;
      if (of[n] >= 0) {
        const flow_rank &s = all[of[n] >> 32];
        token = (int32_t)of[n], rank = s.rank;
        values = &s.sent[(size_t)token * row.value_bytes];
        words = W ? &s.row_scales[(size_t)token * W * 4] : words;
      } else if (gap) {
        memset(fill.data(), 0, fill.size());
        rank = token = -1;
      }
      if (memcmp(&out[n * row.value_bytes], values, row.value_bytes)) {
        bad[n] = 1;
        return;
      }
      for (uint32_t w = 0; w < W; w++) {
        size_t at = shape.columns ? (size_t)w * R + n : n * W + w;
        if (memcmp(&scales[at * 4], words + w * 4, 4))
          bad[n] = 2;
      }
      if (src_rank[n] != rank || src_token[n] != token)
        bad[n] = 3;
    });
    for (size_t n = 0; n < R; n++)
      if (bad[n])
        return complain(bad[n] == 1 ? "values" : bad[n] == 2 ? "scales" : "source", r, n, of[n], src_token[n]);
    std::vector<int32_t> counts(E);
    for (uint32_t e = 0; e < E; e++)
      for (uint32_t s = 0; s < M; s++)
        counts[e] += (int32_t)counted[r.index][s][e];
    if (!same("counts", r, host_copy_of(r.counts, E), counts))
      return false;
    if (shape.layout != WEFT_EP_RANK_MAJOR) {
      std::vector<int64_t> ranges(E * CAPACITY);
      for (uint32_t e = 0; e < E; e++)
        for (int64_t s = 0, begin = 0; s < M; begin += counted[r.index][s++][e])
          ranges[e * CAPACITY + all[s].rank] = begin << 32 | counted[r.index][s][e];
      if (!same("range", r, host_copy_of(r.range, ranges.size()), ranges))
        return false;
    }
    if (shape.layout == WEFT_EP_PACKED) {
      std::vector<int32_t> ends(E), slot, is = host_copy_of(r.slot, R * K);
      for (uint32_t e = 0; e < E; e++)
        ends[e] = (int32_t)bounds[2 * e + 1];
      for (uint32_t s = 0; s < M; s++)
        for (int32_t t : r.pairs[s])
          for (uint32_t k = 0; k < K; k++)
            slot.push_back((int32_t)place[s][(size_t)t * K + k]);
      slot.resize(std::min(slot.size(), R * K));
      if (!same("expert_end", r, host_copy_of(r.expert_end, E), ends) || !same("slot", r, is, slot))
        return false;
    }
    if (shape.layout == WEFT_EP_RANK_MAJOR) {
      std::vector<int32_t> experts;
      std::vector<float> weights;
      for (uint32_t s = 0; s < M; s++)
        for (int32_t t : r.pairs[s]) {
          std::vector<int32_t> e(K, -1);
          std::vector<float> w(K, 0);
          uint32_t n = 0;
          for (uint32_t k = 0; k < K; k++) {
            size_t i = (size_t)t * K + k;
            if (place[s][i] < 0)
              continue;
            e[shape.keep_places ? k : n] = (int32_t)(all[s].topk[i] % E);
            w[shape.keep_places ? k : n++] = all[s].weights[i];
          }
          experts.insert(experts.end(), e.begin(), e.end());
          weights.insert(weights.end(), w.begin(), w.end());
        }
      if (!same("local_expert", r, host_copy_of(r.local_expert, R * K), experts) ||
          !same("weights", r, host_copy_of(r.out_row_weights, R * K), weights))
        return false;
    }
    return true;
  }

  bool check_sums(flow_rank &r) {
    OK(cudaSetDevice(r.device));
    uint32_t M = shape.ranks, K = shape.topk, H = shape.hidden;
    std::vector<uint16_t> sum = host_copy_of(r.sum, (size_t)r.tokens * H);
    std::vector<std::vector<int64_t>> place(M);
    for (uint32_t m = 0; m < M; m++)
      place[m] = places_of(all[m])[r.index];
    std::vector<int64_t> bad(r.tokens, -1);
    std::vector<float> back((size_t)r.tokens * K, 0.0f);
    in_parallel(r.tokens, [&](size_t t) {
      std::vector<float> acc(H, 0.0f), part(H);
      for (uint32_t m = 0; m < M; m++) {
        bool any = false;
        std::fill(part.begin(), part.end(), 0.0f);
        for (uint32_t k = 0; k < K; k++) {
          int64_t at = place[m][t * K + k];
          if (at < 0)
            continue;
          uint32_t pair = (uint32_t)r.row_of[t * K + k];
          for (uint32_t s = 0; s < r.index; s++)
            pair += (uint32_t)all[m].pairs[s].size();
          back[t * K + k] = all[m].row_weights[(size_t)pair * K + k];
          if (any && shape.layout == WEFT_EP_RANK_MAJOR)
            continue;
          any = true;
          float weight = shape.layout == WEFT_EP_RANK_MAJOR || shape.unweighted ? 1.0f : r.weights[t * K + k];
          for (uint32_t h = 0; h < H; h++)
            part[h] = fmaf(weight, from_bf16(all[m].y[(size_t)at * H + h]), part[h]);
        }
        for (uint32_t h = 0; any && h < H; h++)
          acc[h] += from_bf16(to_bf16(part[h]));
      }
      for (uint32_t b = 0; b < shape.biases; b++)
        for (uint32_t h = 0; h < H; h++)
          acc[h] += from_bf16(r.bias[b][t * H + h]);
      for (uint32_t h = 0; h < H && bad[t] < 0; h++)
        if (sum[t * H + h] != to_bf16(acc[h]))
          bad[t] = (int64_t)h << 32 | (int64_t)sum[t * H + h] << 16 | to_bf16(acc[h]);
    });
    for (uint32_t t = 0; t < r.tokens; t++)
      if (bad[t] >= 0)
        return complain("sums", r, (size_t)t << 16 | (size_t)(bad[t] >> 32), bad[t] >> 16 & 0xFFFF, bad[t] & 0xFFFF);
    std::vector<uint64_t> missing = host_copy_of(r.missing, r.tokens);
    return same("missing", r, missing, std::vector<uint64_t>(r.tokens, 0)) &&
           (!shape.weights_back || same("out_weights", r, host_copy_of(r.sum_weights, (size_t)r.tokens * K), back));
  }

  // One operation, its combine, and both again by the kept route.
  bool try_all() {
    for (int round = 0; round < 2 && wrong.empty(); round++) {
      bool kept = round == 1;
      uint64_t op = next++;
      for (flow_rank &r : all)
        clear(r);
      each([&](flow_rank &r) {
        begin(r, op);
        if (!kept)
          plan(r);
      });
      each([&](flow_rank &r) { rows(r, kept); });
      each([&](flow_rank &r) { answers(r); });
      wait();
      for (flow_rank &r : all) {
        OK(cudaSetDevice(r.device));
        cuda_flow_op told;
        OK(cudaMemcpy(&told, r.op, sizeof told, cudaMemcpyDeviceToHost));
        if (told.lost || told.answers_lost)
          complain("lost", r, round, (long long)told.lost, (long long)told.answers_lost);
        if (!wrong.empty() || (!kept && !check_plan(r)) || !check_rows(r) || !check_sums(r))
          break;
      }
      if (!wrong.empty() && kept)
        wrong = "kept: " + wrong;
    }
    return wrong.empty();
  }
};

#endif
