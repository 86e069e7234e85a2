// Groups for throughput on real GPUs, through the public interface: routes that are filled, kept and ended by a rank
// that joins (gone.cu has routes with a lost rank), combines by a route, rows packed by expert, biases, returned
// weights, and reported values. (api.cu and membership.cu also run for such groups, for what they share with others.)
// Each case runs in a separate process. With arguments, only the named cases run.
#include "cuda/support/cases.cuh"
#include "cuda/support/routes.cuh"

#include <cstring>

#include "device/logfmt10.h"

namespace {

// Where a source's token goes, by rank: how many of its selections.
uint32_t selected(const std::vector<int64_t> &topk_idx, uint32_t token, int32_t rank) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < TOPK; k++) {
    int64_t expert = topk_idx[token * TOPK + k];
    count += expert >= 0 && expert / EXPERTS == rank;
  }
  return count;
}

// Rows by rank: those that go here by the selections of `route`, with the values of `x`.
void judge_by_rank(const rank &r, uint64_t route, uint64_t x) {
  auto src_rank = take<int32_t>(r, r.recv.src_rank, ROWS), src_token = take<int32_t>(r, r.recv.src_token, ROWS);
  auto rows = take<uint16_t>(r, r.recv.x, (size_t)ROWS * HIDDEN);
  uint32_t row = 0;
  for (int32_t from = 0; from < RANKS; from++) {
    auto topk_idx = r.selections_of(from, route);
    auto values = r.x_of(from, x);
    for (uint32_t t = 0; t < TOKENS; t++) {
      if (selected(topk_idx, t, r.index) == 0)
        continue;
      if (src_rank[row] != from || src_token[row] != (int32_t)t)
        r.die("row %u is token %d of rank %d, should be token %u of rank %d", row, src_token[row], src_rank[row], t,
              from);
      if (memcmp(&rows[(size_t)row * HIDDEN], &values[(size_t)t * HIDDEN], HIDDEN * 2) != 0)
        r.die("row %u, token %u of rank %d, has other values", row, t, from);
      row++;
    }
  }
  if (r.info.num_rows != row)
    r.die("%u rows came, should be %u", r.info.num_rows, row);
}

// Sums of rows that came back as they went: a token's, once for each rank that it went to.
void judge_sums(const rank &r, uint64_t route, uint64_t x) {
  auto out = take<uint16_t>(r, r.combine.out, TOKENS * HIDDEN);
  auto topk_idx = r.selections_of(r.index, route);
  auto values = r.x_of(r.index, x);
  for (uint32_t t = 0; t < TOKENS; t++) {
    int ranks = 0;
    for (int32_t to = 0; to < RANKS; to++)
      ranks += selected(topk_idx, t, to) > 0;
    for (uint32_t h = 0; h < HIDDEN; h++) {
      uint16_t should = oracle_to_bf16(ranks * oracle_bf16(values[t * HIDDEN + h]));
      if (out[t * HIDDEN + h] != should && oracle_bf16(should) != 0)
        r.die("token %u, value %u: %04x, should be %04x", t, h, out[t * HIDDEN + h], should);
    }
  }
}

