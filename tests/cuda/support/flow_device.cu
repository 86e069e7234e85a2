// The memory of a rank with many tokens on its GPU: the data that control would write, its inputs, and room for
// received rows.
#include "cuda/support/flow_device.cuh"

#include <cstdlib>
#include <cstring>

#include "cuda/support/flow_ranks.cuh"
#include "cuda/support/flow_values.cuh"

void flow_group::make_room(flow_rank &r) {
  uint32_t M = shape.ranks, E = shape.experts, i = r.index;
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
}

void flow_group::make_state(flow_rank &r) {
  uint32_t M = shape.ranks, i = r.index;
  cuda_state *state = (cuda_state *)calloc(1, sizeof(cuda_state));
  OK(cudaHostAlloc((void **)&r.report, sizeof(device_report), cudaHostAllocMapped));
  memset((void *)r.report, 0, sizeof(device_report));
  state->report = r.report;
  state->control.timeout_ns = 2000000000;
  state->control.operations_per_step = 1;
  state->control.strict = shape.relayed;
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
}

void flow_group::make_route(flow_rank &r) {
  uint32_t K = shape.topk, E = shape.experts, max_rows = pairs_of(r) + 8;
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
}

void flow_group::write_control(flow_rank &r) {
  uint32_t M = shape.ranks, E = shape.experts, i = r.index;
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
    op.in[seat] = read(i, j);
    op.out[seat] = written(j, i);
    for (uint32_t e = 0; e < E; e++)
      counts[seat * E + e] = counted[i][j][e];
  }
  op.counts = device_copy_of(counts);
  r.op = device_array<cuda_flow_op>(1);
  OK(cudaMemcpy(r.op, &op, sizeof op, cudaMemcpyHostToDevice));
}

void flow_group::upload_inputs(flow_rank &r) {
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
}

void flow_group::make_outputs(flow_rank &r) {
  uint32_t K = shape.topk, E = shape.experts;
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
}

uint64_t flow_group::zero_copy_bytes() const {
  uint64_t rows = (uint64_t)shape.ranks * shape.tokens + 4; // RANK_MAJOR
  return shape.zero_copy ? cuda_round_up(rows * (2 * shape.hidden + 4 * shape.topk), CUDA_LINE) : 0;
}

void flow_group::show_zero_copy(flow_rank &r) {
  for (uint32_t j = 0; j < shape.ranks && !relays; j++) {
    uint64_t at = (uintptr_t)all[j].zero_copy;
    if (j != r.index)
      OK(cudaMemcpy(&r.state->zero_copy[seat_of(r.index, j)], &at, sizeof at, cudaMemcpyHostToDevice));
  }
}

// Copies values that a rank combines to the device: into its zero-copy memory, one array after the other, if it
// combines from there, and into separate memory otherwise.
template <typename T> static T *place(bool zero_copy, char *&at, const std::vector<T> &values) {
  if (!zero_copy)
    return device_copy_of(values);
  T *placed = (T *)at;
  OK(cudaMemcpy(placed, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  at += values.size() * sizeof(T);
  return placed;
}

void flow_group::make_combine(flow_rank &r) {
  uint32_t K = shape.topk, H = shape.hidden, i = r.index;
  r.y.resize(r.buffer_rows * H);
  in_parallel(r.buffer_rows, [&](size_t n) {
    for (uint32_t h = 0; h < H; h++)
      r.y[n * H + h] = to_bf16(unit_of(mix(shape.seed * 11 + i * 13 + n * H + h)) * 4.0f - 2.0f);
  });
  char *at = r.zero_copy = device_array<char>(zero_copy_bytes() + 1);
  bool in_place = is_zero_copy(r) && shape.layout == WEFT_EP_RANK_MAJOR;
  r.dy = place(in_place, at, r.y);
  for (uint32_t b = 0; b < 2; b++) {
    r.bias[b].resize((size_t)r.tokens * H);
    for (size_t n = 0; n < r.bias[b].size() && b < shape.biases; n++)
      r.bias[b][n] = to_bf16(unit_of(mix(n * 17 + b)) - 0.5f);
    r.dbias[b] = b < shape.biases ? device_copy_of(r.bias[b]) : nullptr;
  }
  r.row_weights.resize(r.buffer_rows * K);
  for (size_t n = 0; n < r.row_weights.size(); n++)
    r.row_weights[n] = unit_of(mix(n + i));
  r.drow_weights = shape.weights_back ? place(in_place, at, r.row_weights) : nullptr;
  r.sum = device_array<uint16_t>((size_t)shape.tokens * H);
  r.sum_weights = device_array<float>((size_t)shape.tokens * K);
  r.missing = device_array<uint64_t>(shape.tokens);
}

void flow_group::make_device(flow_rank &r) {
  OK(cudaSetDevice(r.device));
  make_room(r);
  make_state(r);
  make_route(r);
  write_control(r);
  upload_inputs(r);
  make_outputs(r);
  make_combine(r);
  r.plan_space = device_array<uint32_t>(cuda_plan_workspace(&flow, 132) / 4 + 64);
  r.rows_space = device_array<uint32_t>(cuda_rows_workspace(&flow, 132, r.host_route.max_rows) / 4 + 64);
}

void flow_group::clear(flow_rank &r) {
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
