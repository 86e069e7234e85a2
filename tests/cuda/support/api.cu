// Ranks on GPUs through the public interface, a thread of this process for each.
#include "cuda/support/api.cuh"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

using clock_type = std::chrono::steady_clock;

// --- failures ---

void rank::die(const char *format, ...) const {
  va_list args;
  flockfile(stdout);
  printf("  rank %d: ", index);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  printf("\n");
  fflush(stdout);
  _exit(1); // nothing is torn down: a kernel may be running
}

void rank::must(int rc, const char *what) const {
  if (rc != 0)
    die("%s: %s: %s", what, weft_err_name(rc), weft_last_error());
}

void rank::cuda(cudaError_t error, const char *what) const {
  if (error != cudaSuccess)
    die("%s: %s", what, cudaGetErrorString(error));
}

// --- memory ---

void rank::drain(const char *what) const {
  auto deadline = clock_type::now() + std::chrono::milliseconds(DEADLINE_MS);
  cudaError_t error;
  while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady) {
    if (clock_type::now() > deadline)
      die("%s: the stream has not come to its end within %d ms", what, DEADLINE_MS);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  cuda(error, what);
}

void rank::copy(void *to, const void *from, size_t size, cudaMemcpyKind kind) const {
  cuda(cudaMemcpyAsync(to, from, size, kind, stream), "cudaMemcpyAsync");
  drain("a copy");
}

enum { SCALES = EXPERTS * (ROWS * HIDDEN / WEFT_EP_BLOCK + 32) };

