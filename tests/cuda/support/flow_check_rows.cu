// Checks that a rank with many tokens received every row at the right place, and the right description of rows.
#include "cuda/support/flow_ranks.cuh"
#include "cuda/support/flow_values.cuh"

bool flow_group::check_values(flow_rank &r, const places &place, const std::vector<uint32_t> &bounds) {
  uint32_t M = shape.ranks, K = shape.topk, W = row.scale_words;
  size_t R = r.buffer_rows;
  std::vector<char> out = fetch(r.out, R * row.value_bytes);
  std::vector<char> scales = W ? fetch(r.out_scales, R * W * 4) : std::vector<char>();
  std::vector<int32_t> src_rank = fetch(r.src_rank, R), src_token = fetch(r.src_token, R);
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
  return true;
}

bool flow_group::check_counts(flow_rank &r) {
  uint32_t M = shape.ranks, E = shape.experts;
  std::vector<int32_t> counts(E);
  for (uint32_t e = 0; e < E; e++)
    for (uint32_t s = 0; s < M; s++)
      counts[e] += (int32_t)counted[r.index][s][e];
  if (!same("counts", r, fetch(r.counts, E), counts))
    return false;
  if (shape.layout != WEFT_EP_RANK_MAJOR) {
    std::vector<int64_t> ranges(E * CAPACITY);
    for (uint32_t e = 0; e < E; e++)
      for (int64_t s = 0, begin = 0; s < M; begin += counted[r.index][s++][e])
        ranges[e * CAPACITY + all[s].rank] = begin << 32 | counted[r.index][s][e];
    if (!same("range", r, fetch(r.range, ranges.size()), ranges))
      return false;
  }
  return true;
}

bool flow_group::check_packed(flow_rank &r, const places &place, const std::vector<uint32_t> &bounds) {
  uint32_t M = shape.ranks, K = shape.topk, E = shape.experts;
  size_t R = r.buffer_rows;
  std::vector<int32_t> ends(E), slot, is = fetch(r.slot, R * K);
  for (uint32_t e = 0; e < E; e++)
    ends[e] = (int32_t)bounds[2 * e + 1];
  for (uint32_t s = 0; s < M; s++)
    for (int32_t t : r.pairs[s])
      for (uint32_t k = 0; k < K; k++)
        slot.push_back((int32_t)place[s][(size_t)t * K + k]);
  slot.resize(std::min(slot.size(), R * K));
  std::vector<float> came = fetch(r.out_row_weights, R), weights = came; // rows that nobody sent have any weight
  for (uint32_t e = 0; shape.zero_padding && e + 1 < E; e++)
    std::fill(weights.begin() + std::min<size_t>(R, bounds[2 * e + 1]),
              weights.begin() + std::min<size_t>(R, bounds[2 * e + 2]), 0.0f);
  for (uint32_t s = 0; s < M; s++)
    for (size_t i = 0; i < place[s].size(); i++)
      if (place[s][i] >= 0)
        weights[(size_t)place[s][i]] = all[s].weights[i];
  return same("expert_end", r, fetch(r.expert_end, E), ends) && same("slot", r, is, slot) &&
         same("weights", r, came, weights);
}

bool flow_group::check_selections(flow_rank &r, const places &place) {
  uint32_t M = shape.ranks, K = shape.topk, E = shape.experts;
  size_t R = r.buffer_rows;
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
  return same("local_expert", r, fetch(r.local_expert, R * K), experts) &&
         same("weights", r, fetch(r.out_row_weights, R * K), weights);
}

bool flow_group::check_rows(flow_rank &r) {
  OK(cudaSetDevice(r.device));
  std::vector<uint32_t> bounds;
  auto place = places_of(r, &bounds);
  if (!check_values(r, place, bounds) || !check_counts(r))
    return false;
  if (shape.layout == WEFT_EP_PACKED)
    return check_packed(r, place, bounds);
  return shape.layout != WEFT_EP_RANK_MAJOR || check_selections(r, place);
}