void judge_arrays(const rank &r, weft_ep_route_t *route, uint64_t key) {
  struct weft_ep_route_arrays arrays = WEFT_EP_ROUTE_ARRAYS_INIT;
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  int32_t expert_rows[EXPERTS];
  info.expert_rows = expert_rows;
  info.expert_cap = EXPERTS;
  r.must(weft_ep_route_get_arrays(route, &arrays), "weft_ep_route_get_arrays");
  r.must(weft_ep_route_await(route, &info, DEADLINE_MS), "weft_ep_route_await");
  auto per_rank = take<int32_t>(r, arrays.tokens_per_rank, CAPACITY);
  auto per_expert = take<int32_t>(r, arrays.tokens_per_expert, CAPACITY * EXPERTS);
  auto in_rank = take<uint8_t>(r, arrays.in_rank, TOKENS * CAPACITY);
  auto rank_end = take<int32_t>(r, arrays.rank_end, CAPACITY);
  auto expert_end = take<int32_t>(r, arrays.expert_end, EXPERTS);
  auto slot = take<int32_t>(r, arrays.slot, (size_t)info.num_rows * TOPK);
  auto own = r.selections_of(r.index, key);
  std::vector<int32_t> selections(CAPACITY * EXPERTS), came(EXPERTS), next(EXPERTS);
  for (int64_t expert : own)
    if (expert >= 0)
      selections[expert]++;
  for (int32_t to = 0; to < CAPACITY; to++) {
    int32_t tokens = 0;
    for (uint32_t t = 0; t < TOKENS; t++) {
      bool goes = selected(own, t, to) > 0;
      tokens += goes;
      if (in_rank[t * CAPACITY + to] != goes)
        r.die("in_rank[%u][%d] is %d", t, to, in_rank[t * CAPACITY + to]);
    }
    if (per_rank[to] != tokens)
      r.die("tokens_per_rank[%d] is %d, should be %d", to, per_rank[to], tokens);
  }
  if (per_expert != selections)
    r.die("tokens_per_expert differs");
  for (int32_t from = 0; from < RANKS; from++)
    for (int64_t expert : r.selections_of(from, key))
      if (expert >= 0 && expert / EXPERTS == r.index)
        came[expert % EXPERTS]++;
  for (int32_t e = 0, at = 0; e < EXPERTS; e++) {
    next[e] = at;
    if (expert_end[e] != at + came[e] || expert_rows[e] != came[e])
      r.die("expert %d ends at %d and has %d rows, should be %d and %d", e, expert_end[e], expert_rows[e], at + came[e],
            came[e]);
    at = (at + came[e] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  uint32_t row = 0;
  for (int32_t from = 0; from < RANKS; from++) {
    auto topk_idx = r.selections_of(from, key);
    for (uint32_t t = 0; t < TOKENS; t++) {
      if (selected(topk_idx, t, r.index) == 0)
        continue;
      for (uint32_t k = 0; k < TOPK; k++) {
        int64_t expert = topk_idx[t * TOPK + k];
        bool here = expert >= 0 && expert / EXPERTS == r.index;
        int32_t should = here ? next[expert % EXPERTS]++ : -1;
        if (slot[row * TOPK + k] != should)
          r.die("slot[%u][%u] is %d, should be %d", row, k, slot[row * TOPK + k], should);
      }
      row++;
    }
    if (rank_end[from] != (int32_t)row)
      r.die("rank_end[%d] is %d, should be %u", from, rank_end[from], row);
  }
  if (info.num_rows != row || info.num_ranks != RANKS || info.num_lost != 0)
    r.die("the route tells of %u rows of %u ranks, %u lost", info.num_rows, info.num_ranks, info.num_lost);
}

void kept(rank &r) {
  r.found();
  receive_by_rank(r);
  weft_ep_route_t *route = make_route(r);
  r.fill(200, first_ranks(RANKS));
  by_route(r, route, false);
  judge_by_rank(r, 200, 200);
  r.judge_places(200);
  judge_sums(r, 200, 200);
  judge_arrays(r, route, 200);
  uint64_t bytes = r.info.wire_bytes;
  for (uint64_t x = 201; x < 206; x++) {
    r.fill_x(x);
    by_route(r, route, true);
    judge_by_rank(r, 200, x);
    judge_sums(r, 200, x);
    if (r.info.wire_bytes >= bytes && bytes > 0)
      r.die("%llu bytes were sent without routing, and %llu with it", (unsigned long long)r.info.wire_bytes,
            (unsigned long long)bytes);
  }
  r.poison_out();
  r.result = WEFT_EP_RESULT_INIT;
  r.must(weft_ep_combine_route(r.ep, route, &r.combine, &r.result, &r.op), "weft_ep_combine_route");
  judge_sums(r, 200, 205);
  if (r.result.num_missing != 0)
    r.die("a combine by a route misses %u selections", r.result.num_missing);
  r.fill(207, first_ranks(RANKS)); // and others go on as before
  r.pair();
  judge_by_rank(r, 207, 207);
  r.check_whole();
  r.world->meet(r, "the last operation");
  weft_ep_route_free(route);
  r.leave();
}

// What a route is filled with does not depend on the layout of the rows; and it serves receives by rank, too.
void kept_by_expert(rank &r) {
  static const weft_ep_layout layouts[] = {WEFT_EP_PER_EXPERT, WEFT_EP_PACKED};
  r.found();
  const weft_ep_recv_args usual = r.recv;
  for (uint64_t i = 0; i < 2; i++) {
    uint64_t key = 250 + 10 * i;
    weft_ep_route_t *route = make_route(r);
    r.recv = usual;
    r.recv.layout = layouts[i];
    if (layouts[i] == WEFT_EP_PACKED) { // with another alignment than the route has
      r.recv.alignment = 2 * ALIGNMENT;
      r.recv.rows = PACKED_ROWS;
      r.recv.slot = r.local_expert;
      r.recv.expert_end = (int32_t *)r.number;
    }
    r.fill(key, first_ranks(RANKS));
    by_route(r, route, false);
    judge_arrays(r, route, key);
    r.recv = usual;
    receive_by_rank(r);
    for (uint64_t x = key + 1; x < key + 3; x++) {
      r.fill_x(x);
      by_route(r, route, true);
      judge_by_rank(r, key, x);
      r.judge_places(key);
      judge_sums(r, key, x);
    }
    r.world->meet(r, "the last operation of a route");
    weft_ep_route_free(route);
  }
  r.leave();
}

// CHECK_ROUTE with these selections, as int64_t or int32_t; `difference` NULL: it is to go well.
void check_route(rank &r, weft_ep_route_t *route, const std::vector<int64_t> &topk_idx, bool narrow,
                 const char *difference) {
  const std::vector<int32_t> narrowed(topk_idx.begin(), topk_idx.end());
  const float *weights = r.dispatch.topk_weights;
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  bool filled = weft_ep_route_await(route, &info, DEADLINE_MS) == 0;
  r.copy(r.wide, topk_idx.data(), topk_idx.size() * sizeof topk_idx[0], cudaMemcpyHostToDevice);
  r.copy(r.narrow, narrowed.data(), narrowed.size() * sizeof narrowed[0], cudaMemcpyHostToDevice);
  r.dispatch.route = route;
  r.dispatch.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
  r.dispatch.topk_idx = narrow ? nullptr : r.wide;
  r.dispatch.topk_idx32 = narrow ? r.narrow : nullptr;
  r.dispatch.topk_weights = filled ? nullptr : weights;
  if (difference) {
    uint64_t op, next = weft_ep_next_op(r.ep);
    int rc = weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &op);
    if (rc != WEFT_ERR_INVALID || !strstr(weft_last_error(), difference) || weft_ep_next_op(r.ep) != next)
      r.die("\"%s\" (%s), should say \"%s\"", weft_last_error(), weft_err_name(rc), difference);
  } else {
    r.pair();
    r.check_whole();
  }
  r.dispatch.route = nullptr;
  r.dispatch.flags = 0;
  r.dispatch.topk_idx = r.wide;
  r.dispatch.topk_idx32 = nullptr;
  r.dispatch.topk_weights = weights;
}

// The device compares all selections, the first and the last too, and names the first that differs.
void checked(rank &r) {
  static const size_t places[] = {0, TOPK - 1, TOPK * 7 + 2, TOKENS * TOPK - 1};
  r.found();
  receive_by_rank(r);
  weft_ep_route_t *route = make_route(r);
  r.fill(240, first_ranks(RANKS));
  const std::vector<int64_t> right = r.selections_of(r.index, 240);
  check_route(r, route, right, false, "the route has no top-k");
  r.must(weft_ep_route_plan(route, r.wide, TOKENS, r.stream), "weft_ep_route_plan");
  for (int round = 0; round < 3; round++) { // the first fills, the others go by it
    for (size_t at : places) {
      std::vector<int64_t> changed = right;
      char words[96];
      changed[at] = changed[at] == 1 ? 2 : 1;
      if (at + 1 < TOKENS * TOPK)
        changed[at + 1] = changed[at + 1] == 1 ? 2 : 1; // a later one is not named
      snprintf(words, sizeof words, "topk_idx[%zu][%zu] is %lld, but the route was made with %lld", at / TOPK,
               at % TOPK, (long long)changed[at], (long long)right[at]);
      check_route(r, route, changed, round == 1, words);
    }
    r.fill_x(241 + round);
    check_route(r, route, right, round != 1, nullptr);
    judge_by_rank(r, 240, 241 + round);
    judge_sums(r, 240, 241 + round);
  }
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  r.must(weft_ep_route_await(route, &info, DEADLINE_MS), "weft_ep_route_await");
  if (info.op + 2 != r.op)
    r.die("operation %llu filled the route, should be %llu", (unsigned long long)info.op, (unsigned long long)r.op - 2);
  cudaGraph_t graph;
  r.cuda(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  r.dispatch.route = route;
  r.dispatch.flags = WEFT_EP_DISPATCH_CHECK_ROUTE;
  r.dispatch.topk_weights = nullptr;
  int rc = weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op);
  if (rc != WEFT_ERR_INVALID || !strstr(weft_last_error(), "which is being captured"))
    r.die("CHECK_ROUTE in a capture: %s, \"%s\"", weft_err_name(rc), weft_last_error());
  r.cuda(cudaStreamEndCapture(r.stream, &graph), "cudaStreamEndCapture");
  r.cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  r.world->meet(r, "the last operation");
  weft_ep_route_free(route);
  r.leave();
}

// A route has room for one row, and knows nothing of the others: a call that fills it fails, and so does one that uses
// it.
void too_short(rank &r) {
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  struct weft_ep_route_info info = WEFT_EP_ROUTE_INFO_INIT;
  weft_ep_route_t *route = nullptr;
  options.max_rows = 1;
  r.found();
  receive_by_rank(r);
  r.must(weft_ep_route_create(r.ep, &options, &route), "weft_ep_route_create");
  r.fill(245, first_ranks(RANKS));
  const float *weights = r.dispatch.topk_weights;
  r.dispatch.route = route;
  for (bool keeps : {false, true}) {
    r.dispatch.topk_idx = keeps ? nullptr : r.wide;
    r.dispatch.topk_weights = keeps ? nullptr : weights;
    r.info = WEFT_EP_INFO_INIT;
    r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "weft_ep_dispatch");
    int rc = weft_ep_await(r.ep, r.op, &r.info, nullptr, DEADLINE_MS);
    if (rc != WEFT_ERR_ROOM || !strstr(weft_last_error(), "more than max_rows, 1"))
      r.die("a route that is too short gives %s: %s", weft_err_name(rc), weft_last_error());
    r.must(weft_ep_finish(r.ep, r.op), "weft_ep_finish");
  }
  int rc = weft_ep_route_await(route, &info, DEADLINE_MS);
  if (rc != WEFT_ERR_ROOM || info.num_rows < 2)
    r.die("a route that is too short says %s, and has %u rows", weft_err_name(rc), info.num_rows);
  r.dispatch.route = nullptr;
  r.dispatch.topk_idx = r.wide;
  r.dispatch.topk_weights = weights;
  r.fill(246, first_ranks(RANKS));
  r.pair();
  r.check_whole();
  judge_by_rank(r, 246, 246);
  r.world->meet(r, "the last operation");
  weft_ep_route_free(route);
  r.leave();
}

