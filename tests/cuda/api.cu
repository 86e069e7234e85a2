// The public interface on real GPUs: what it promises beyond right sums. Each case runs in a separate process, because
// a fault of the device ends the process. With arguments, only the named cases run.
#include "cuda/support/api.cuh"
#include "cuda/support/cases.cuh"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

enum { SILENCE_MS = 200, REPLAYS = 50, FEW = 10, SHORT_ROWS = 8 };

using clock_type = std::chrono::steady_clock;

clock_type::time_point deadline_from_now(void) {
  return clock_type::now() + std::chrono::milliseconds(DEADLINE_MS);
}

// --- equal inputs give equal bits ---

void check_equal(const rank &r, const copies &a, const copies &b) {
  auto check = [&](const auto &x, const auto &y, const char *what) {
    for (size_t i = 0; i < x.size(); i++)
      if (x[i] != y[i])
        r.die("%s[%zu] is %llx, and was %llx in the operation before with the same data", what, i,
              (unsigned long long)y[i], (unsigned long long)x[i]);
  };
  check(a.counts, b.counts, "counts");
  check(a.src_rank, b.src_rank, "src_rank");
  check(a.src_token, b.src_token, "src_token");
  check(a.range, b.range, "range");
  check(a.x, b.x, "x");
  check(a.out, b.out, "out");
}

void equal_bits(rank &r) {
  r.found();
  copies before;
  for (int round = 0; round < 4; round++) {
    r.fill(2, first_ranks(RANKS));
    r.pair();
    if (r.op != (uint64_t)round)
      r.die("operation %llu, should be %d", (unsigned long long)r.op, round);
    judge(r, all_there(2));
    copies now = r.fetch();
    if (round > 0)
      check_equal(r, before, now);
    before = now;
  }
  r.check_whole();
  r.leave();
}

// --- rank 0 masks rank 2 ---

void check_state(const rank &r, enum weft_ep_rank_state should) {
  enum weft_ep_rank_state states[CAPACITY];
  r.must(weft_ep_states(r.ep, states, sizeof states / sizeof *states, nullptr), "weft_ep_states");
  if (states[2] != should)
    r.die("rank 2 has state %d, should have %d", (int)states[2], (int)should);
}

void mask(rank &r) {
  r.found();
  for (uint64_t round = 0; round < 5; round++) {
    bool masked = round == 1 || round == 2, changes = round == 1 || round == 3;
    uint64_t key = 10 + round;
    if (r.index == 0 && changes)
      r.must(weft_ep_mask_update(r.ep, 2, masked), "weft_ep_mask_update");
    if (r.index == 0)
      check_state(r, masked ? WEFT_EP_MASKED : WEFT_EP_ACTIVE);
    r.combine.flags = round == 2 ? WEFT_EP_COMBINE_RENORMALIZE : 0;
    r.fill(key, first_ranks(RANKS));
    r.pair();
    expected is = all_there(key);
    if (masked && r.index == 0)
      is.missing = {2};
    if (masked && r.index == 2)
      is.masked_by = 0;
    judge(r, is);
    bool some = r.result.num_missing > 0;
    if (some != (masked && r.index == 0))
      r.die("round %llu: %u selections are missing", (unsigned long long)round, r.result.num_missing);
    r.check_whole();
  }
  r.leave();
}

// Rows by rank, of a dispatch without weights: where rank 2 brings nothing, each selection counts as 1.
void no_weights(rank &r) {
  expected is = all_there(16);
  oracle_answer by_rank = {};
  by_rank.unweighted = by_rank.by_rank = true;
  r.found();
  r.fill(is.key, first_ranks(RANKS));
  if (r.index == 0) {
    r.must(weft_ep_mask_update(r.ep, 2, true), "weft_ep_mask_update");
    is.missing = {2};
  }
  r.dispatch.topk_weights = nullptr;
  r.recv.layout = WEFT_EP_RANK_MAJOR;
  r.combine.flags = WEFT_EP_COMBINE_RENORMALIZE;
  r.pair();
  judge_combine(r, is, by_rank);
  if (r.index == 0 && r.result.num_missing == 0)
    r.die("nothing is missing of rank 2, which is masked");
  r.leave();
}

// --- rank 0 has room for too few rows ---