template <typename T> static T *allocate(const rank &r, size_t count) {
  void *memory = nullptr;
  r.cuda(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
  return (T *)memory;
}

static void allocate_all(rank &r) {
  r.cuda(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  r.dispatch = WEFT_EP_DISPATCH_ARGS_INIT;
  r.dispatch.x = allocate<uint16_t>(r, TOKENS * HIDDEN);
  r.dispatch.num_tokens = TOKENS;
  r.tokens = TOKENS;
  r.wide = allocate<int64_t>(r, TOKENS * TOPK);
  r.narrow = allocate<int32_t>(r, TOKENS * TOPK);
  r.spare = allocate<uint16_t>(r, TOKENS * HIDDEN * 2);
  r.outputs = allocate<uint16_t>(r, (size_t)EXPERTS * ROWS * HIDDEN);
  r.number = allocate<uint32_t>(r, 4);
  r.status = allocate<weft_ep_recv_status>(r, 1);
  r.lost_bits = allocate<uint64_t>(r, 1);
  r.masks = allocate<int32_t>(r, CAPACITY);
  r.local_expert = allocate<int32_t>(r, ROWS * TOPK);
  r.local_weights = allocate<float>(r, ROWS * TOPK);
  r.given = allocate<float>(r, TOKENS * HIDDEN);
  r.dispatch.topk_idx = r.wide;
  r.dispatch.topk_weights = allocate<float>(r, TOKENS * TOPK);
  r.dispatch.stream = r.stream;
  r.recv = WEFT_EP_RECV_ARGS_INIT;
  r.recv.layout = WEFT_EP_PER_EXPERT;
  r.recv.rows = ROWS;
  r.recv.x = allocate<uint16_t>(r, (size_t)EXPERTS * ROWS * HIDDEN);
  r.recv.scales = allocate<float>(r, SCALES);
  r.recv.counts = allocate<int32_t>(r, EXPERTS);
  r.recv.src_rank = allocate<int32_t>(r, EXPERTS * ROWS);
  r.recv.src_token = allocate<int32_t>(r, EXPERTS * ROWS);
  r.recv.range = allocate<int64_t>(r, EXPERTS * CAPACITY);
  r.recv.stream = r.stream;
  r.combine = WEFT_EP_COMBINE_ARGS_INIT;
  r.combine.y = r.recv.x;
  r.combine.out = allocate<uint16_t>(r, TOKENS * HIDDEN);
  r.combine.stream = r.stream;
}

void rank::poison_out() {
  const std::vector<char> bytes(TOKENS * HIDDEN * sizeof(uint16_t), (char)0xFF);
  drain("the operation before");
  copy(combine.out, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
}

void rank::poison() {
  const std::vector<char> bytes((size_t)EXPERTS * ROWS * HIDDEN * sizeof(uint16_t), (char)0xFF);
  auto fill = [&](void *memory, size_t size) { copy(memory, bytes.data(), size, cudaMemcpyHostToDevice); };
  fill(recv.x, bytes.size());
  fill(recv.scales, SCALES * sizeof(float));
  fill(recv.counts, EXPERTS * sizeof(int32_t));
  fill(recv.src_rank, EXPERTS * ROWS * sizeof(int32_t));
  fill(recv.src_token, EXPERTS * ROWS * sizeof(int32_t));
  fill(recv.range, EXPERTS * CAPACITY * sizeof(int64_t));
  fill(combine.out, TOKENS * HIDDEN * sizeof(uint16_t));
}

copies rank::fetch() const {
  copies c;
  auto take = [&](auto &to, const void *from, size_t count) {
    to.resize(count);
    copy(to.data(), from, count * sizeof to[0], cudaMemcpyDeviceToHost);
  };
  take(c.x, recv.x, (size_t)EXPERTS * ROWS * HIDDEN);
  take(c.scales, recv.scales, SCALES);
  take(c.counts, recv.counts, EXPERTS);
  take(c.src_rank, recv.src_rank, EXPERTS * ROWS);
  take(c.src_token, recv.src_token, EXPERTS * ROWS);
  take(c.range, recv.range, EXPERTS * CAPACITY);
  take(c.out, combine.out, TOKENS * HIDDEN);
  return c;
}

// --- input ---

struct input {
  std::vector<uint16_t> x;
  std::vector<int64_t> topk_idx;
  std::vector<float> weights;
};

static input make_input(int32_t rank, uint64_t key, const std::vector<int32_t> &routed, uint32_t topk) {
  pattern pattern = {};
  pattern.seed = 11;
  pattern.num_tokens = TOKENS;
  pattern.hidden = HIDDEN;
  pattern.topk = topk;
  pattern.experts_per_rank = EXPERTS;
  pattern.drop = 0.1f;
  input in;
  in.x.resize(TOKENS * HIDDEN);
  in.topk_idx.resize(TOKENS * TOPK);
  in.weights.resize(TOKENS * TOPK);
  pattern_fill(&pattern, key, rank, routed.data(), (uint32_t)routed.size(), in.x.data(), in.topk_idx.data(),
               in.weights.data());
  return in;
}

void rank::fill(uint64_t key, const std::vector<int32_t> &routed) {
  input in = make_input(index, key, routed, topk());
  std::vector<int32_t> narrowed(in.topk_idx.begin(), in.topk_idx.end());
  const float *weights = dispatch.topk_weights ? dispatch.topk_weights : combine.topk_weights;
  copy((void *)dispatch.x, in.x.data(), in.x.size() * sizeof in.x[0], cudaMemcpyHostToDevice);
  copy(wide, in.topk_idx.data(), in.topk_idx.size() * sizeof in.topk_idx[0], cudaMemcpyHostToDevice);
  copy(narrow, narrowed.data(), narrowed.size() * sizeof narrowed[0], cudaMemcpyHostToDevice);
  copy((void *)weights, in.weights.data(), in.weights.size() * sizeof in.weights[0], cudaMemcpyHostToDevice);
  poison();
}

void rank::fill_x(uint64_t key) {
  const std::vector<uint16_t> x = x_of(index, key);
  copy((void *)dispatch.x, x.data(), x.size() * sizeof x[0], cudaMemcpyHostToDevice);
  poison();
}

std::vector<uint16_t> rank::x_of(int32_t from, uint64_t key) const {
  return make_input(from, key, first_ranks(RANKS), topk()).x;
}

std::vector<int64_t> rank::selections_of(int32_t from, uint64_t key) const {
  return make_input(from, key, first_ranks(RANKS), topk()).topk_idx;
}

// --- the group ---

const std::vector<int32_t> &first_ranks(int32_t count) {
  static const std::vector<int32_t> lists[RANKS + 1] = {{}, {0}, {0, 1}, {0, 1, 2}};
  return lists[count];
}

void rank::open(int32_t founders, uint32_t op_timeout_ms, uint32_t operations_per_step) {
  weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  bool joins = index >= founders;
  int processors = 0;
  cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  options.store = world->store;
  options.prefix = "/weft/test/";
  options.rank = index;
  options.capacity = CAPACITY;
  options.founders = joins ? nullptr : first_ranks(founders).data();
  options.num_founders = joins ? 0 : (uint32_t)founders;
  options.flags = joins ? WEFT_EP_OPTION_JOIN_ONLY : 0;
  options.max_tokens = TOKENS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  options.experts_per_rank = EXPERTS;
  options.dtype = WEFT_EP_BF16;
  options.op_timeout_ms = op_timeout_ms;
  options.operations_per_step = operations_per_step;
  options.memory = WEFT_EP_MEMORY_CUDA;
  options.device = device;
  static const char *const ids[RANKS] = {"one", "two", "three"};
  const char *hosts = getenv("WEFT_TEST_HOSTS"); // number of hosts for which the ranks are configured
  if (hosts)
    options.host_id = ids[index % atoi(hosts)];
  if (getenv("WEFT_TEST_THROUGHPUT")) {
    options.mode = WEFT_EP_THROUGHPUT;
    options.window_bytes = 8 << 20;
  }
  options.max_processors = sharers > 1 ? (uint32_t)processors / sharers : 0;
  must(weft_ep_open(&ep, &options, DEADLINE_MS), "weft_ep_open");
}

void rank::activate(int32_t founders) {
  std::vector<int32_t> others;
  for (int32_t other : first_ranks(founders))
    if (other != index)
      others.push_back(other);
  must(weft_ep_connect(ep, others.data(), others.size(), DEADLINE_MS), "weft_ep_connect");
  must(weft_ep_activate(ep, DEADLINE_MS), "weft_ep_activate");
}

void rank::found() {
  open(RANKS, TIMEOUT_MS);
  activate(RANKS);
}

void rank::leave() {
  world->meet(*this, "the end");
  close();
}

void rank::close() {
  drain("the end");
  weft_ep_close(ep);
  ep = nullptr;
}

// --- operations ---

// --- experts and rows of other types, on the host ---

enum { BLOCKS = HIDDEN / WEFT_EP_BLOCK };

// Scales of row `row` as numbers.
static std::vector<float> row_scales(weft_ep_dtype dtype, const float *scales, size_t row) {
  std::vector<float> is(BLOCKS);
  const uint8_t *bytes = (const uint8_t *)scales + row * BLOCKS; // a multiple of 4
  for (uint32_t b = 0; b < BLOCKS; b++)
    is[b] = dtype == WEFT_EP_FP8_UE8M0 ? exp2f((float)bytes[b] - 127.0f) : scales[row * BLOCKS + b];
  return is;
}

void rank::run_experts() {
  drain("the dispatch");
  copies c = fetch();
  std::vector<uint16_t> y((size_t)EXPERTS * ROWS * HIDDEN);
  std::vector<double> row(HIDDEN);
  for (size_t e = 0; e < EXPERTS; e++)
    for (size_t i = e * ROWS; i < e * ROWS + (size_t)c.counts[e]; i++) {
      if (dtype() == WEFT_EP_BF16) {
        memcpy(&y[i * HIDDEN], &c.x[i * HIDDEN], HIDDEN * sizeof y[0]);
        continue;
      }
      oracle_uncast(row.data(), (const uint8_t *)c.x.data() + i * HIDDEN,
                    row_scales(dtype(), c.scales.data(), i).data(), HIDDEN);
      for (size_t h = 0; h < HIDDEN; h++)
        y[i * HIDDEN + h] = oracle_to_bf16(row[h]);
    }
  copy(outputs, y.data(), y.size() * sizeof y[0], cudaMemcpyHostToDevice);
  combine.y = outputs;
}

void rank::gather_scales() {
  std::vector<float> came(SCALES), usual(SCALES);
  copy(came.data(), recv.scales, SCALES * sizeof came[0], cudaMemcpyDeviceToHost);
  for (size_t e = 0; e < EXPERTS; e++)
    for (size_t i = 0; i < ROWS; i++)
      for (size_t b = 0; b < BLOCKS; b++)
        usual[(e * ROWS + i) * BLOCKS + b] =
            came[e * recv.scale_expert_stride + i * recv.scale_row_stride + b * recv.scale_block_stride];
  copy(recv.scales, usual.data(), SCALES * sizeof usual[0], cudaMemcpyHostToDevice);
}

void rank::send_given_scales(uint64_t key) {
  const void *x = dispatch.x;
  fill(key, first_ranks(RANKS));
  input in = make_input(index, key, first_ranks(RANKS), topk());
  std::vector<uint8_t> codes(TOKENS * HIDDEN);
  std::vector<float> scales(BLOCKS), apart(TOKENS * BLOCKS);
  for (size_t t = 0; t < TOKENS; t++) {
    oracle_cast(&codes[t * HIDDEN], scales.data(), &in.x[t * HIDDEN], HIDDEN, dtype());
    for (size_t b = 0; b < BLOCKS; b++)
      apart[b * TOKENS + t] = scales[b];
  }
  copy(spare, codes.data(), codes.size(), cudaMemcpyHostToDevice);
  copy(given, apart.data(), apart.size() * sizeof apart[0], cudaMemcpyHostToDevice);
  dispatch.x = spare;
  dispatch.scales = given;
  dispatch.scale_row_stride = 1;
  dispatch.scale_block_stride = TOKENS;
  must(weft_ep_dispatch(ep, &dispatch, &recv, nullptr, &op), "dispatch");
  run_experts();
  must(weft_ep_combine(ep, op, &combine, nullptr), "combine");
  ask();
  judge(*this, all_there(key));
  dispatch.x = x;
  dispatch.scales = nullptr;
  dispatch.scale_row_stride = dispatch.scale_block_stride = 0;
}

void rank::judge_places(uint64_t key) const {
  std::vector<int32_t> experts(ROWS * TOPK), src_rank(ROWS), src_token(ROWS);
  std::vector<float> weights(ROWS * TOPK);
  copy(experts.data(), recv.local_expert, experts.size() * sizeof experts[0], cudaMemcpyDeviceToHost);
  copy(weights.data(), recv.weights, weights.size() * sizeof weights[0], cudaMemcpyDeviceToHost);
  copy(src_rank.data(), recv.src_rank, src_rank.size() * sizeof src_rank[0], cudaMemcpyDeviceToHost);
  copy(src_token.data(), recv.src_token, src_token.size() * sizeof src_token[0], cudaMemcpyDeviceToHost);
  for (uint32_t row = 0; row < info.num_rows; row++) {
    input in = make_input(src_rank[row], key, first_ranks(RANKS), TOPK);
    for (uint32_t k = 0; k < TOPK; k++) {
      size_t at = (size_t)src_token[row] * TOPK + k, is = (size_t)row * TOPK + k;
      bool here = in.topk_idx[at] >= 0 && in.topk_idx[at] / EXPERTS == index;
      int32_t expert = here ? (int32_t)(in.topk_idx[at] % EXPERTS) : -1;
      float weight = here ? in.weights[at] : 0.0f;
      if (experts[is] != expert || weights[is] != weight)
        die("row %u, place %u: expert %d with %g, should be %d with %g", row, k, experts[is], (double)weights[is],
            expert, (double)weight);
    }
  }
}

static void ask_for_all(rank &r) {
  r.info = WEFT_EP_INFO_INIT;
  r.info.lost = r.lost;
  r.info.lost_cap = RANKS;
  r.result = WEFT_EP_RESULT_INIT;
  r.result.missing = r.missing;
  r.result.missing_cap = TOKENS * TOPK;
}

void rank::ask() {
  ask_for_all(*this);
  must(weft_ep_await(ep, op, &info, &result, DEADLINE_MS), "weft_ep_await");
}

void rank::pair() {
  ask_for_all(*this);
  must(weft_ep_dispatch(ep, &dispatch, &recv, &info, &op), "dispatch");
  must(weft_ep_combine(ep, op, &combine, &result), "combine");
  if (info.op != op)
    die("dispatch tells of operation %llu, and was %llu", (unsigned long long)info.op, (unsigned long long)op);
}

void rank::ask_newest() {
  drain("a graph");
  ask_for_all(*this);
  result.missing = nullptr;
  result.missing_cap = 0;
  must(weft_ep_await(ep, UINT64_MAX, &info, &result, DEADLINE_MS), "weft_ep_await");
  op = info.op;
}

cudaGraphExec_t rank::capture(const std::function<void()> &more) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  uint64_t captured;
  cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  must(weft_ep_dispatch(ep, &dispatch, &recv, nullptr, &captured), "dispatch, captured");
  must(weft_ep_combine(ep, captured, &combine, nullptr), "combine, captured");
  if (more)
    more();
  cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cuda(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  cuda(cudaGraphUpload(exec, stream), "cudaGraphUpload");
  drain("cudaGraphUpload");
  cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return exec;
}

void rank::replay(cudaGraphExec_t exec) {
  cuda(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
  ask_newest();
  check_whole();
}

void rank::replay_until(cudaGraphExec_t exec, uint32_t num_ranks) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(DEADLINE_MS);
  do {
    if (std::chrono::steady_clock::now() > deadline)
      die("no view of %u ranks within %d ms: operation %llu ran in one of %u", num_ranks, DEADLINE_MS,
          (unsigned long long)op, info.num_ranks);
    replay(exec);
  } while (info.num_ranks != num_ranks);
}

void rank::check_whole() const {
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  must(weft_ep_get_stats(ep, &stats), "weft_ep_stats");
  if (stats.lost != 0 || info.num_lost != 0 || result.num_lost != 0)
    die("operation %llu lost %u ranks in dispatch and %u in combine; %llu peers were lost so far",
        (unsigned long long)info.op, info.num_lost, result.num_lost, (unsigned long long)stats.lost);
}

// --- the oracle ---

expected all_there(uint64_t key) {
  return {key, first_ranks(RANKS), first_ranks(RANKS), -1, {}, {}};
}

static void judge_dispatch(const rank &r, const expected &is, oracle_case test, copies &c) {
  std::vector<oracle_source> sources(test.sources, test.sources + test.num_sources);
  for (oracle_source &source : sources)
    if (source.rank == is.masked_by)
      source.num_tokens = 0;
  test.sources = sources.data();
  weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  recv.layout = WEFT_EP_PER_EXPERT;
  recv.rows = ROWS;
  recv.x = c.x.data();
  recv.scales = test.dtype == WEFT_EP_BF16 ? nullptr : c.scales.data();
  recv.counts = c.counts.data();
  recv.src_rank = c.src_rank.data();
  recv.src_token = c.src_token.data();
  recv.range = c.range.data();
  oracle_verdict verdict =
      oracle_check_dispatch(&test, r.index, &recv, &r.info, is.lost.data(), (uint32_t)is.lost.size());
  if (!verdict.ok)
    r.die("operation %llu: %s", (unsigned long long)r.op, verdict.what);
}

// The oracle's input, and the memory that holds it.
struct judged {
  std::vector<input> in;
  std::vector<oracle_source> sources;
  oracle_case test = {};

  judged(const rank &r, const expected &is) {
    for (int32_t member : is.view)
      in.push_back(make_input(member, is.key, is.routed, r.topk()));
    sources.resize(in.size());
    for (size_t i = 0; i < in.size(); i++) {
      sources[i].rank = is.view[i];
      sources[i].num_tokens = r.world->ranks[is.view[i]].tokens;
      sources[i].x = in[i].x.data();
      sources[i].topk_idx = in[i].topk_idx.data();
      sources[i].topk_weights = in[i].weights.data();
    }
    test.hidden = HIDDEN;
    test.topk = r.topk();
    test.experts_per_rank = EXPERTS;
    test.capacity = CAPACITY;
    test.dtype = r.dtype();
    test.sources = sources.data();
    test.num_sources = (uint32_t)sources.size();
    test.combine_dtype = r.combine.dtype ? r.combine.dtype : WEFT_EP_COMBINE_BF16;
  }
};

static void judge_sums(const rank &r, const expected &is, const oracle_case &test, const uint16_t *out) {
  enum pattern_kind identity = PATTERN_PLAIN;
  oracle_verdict verdict =
      oracle_check_combine(&test, r.index, out, &r.result, pattern_expert, &identity, is.missing.data(),
                           (uint32_t)is.missing.size(), r.combine.flags & WEFT_EP_COMBINE_RENORMALIZE);
  if (!verdict.ok)
    r.die("operation %llu: %s", (unsigned long long)r.op, verdict.what);
}

void judge(const rank &r, const expected &is) {
  judged its(r, is);
  copies c = r.fetch();
  judge_dispatch(r, is, its.test, c);
  judge_sums(r, is, its.test, c.out.data());
}

void judge_combine(const rank &r, const expected &is, const oracle_answer &answer) {
  judged its(r, is);
  its.test.answer = &answer;
  judge_sums(r, is, its.test, r.fetch().out.data());
}

// --- threads ---

void world::run(const std::function<void(rank &)> &body) {
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < RANKS; i++) {
    rank &r = ranks[i];
    r.world = this;
    r.index = i;
    r.device = i % devices;
    r.sharers = (uint32_t)((RANKS - 1 - r.device) / devices + 1);
    r.cuda(cudaSetDevice(r.device), "cudaSetDevice");
    allocate_all(r);
  }
  for (rank &r : ranks)
    threads.emplace_back([&] {
      r.cuda(cudaSetDevice(r.device), "cudaSetDevice");
      body(r);
    });
  for (std::thread &thread : threads)
    thread.join();
}

void world::meet(const rank &r, const char *where) {
  std::unique_lock<std::mutex> locked(lock);
  uint64_t this_one = meeting;
  if (++came == RANKS) {
    came = 0;
    meeting++;
    changed.notify_all();
  }
  bool met = changed.wait_for(locked, std::chrono::milliseconds(2 * DEADLINE_MS), [&] { return meeting != this_one; });
  if (!met)
    r.die("%s: %d of %d ranks have come within %d ms", where, came, RANKS, 2 * DEADLINE_MS);
}