// A graph fills a route again, behind a filling that had room for fewer rows, as which the host knows it. Who goes by
// it then, with that room, gets no row beyond.
void refilled(rank &r) {
  constexpr uint32_t FEW_ROWS = 8;
  constexpr size_t ALL = (size_t)PACKED_ROWS * HIDDEN, BEGIN = (size_t)FEW_ROWS * HIDDEN;
  r.found();
  r.recv.layout = WEFT_EP_PACKED;
  r.recv.alignment = ALIGNMENT;
  r.recv.rows = PACKED_ROWS;
  r.recv.slot = r.local_expert;
  r.recv.expert_end = (int32_t *)r.number;
  weft_ep_route_t *route = make_route(r);
  r.fill(247, first_ranks(RANKS));
  r.dispatch.route = route;
  cudaGraphExec_t exec = r.capture();
  r.world->meet(r, "the capture");
  r.recv.rows = FEW_ROWS;
  for (bool keeps : {false, true}) {
    const float *weights = r.dispatch.topk_weights;
    r.dispatch.topk_idx = keeps ? nullptr : r.wide;
    r.dispatch.topk_weights = keeps ? nullptr : weights;
    // In the stream: where ranks share a GPU, cudaDeviceSynchronize() would wait for a peer that waits for this rank.
    r.cuda(cudaMemsetAsync(r.recv.x, 0xA5, ALL * 2, r.stream), "cudaMemsetAsync");
    r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "weft_ep_dispatch");
    r.must(weft_ep_combine(r.ep, r.op, &r.combine, nullptr), "weft_ep_combine");
    r.drain("an operation with few rows");
    r.dispatch.topk_weights = weights;
    auto rows = take<uint16_t>(r, r.recv.x, ALL);
    for (size_t i = BEGIN; i < ALL; i++)
      if (rows[i] != 0xA5A5)
        r.die("%s, value %zu of row %zu is written, of %u rows", keeps ? "by the route" : "when it was filled",
              i % HIDDEN, i / HIDDEN, FEW_ROWS);
    if (!keeps)
      r.replay(exec);
  }
  r.check_whole();
  r.world->meet(r, "the last operation");
  r.cuda(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  weft_ep_route_free(route);
  r.leave();
}