void check_told(const rank &r, const copies &c) {
  int32_t most = 0;
  char words[96];
  for (int32_t count : c.counts)
    most = count > most ? count : most;
  snprintf(words, sizeof words, "the buffer has room for %d rows for each expert, but %d arrived", SHORT_ROWS, most);
  if (most <= SHORT_ROWS || !strstr(weft_last_error(), words))
    r.die("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

void combine_anyway(rank &r) {
  uint64_t op;
  r.info = WEFT_EP_INFO_INIT;
  r.result = WEFT_EP_RESULT_INIT;
  r.recv.rows = SHORT_ROWS;
  int rc = weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, &r.info, &op);
  if (rc != WEFT_ERR_ROOM)
    r.die("with too few rows dispatch returns %s", weft_err_name(rc));
  check_told(r, r.fetch());
  r.must(weft_ep_combine(r.ep, op, &r.combine, &r.result), "combine after ROOM");
  r.recv.rows = ROWS;
}

void limit(rank &r) {
  r.found();
  for (uint64_t key = 20; key < 23; key++) {
    bool cut = key == 21;
    r.fill(key, first_ranks(RANKS));
    if (cut && r.index == 0)
      combine_anyway(r);
    else
      r.pair();
    if (!cut)
      judge(r, all_there(key));
    r.check_whole();
  }
  r.leave();
}

// --- bad input ---

void refused(const rank &r, const struct weft_ep_dispatch_args &args, const char *words) {
  uint64_t op, next = weft_ep_next_op(r.ep);
  int rc = weft_ep_dispatch(r.ep, &args, &r.recv, nullptr, &op);
  if (rc != WEFT_ERR_INVALID || !strstr(weft_last_error(), words))
    r.die("dispatch returns %s, \"%s\", and should refuse with \"%s\"", weft_err_name(rc), weft_last_error(), words);
  if (weft_ep_next_op(r.ep) != next)
    r.die("a dispatch that was refused has begun");
}

void refuse_dispatches(const rank &r, const void *host, cudaStream_t foreign) {
  struct weft_ep_dispatch_args args = r.dispatch;
  args.x = host;
  refused(r, args, "x (");
  args = r.dispatch;
  args.x = (const char *)args.x + 2;
  refused(r, args, "is not aligned");
  args = r.dispatch;
  args.topk_idx = (const int64_t *)host;
  refused(r, args, "topk_idx (");
  args = r.dispatch;
  args.num_tokens = TOKENS + 1;
  refused(r, args, "33 tokens");
  args = r.dispatch;
  args.scales = args.x;
  refused(r, args, "scales");
  args = r.dispatch;
  args.stream = foreign;
  if (foreign)
    refused(r, args, "the stream is one of device 1");
}

// A stream of device 1, if there is one.
cudaStream_t foreign_stream(const rank &r) {
  cudaStream_t stream = nullptr;
  if (r.world->devices == 1)
    return nullptr;
  r.cuda(cudaSetDevice(1), "cudaSetDevice");
  r.cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  r.cuda(cudaSetDevice(r.device), "cudaSetDevice");
  return stream;
}

void refuse_combine(rank &r, void *host) {
  r.info = WEFT_EP_INFO_INIT;
  r.result = WEFT_EP_RESULT_INIT;
  r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, &r.info, &r.op), "dispatch");
  struct weft_ep_combine_args args = r.combine;
  args.y = host;
  int rc = weft_ep_combine(r.ep, r.op, &args, nullptr);
  if (rc != WEFT_ERR_INVALID || !strstr(weft_last_error(), "y ("))
    r.die("combine of y on the host returns %s, \"%s\"", weft_err_name(rc), weft_last_error());
  r.must(weft_ep_combine(r.ep, r.op, &r.combine, &r.result), "combine");
}

void bad_input(rank &r) {
  cudaStream_t foreign = r.index == 0 ? foreign_stream(r) : nullptr;
  void *host = malloc((size_t)EXPERTS * ROWS * HIDDEN * sizeof(uint16_t));
  r.found();
  for (uint64_t key = 30; key < 33; key++) {
    r.fill(key, first_ranks(RANKS));
    if (r.index == 0)
      refuse_dispatches(r, host, foreign);
    if (r.index == 0 && key == 31)
      refuse_combine(r, host);
    else
      r.pair();
    judge(r, all_there(key));
    r.check_whole();
  }
  r.leave();
  free(host);
}

// --- a graph across two changes of the view ---

std::atomic<uint64_t> first_of_three[RANKS];

void operate_as_three(rank &r) {
  r.fill(41, first_ranks(RANKS));
  r.pair();
  judge(r, all_there(41));
  r.check_whole();
}

