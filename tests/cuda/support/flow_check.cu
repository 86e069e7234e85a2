// Checks the plans and sums of ranks with many tokens by definition.
#include <atomic>
#include <cmath>

#include "cuda/support/flow_ranks.cuh"
#include "cuda/support/flow_values.cuh"

bool flow_group::complain(const char *what, const flow_rank &r, size_t at, long long is, long long should) {
  if (wrong.empty()) {
    char text[256];
    snprintf(text, sizeof text, "%s of rank %d, at %zu: %lld (0x%llx) instead of %lld (0x%llx)", what, (int)r.rank, at,
             is, is, should, should);
    wrong = text;
  }
  return false;
}

bool flow_group::check_plan(flow_rank &r) {
  uint32_t K = shape.topk;
  OK(cudaSetDevice(r.device));
  std::vector<cuda_way> is = fetch(r.host_route.ways, r.topk.size()), should(r.topk.size());
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
  std::vector<uint32_t> tokens = fetch(r.host_route.tokens, DEVICE_SEATS);
  for (uint32_t j = 0; j < shape.ranks; j++)
    if (tokens[seat_of(r.index, j)] != all[j].pairs[r.index].size())
      return complain("tokens", r, j, tokens[seat_of(r.index, j)], (long long)all[j].pairs[r.index].size());
  std::vector<uint32_t> counts = fetch(r.host_route.counts, DEVICE_SEATS * shape.experts);
  for (uint32_t j = 0; j < shape.ranks; j++)
    for (uint32_t e = 0; e < shape.experts; e++)
      if (counts[seat_of(r.index, j) * shape.experts + e] != counted[j][r.index][e])
        return complain("counts", r, e, counts[seat_of(r.index, j) * shape.experts + e], counted[j][r.index][e]);
  return same("ways", r, is, should) && same("seats", r, fetch(r.host_route.seats, r.tokens), seats);
}

// Where `to` has the row of each selection: place[source][token * K + k], or -1.
flow_group::places flow_group::places_of(const flow_rank &to, std::vector<uint32_t> *begins) {
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
  places place(M);
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

// Adds the largest error that each value of a row may have after it was sent as logfmt10 (device/logfmt10.h) to `off`.
static void add_coding(const std::vector<float> &row, std::vector<float> &off) {
  for (size_t first = 0; first < row.size(); first += WEFT_EP_BLOCK) {
    float most = 0.0f, least = INFINITY;
    for (size_t h = first; h < first + WEFT_EP_BLOCK; h++) {
      float size = fabsf(row[h]);
      most = std::max(most, size);
      least = size >= 0x1p-126f ? std::min(least, size) : least;
    }
    float range = most >= 0x1p-126f ? std::min(log2f(most / least), 32.0f) : 0.0f, low = most * exp2f(-range);
    float ratio = exp2f(std::max(range, 0.125f) / 510.0f), relative = (ratio - 1) / (ratio + 1) + 0x1p-15f;
    for (size_t h = first; h < first + WEFT_EP_BLOCK; h++) {
      float size = fabsf(row[h]), coded = size >= low ? size * relative : low;
      off[h] += coded + (size + coded) * 0x1p-8f + 0x1p-126f; // and rounded to bf16
    }
  }
}

bool flow_group::check_sums(flow_rank &r) {
  OK(cudaSetDevice(r.device));
  uint32_t M = shape.ranks, K = shape.topk, H = shape.hidden;
  std::vector<uint16_t> sum = fetch(r.sum, (size_t)r.tokens * H);
  places place(M);
  for (uint32_t m = 0; m < M; m++)
    place[m] = places_of(all[m])[r.index];
  std::vector<int64_t> bad(r.tokens, -1);
  std::vector<float> back((size_t)r.tokens * K, 0.0f);
  std::atomic<size_t> coded{0}, inexact{0};
  in_parallel(r.tokens, [&](size_t t) {
    std::vector<float> acc(H, 0.0f), part(H), off(H, 0.0f);
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
        back[t * K + k] = all[m].row_weights[shape.layout == WEFT_EP_RANK_MAJOR ? (size_t)pair * K + k : (size_t)at];
        if (any && shape.layout == WEFT_EP_RANK_MAJOR)
          continue;
        any = true;
        float weight = shape.layout == WEFT_EP_RANK_MAJOR || shape.unweighted ? 1.0f : r.weights[t * K + k];
        for (uint32_t h = 0; h < H; h++)
          part[h] = fmaf(weight, from_bf16(all[m].y[(size_t)at * H + h]), part[h]);
      }
      for (uint32_t h = 0; any && h < H; h++) {
        part[h] = from_bf16(to_bf16(part[h]));
        acc[h] += part[h];
      }
      if (!any || !shape.coded || m == r.index)
        continue;
      add_coding(part, off);
      coded++;
    }
    for (uint32_t b = 0; b < shape.biases; b++)
      for (uint32_t h = 0; h < H; h++)
        acc[h] += from_bf16(r.bias[b][t * H + h]);
    for (uint32_t h = 0; h < H && bad[t] < 0; h++) {
      if (sum[t * H + h] == to_bf16(acc[h]))
        continue;
      inexact++;
      float most = off[h] > 0 ? off[h] + (fabsf(acc[h]) + off[h]) * 0x1p-8f : 0.0f;
      if (!(fabsf(from_bf16(sum[t * H + h]) - acc[h]) <= most))
        bad[t] = (int64_t)h << 32 | (int64_t)sum[t * H + h] << 16 | to_bf16(acc[h]);
    }
  });
  if (coded > 16 && inexact == 0)
    return complain("sums that travelled coded, and are exact,", r, 0, (long long)coded, 0);
  for (uint32_t t = 0; t < r.tokens; t++)
    if (bad[t] >= 0)
      return complain("sums", r, (size_t)t << 16 | (size_t)(bad[t] >> 32), bad[t] >> 16 & 0xFFFF, bad[t] & 0xFFFF);
  std::vector<uint64_t> missing = fetch(r.missing, r.tokens);
  return same("missing", r, missing, std::vector<uint64_t>(r.tokens, 0)) &&
         (!shape.weights_back || same("out_weights", r, fetch(r.sum_weights, (size_t)r.tokens * K), back));
}