// Ranks 0 and 1 fill routes, and rank 2 joins: who goes by them finds that out, in the same operation.
void joined(rank &r) {
  bool joins = r.index == 2;
  weft_ep_route_t *route = nullptr;
  receive_by_rank(r);
  if (!joins) {
    r.open(2, TIMEOUT_MS);
    r.activate(2);
    route = make_route(r);
    r.fill(210, first_ranks(2));
    by_route(r, route, false);
    by_route(r, route, true);
  }
  r.world->meet(r, "the route");
  if (joins) {
    r.open(2, TIMEOUT_MS);
    r.fill(211, first_ranks(RANKS));
    r.activate(2);
    r.pair();
    r.pair();
  } else {
    r.fill(211, first_ranks(RANKS));
    do
      r.pair();
    while (r.info.num_ranks != RANKS);
    r.pair();
  }
  r.check_whole();
  judge_by_rank(r, 211, 211);
  r.world->meet(r, "the view of three");
  if (!joins) {
    r.dispatch.route = route;
    const float *weights = r.dispatch.topk_weights;
    r.dispatch.topk_idx = nullptr;
    r.dispatch.topk_weights = nullptr;
    r.info = WEFT_EP_INFO_INIT;
    r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "dispatch by a route");
    int rc = weft_ep_await(r.ep, r.op, &r.info, nullptr, DEADLINE_MS);
    if (rc != WEFT_ERR_CONFLICT)
      r.die("a route that misses a rank gives %s: %s", weft_err_name(rc), weft_last_error());
    r.must(weft_ep_finish(r.ep, r.op), "weft_ep_finish");
    r.dispatch.topk_weights = weights;
    r.drain("the operation without rows");
    weft_ep_route_free(route);
  } else {
    weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
    none.stream = r.stream;
    r.must(weft_ep_dispatch(r.ep, &none, &r.recv, nullptr, &r.op), "dispatch");
    r.must(weft_ep_finish(r.ep, r.op), "weft_ep_finish");
    r.drain("the operation of the others");
  }
  r.leave();
}