void replaying(rank &r) {
  const expected two = {40, first_ranks(RANKS), first_ranks(2), -1, {}, {}};
  r.open(2, TIMEOUT_MS);
  r.activate(2);
  r.fill(40, two.routed);
  cudaGraphExec_t exec = r.capture();
  r.world->meet(r, "the capture");
  for (int i = 0; i < REPLAYS; i++)
    r.cuda(cudaGraphLaunch(exec, r.stream), "cudaGraphLaunch");
  r.ask_newest();
  if (r.op != REPLAYS - 1)
    r.die("%d replays have come to operation %llu", REPLAYS, (unsigned long long)r.op);
  judge(r, two);
  r.world->meet(r, "the first replays");
  r.replay_until(exec, 3);
  first_of_three[r.index] = r.op;
  for (int i = 0; i < FEW; i++)
    r.replay(exec);
  judge(r, all_there(40));
  operate_as_three(r);
  r.replay_until(exec, 2);
  r.fill(42, two.view);
  r.replay(exec);
  judge(r, {42, two.view, two.view, -1, {}, {}});
  r.fill(43, two.view);
  r.pair();
  judge(r, {43, two.view, two.view, -1, {}, {}});
  r.check_whole();
  r.world->meet(r, "the last operation");
  if (first_of_three[r.index] != first_of_three[2])
    r.die("the view of three began with operation %llu, and for rank 2 with %llu",
          (unsigned long long)first_of_three[r.index], (unsigned long long)first_of_three[2]);
  r.cuda(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  r.leave();
}

void joining(rank &r) {
  const int32_t self = r.index;
  r.world->meet(r, "the capture");
  r.world->meet(r, "the first replays");
  r.open(2, TIMEOUT_MS);
  r.fill(40, first_ranks(RANKS));
  r.activate(2);
  r.pair();
  first_of_three[r.index] = r.op;
  for (int i = 0; i < FEW; i++)
    r.pair();
  judge(r, all_there(40));
  operate_as_three(r);
  r.must(weft_ep_disconnect(r.ep, &self, 1, DEADLINE_MS), "weft_ep_disconnect");
  auto deadline = deadline_from_now();
  while (weft_ep_is_active(r.ep)) {
    if (clock_type::now() > deadline)
      r.die("it has not left within %d ms", DEADLINE_MS);
    r.pair();
    r.check_whole();
  }
  int rc = weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op);
  if (rc != WEFT_ERR_FENCED)
    r.die("dispatch of a rank that has left returns %s", weft_err_name(rc));
  r.close();
  r.world->meet(r, "the last operation");
  r.world->meet(r, "the end");
}

void graph(rank &r) {
  if (r.index < 2)
    replaying(r);
  else
    joining(r);
}

// --- a rank that stops launching ---

void lose_the_third(rank &r) {
  const std::vector<int32_t> two = first_ranks(2);
  r.fill(51, first_ranks(RANKS));
  r.pair();
  if (r.info.num_lost != 1 || r.lost[0] != 2)
    r.die("%u ranks are lost, the first is %d; should be rank 2", r.info.num_lost, r.lost[0]);
  judge(r, {51, first_ranks(RANKS), first_ranks(RANKS), -1, {2}, {2}});
  auto deadline = deadline_from_now();
  do {
    if (clock_type::now() > deadline)
      r.die("no view without rank 2 within %d ms", DEADLINE_MS);
    r.pair();
  } while (r.info.num_ranks != 2);
  r.fill(52, two);
  r.pair();
  judge(r, {52, two, two, -1, {}, {}});
}

// Its first operations may still run in the view that it knows, where nobody answers.
void come_back(rank &r) {
  struct weft_ep_dispatch_args none = WEFT_EP_DISPATCH_ARGS_INIT;
  none.stream = r.stream;
  auto deadline = deadline_from_now();
  int rc;
  while ((rc = weft_ep_dispatch(r.ep, &none, &r.recv, nullptr, &r.op)) == 0) {
    if (clock_type::now() > deadline)
      r.die("it does not find out within %d ms that it was put out", DEADLINE_MS);
    r.must(weft_ep_finish(r.ep, r.op), "weft_ep_finish");
    r.drain("an operation of its own");
  }
  if (rc != WEFT_ERR_FENCED)
    r.die("dispatch of a rank that was put out returns %s: %s", weft_err_name(rc), weft_last_error());
}

void silence(rank &r) {
  r.open(RANKS, SILENCE_MS);
  r.activate(RANKS);
  r.fill(50, first_ranks(RANKS));
  r.world->meet(r, "the first operation");
  r.pair();
  judge(r, all_there(50));
  r.check_whole();
  r.world->meet(r, "the silence");
  if (r.index < 2)
    lose_the_third(r);
  r.world->meet(r, "the return");
  if (r.index == 2)
    come_back(r);
  r.leave();
}

const struct test tests[] = {{"equal_bits", equal_bits}, {"mask", mask},   {"no_weights", no_weights}, {"limit", limit},
                             {"bad_input", bad_input},   {"graph", graph}, {"silence", silence}};

} // namespace

int main(int argc, char **argv) {
  return run_tests(tests, sizeof tests / sizeof *tests, argc, argv);
}
