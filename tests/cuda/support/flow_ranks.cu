// Ranks of many tokens in one process: their group, and its operations from begin to end.
#include "cuda/support/flow_ranks.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cuda/support/flow_device.cuh"

flow_group::flow_group(const flow_shape &shape) : shape(shape) {
  OK(cudaGetDeviceCount(&devices));
  if (getenv("FLOW_DEVICES"))
    devices = std::min(devices, atoi(getenv("FLOW_DEVICES")));
  uint32_t H = shape.hidden, K = shape.topk, E = shape.experts;
  bool fp8 = shape.dtype != WEFT_EP_BF16;
  uint32_t words = !fp8 ? 0 : shape.dtype == WEFT_EP_FP8_UE8M0 ? (H / 128 + 3) / 4 : H / 128;
  row = {fp8 && !shape.casts ? H : 2 * H, fp8 ? H : 2 * H, words, shape.casts ? shape.dtype : 0};
  cuda_flow_init(&flow, shape.window_bytes, shape.tokens, H, K, E, fp8 ? H + 4 * words : 2 * H);
  if (shape.relayed)
    relays.reset(new flow_relays(shape, flow));
  if (shape.batch)
    flow.rows.batch = flow.answers.batch = shape.batch;
  if (flow.bytes == 0) {
    fprintf(stderr, "a window of %llu bytes is too small for rows of %u values\n",
            (unsigned long long)shape.window_bytes, shape.hidden);
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
    open_peers(r.device, devices);
    bool early = true;
    OK(cuda_load_throughput(&early));
    OK(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&r.second, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&r.passed, cudaEventDisableTiming));
    for (uint32_t j = 0; j < shape.ranks; j++)
      if (i == j || !relays)
        window[i][j] = device_array<char>(flow.bytes);
    make_inputs(r);
  }
  for (flow_rank &r : all)
    route_all(r);
  count_all();
  for (flow_rank &r : all)
    make_device(r);
  for (flow_rank &r : all)
    show_zero_copy(r);
}

flow_group::~flow_group() {
  for (flow_rank &r : all) {
    cudaSetDevice(r.device);
    cudaStreamDestroy(r.stream);
    cudaStreamDestroy(r.second);
    cudaEventDestroy(r.passed);
  }
  // Frees the largest parts only; the rest is freed when the process ends.
  for (flow_rank &r : all) {
    cudaSetDevice(r.device);
    for (char *w : window[r.index])
      cudaFree(w);
    if (r.zero_copy != (char *)r.dy)
      cudaFree(r.zero_copy);
    cudaFree(r.out), cudaFree(r.dy), cudaFree(r.dx), cudaFree(r.sum);
  }
}

void flow_group::each(const std::function<void(flow_rank &)> &what) {
  for (flow_rank &r : all) {
    OK(cudaSetDevice(r.device));
    what(r);
  }
}

void flow_group::wait() {
  each([](flow_rank &r) { OK(cudaStreamSynchronize(r.stream)); });
}

bool flow_group::try_all() {
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
    all_rows(kept);
    for (uint32_t i = 0; i < shape.combines; i++)
      all_answers();
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