// --- rows packed by expert, biases, weights back, and the status ---

void packed(rank &r) {
  r.found();
  static_assert(EXPERTS * ROWS >= PACKED_ROWS, "the buffers have room for packed rows");
  r.recv.layout = WEFT_EP_PACKED;
  r.recv.alignment = ALIGNMENT;
  r.recv.flags = WEFT_EP_RECV_ZERO_PADDING;
  r.recv.rows = PACKED_ROWS;
  r.recv.slot = r.local_expert;
  r.recv.expert_end = (int32_t *)r.number;
  r.recv.status = r.status;
  r.recv.status_size = sizeof(weft_ep_recv_status);
  for (uint64_t key = 220; key < 224; key++) {
    r.fill(key, first_ranks(RANKS));
    r.pair();
    r.check_whole();
    auto counts = take<int32_t>(r, r.recv.counts, EXPERTS), end = take<int32_t>(r, r.recv.expert_end, EXPERTS);
    auto src_rank = take<int32_t>(r, r.recv.src_rank, PACKED_ROWS);
    auto src_token = take<int32_t>(r, r.recv.src_token, PACKED_ROWS);
    auto rows = take<uint16_t>(r, r.recv.x, (size_t)PACKED_ROWS * HIDDEN);
    auto status = take<weft_ep_recv_status>(r, r.status, 1)[0];
    int32_t begin = 0;
    for (int32_t e = 0; e < EXPERTS; e++) {
      int32_t row = begin;
      for (int32_t from = 0; from < RANKS; from++) {
        auto topk_idx = r.selections_of(from, key);
        auto x = r.x_of(from, key);
        for (uint32_t i = 0; i < TOKENS * TOPK; i++) {
          if (topk_idx[i] != (int64_t)r.index * EXPERTS + e)
            continue;
          uint32_t t = i / TOPK;
          if (src_rank[row] != from || src_token[row] != (int32_t)t ||
              memcmp(&rows[(size_t)row * HIDDEN], &x[(size_t)t * HIDDEN], HIDDEN * 2) != 0)
            r.die("row %d of expert %d is not token %u of rank %d", row, e, t, from);
          row++;
        }
      }
      if (end[e] != row || counts[e] != row - begin)
        r.die("expert %d ends at %d with %d rows, should be %d and %d", e, end[e], counts[e], row, row - begin);
      begin = (row + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
      for (; row < begin; row++)
        for (uint32_t h = 0; h < HIDDEN; h++)
          if (src_rank[row] != -1 || rows[(size_t)row * HIDDEN + h] != 0)
            r.die("row %d between the parts is not 0", row);
    }
    if (r.info.rows_needed != (uint32_t)begin || status.rows_needed != (uint32_t)begin || status.written != r.op + 1 ||
        status.num_ranks != RANKS || status.num_lost != 0)
      r.die("the status has %u rows in operation %llu, should be %d", status.rows_needed,
            (unsigned long long)status.written, begin);
  }
  r.check_whole();
  r.leave();
}

void weights_back(rank &r) {
  r.found();
  receive_by_rank(r);
  for (uint64_t key = 230; key < 233; key++) {
    r.fill(key, first_ranks(RANKS));
    r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "dispatch");
    r.combine.row_weights = r.recv.weights; // as they came
    r.combine.out_weights = r.given;
    r.combine.bias[0] = r.dispatch.x;
    r.must(weft_ep_combine(r.ep, r.op, &r.combine, nullptr), "combine");
    r.ask();
    r.check_whole();
    auto back = take<float>(r, r.given, TOKENS * TOPK), sent = take<float>(r, r.dispatch.topk_weights, TOKENS * TOPK);
    auto topk_idx = r.selections_of(r.index, key);
    for (uint32_t i = 0; i < TOKENS * TOPK; i++)
      if (back[i] != (topk_idx[i] >= 0 ? sent[i] : 0.0f))
        r.die("weight %u came back as %g", i, (double)back[i]);
    auto out = take<uint16_t>(r, r.combine.out, TOKENS * HIDDEN), x = r.x_of(r.index, key);
    for (uint32_t t = 0; t < TOKENS; t++) {
      int ranks = 1; // the bias is the row itself
      for (int32_t to = 0; to < RANKS; to++)
        ranks += selected(topk_idx, t, to) > 0;
      for (uint32_t h = 0; h < HIDDEN; h++)
        if (out[t * HIDDEN + h] != oracle_to_bf16(ranks * oracle_bf16(x[t * HIDDEN + h])))
          r.die("token %u with its bias, value %u: %04x", t, h, out[t * HIDDEN + h]);
    }
  }
  r.check_whole();
  r.leave();
}

