// Computes on the host what ranks with many tokens dispatch, and the places of their rows by definition.
#include <cuda_fp8.h>

#include <cmath>

#include "cuda/support/flow_ranks.cuh"
#include "cuda/support/flow_values.cuh"

// Casts a row as dispatch does: e4m3 in blocks of 128, with the scales of the shape's type.
void flow_group::cast_row(const uint16_t *x, char *out, uint32_t *words) const {
  uint32_t H = shape.hidden;
  for (uint32_t b = 0; b < H / 128; b++) {
    float most = 1e-4f;
    for (uint32_t i = 0; i < 128; i++)
      most = fmaxf(most, fabsf(from_bf16(x[b * 128 + i])));
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
      out[b * 128 + i] = (char)__nv_cvt_float_to_fp8(from_bf16(x[b * 128 + i]) * inverse, __NV_SATFINITE, __NV_E4M3);
  }
}

void flow_group::make_row(flow_rank &r, uint64_t seed, size_t t) {
  uint32_t H = shape.hidden;
  bool fp8 = shape.dtype != WEFT_EP_BF16;
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
    cast_row((const uint16_t *)x, out, words);
}

// The only peer that token t goes to; the number of ranks if it may go to each.
uint32_t flow_group::only_peer(uint64_t seed, size_t t) const {
  if (shape.run == 0)
    return shape.ranks;
  size_t channel = t % CUDA_CHANNELS, of_channel = t / CUDA_CHANNELS;
  return (uint32_t)(mix(seed * 7 + channel * 1000 + of_channel / shape.run) >> 8) % (shape.ranks + 1);
}

void flow_group::make_selections(flow_rank &r, uint64_t seed) {
  uint32_t T = r.tokens, K = shape.topk, E = shape.experts;
  r.topk.resize((size_t)T * K);
  r.weights.resize((size_t)T * K);
  for (size_t t = 0; t < T; t++)
    for (uint32_t k = 0; k < K; k++) {
      int64_t &expert = r.topk[t * K + k];
      uint64_t v = mix(seed * 5 + t * K + k);
      uint32_t only = only_peer(seed, t);
      for (;; v = mix(v)) { // the selections of a token are distinct
        uint32_t peer = only < shape.ranks ? only : (uint32_t)(v >> 8) % shape.ranks;
        int32_t rank = (int32_t)(shape.ranks == 2 ? peer : 2 * peer + peer / 2);
        expert = (int64_t)rank * E + (uint32_t)(v >> 32) % E;
        bool again = false;
        for (uint32_t i = 0; i < k; i++)
          again |= r.topk[t * K + i] == expert;
        if (!again || (uint64_t)(only < shape.ranks ? 1 : shape.ranks) * E < 2 * K)
          break;
      }
      if (shape.one_expert)
        expert = E - 1;
      if (mix(v + 1) % 100 < shape.none)
        expert = v % 3 ? -1 : (int64_t)1000 * E;
      r.weights[t * K + k] = unit_of(mix(v + 2)) + 0.01f;
    }
}

void flow_group::make_inputs(flow_rank &r) {
  uint32_t T = r.tokens;
  uint64_t seed = shape.seed * 1000003ull + r.index * 7919ull;
  r.x.resize((size_t)T * row.in_bytes);
  r.sent.resize((size_t)T * row.value_bytes);
  r.row_scales.resize((size_t)T * row.scale_words * 4);
  in_parallel(T, [&](size_t t) { make_row(r, seed, t); });
  make_selections(r, seed);
}

int flow_group::member_of(int64_t expert) const {
  for (uint32_t i = 0; i < shape.ranks; i++)
    if (expert >= 0 && expert / shape.experts == all[i].rank)
      return (int)i;
  return -1;
}

// Routes by definition: the rows to each rank are in the order of tokens.
void flow_group::route_all(flow_rank &r) {
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

uint32_t flow_group::pairs_of(const flow_rank &r) const {
  uint32_t n = 0;
  for (auto &p : r.pairs)
    n += (uint32_t)p.size();
  return n;
}

void flow_group::count_all() {
  uint32_t M = shape.ranks, E = shape.experts;
  counted.assign(M, std::vector<std::vector<uint32_t>>(M, std::vector<uint32_t>(E)));
  for (flow_rank &s : all)
    for (size_t at = 0; at < s.topk.size(); at++)
      if (s.number[at] >= 0)
        counted[member_of(s.topk[at])][s.index][s.topk[at] % E]++;
}