// Rank 0 masks rank 2, and what is missing is made up for, without weights: each selection counts as 1.
void unweighted(rank &r) {
  static const weft_ep_layout layouts[] = {WEFT_EP_PER_EXPERT, WEFT_EP_PACKED, WEFT_EP_RANK_MAJOR};
  const float *weights = r.dispatch.topk_weights;
  oracle_answer answer = {};
  answer.unweighted = true;
  r.found();
  if (r.index == 0)
    r.must(weft_ep_mask_update(r.ep, 2, true), "weft_ep_mask_update");
  r.combine.flags = WEFT_EP_COMBINE_RENORMALIZE | WEFT_EP_COMBINE_UNWEIGHTED;
  for (uint64_t i = 0; i < 6; i++) { // with weights that the dispatch brings, and without
    expected is = all_there(250 + i);
    if (r.index == 0)
      is.missing = {2};
    r.recv.layout = layouts[i / 2];
    r.recv.rows = r.recv.layout == WEFT_EP_PACKED ? (uint32_t)PACKED_ROWS : (uint32_t)ROWS;
    answer.by_rank = r.recv.layout == WEFT_EP_RANK_MAJOR;
    r.fill(is.key, first_ranks(RANKS));
    r.dispatch.topk_weights = i % 2 ? nullptr : weights;
    r.pair();
    judge_combine(r, is, answer);
    if (r.index == 0 && r.result.num_missing == 0)
      r.die("nothing is missing of rank 2, which is masked");
    r.check_whole();
    r.dispatch.topk_weights = weights;
  }
  r.leave();
}

// --- answers as logfmt10 ---

// All layouts, each as bf16 and as logfmt10, one after the other in the same windows; a combine by a route, too.
void coded(rank &r) {
  static const weft_ep_layout layouts[] = {WEFT_EP_PER_EXPERT, WEFT_EP_PACKED, WEFT_EP_RANK_MAJOR};
  const uint64_t coded_row = HIDDEN / LOGFMT10_BLOCK * (LOGFMT10_CODE_BYTES + LOGFMT10_HEAD_BYTES);
  weft_ep_route_t *route = nullptr;
  r.found();
  route = make_route(r);
  for (uint64_t i = 0; i < 12; i++) {
    oracle_answer answer = {};
    bool is_coded = i % 2 == 1;
    r.recv.layout = layouts[i / 2 % 3];
    r.recv.rows = r.recv.layout == WEFT_EP_PACKED ? (uint32_t)PACKED_ROWS : (uint32_t)ROWS;
    answer.by_rank = answer.unweighted = r.recv.layout == WEFT_EP_RANK_MAJOR;
    r.combine.dtype = is_coded ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
    r.fill(260 + i, first_ranks(RANKS));
    r.dispatch.route = route;
    r.pair();
    r.dispatch.route = nullptr;
    judge_combine(r, all_there(260 + i), answer);
    r.check_whole();
    uint64_t bytes = r.result.wire_bytes;
    r.poison_out();
    r.result = WEFT_EP_RESULT_INIT;
    r.must(weft_ep_combine_route(r.ep, route, &r.combine, &r.result, &r.op), "weft_ep_combine_route");
    judge_combine(r, all_there(260 + i), answer);
    if (r.result.wire_bytes != bytes || bytes == 0 || bytes % (is_coded ? coded_row : 2 * (uint64_t)HIDDEN) != 0)
      r.die("%llu bytes and %llu by the route are no rows of the type", (unsigned long long)bytes,
            (unsigned long long)r.result.wire_bytes);
  }
  r.world->meet(r, "the last operation");
  weft_ep_route_free(route);
  r.leave();
}

// Rank 2 combines as logfmt10, and the others as bf16: they are lost to each other, and nobody takes codes for values.
void other_combine(rank &r) {
  oracle_answer by_rank = {};
  expected is = all_there(280);
  by_rank.by_rank = by_rank.unweighted = true;
  r.open(RANKS, SHORT_MS);
  r.activate(RANKS);
  r.recv.layout = WEFT_EP_RANK_MAJOR;
  r.combine.dtype = r.index == 2 ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
  r.fill(is.key, first_ranks(RANKS));
  r.world->meet(r, "the input");
  r.pair();
  uint32_t lost = r.index == 2 ? 2 : 1;
  if (r.info.num_lost != 0 || r.result.num_lost != lost)
    r.die("%u and %u ranks are lost, should be 0 and %u", r.info.num_lost, r.result.num_lost, lost);
  is.missing = r.index == 2 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{2};
  judge_combine(r, is, by_rank);
  r.leave();
}

const struct test tests[] = {{"kept", kept},
                             {"kept_by_expert", kept_by_expert},
                             {"checked", checked},
                             {"too_short", too_short},
                             {"refilled", refilled},
                             {"joined", joined},
                             {"packed", packed},
                             {"weights_back", weights_back},
                             {"unweighted", unweighted},
                             {"coded", coded},
                             {"other_combine", other_combine}};

} // namespace

int main(int argc, char **argv) {
  return run_tests(tests, sizeof tests / sizeof *tests, argc, argv);
}
