// Groups for throughput on real GPUs, through the public interface: operations whose halves are called separately, in
// one stream, in two and in graphs, beside ranks that call both at once; operations that are combined several times; a
// rank that falls silent between the halves, or is late; and two operations that are open at once. Each case runs in a
// separate process. With arguments, only the named cases run.
#include "cuda/support/api.cuh"
#include "cuda/support/cases.cuh"

#include <chrono>
#include <cstring>
#include <thread>

namespace {

enum { SHORT_MS = 300, PACKED_ROWS = EXPERTS * ROWS };

// The streams of the two halves.
struct streams {
  cudaStream_t send, receive;
  cudaEvent_t passed;

  streams(const rank &r, bool two) : send(r.stream), receive(r.stream) {
    r.cuda(cudaEventCreateWithFlags(&passed, cudaEventDisableTiming), "cudaEventCreate");
    if (two)
      r.cuda(cudaStreamCreateWithFlags(&receive, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  // What comes behind, in the one stream, waits for what was launched in the other.
  void pass(const rank &r, cudaStream_t from, cudaStream_t to) const {
    r.cuda(cudaEventRecord(passed, from), "cudaEventRecord");
    r.cuda(cudaStreamWaitEvent(to, passed, 0), "cudaStreamWaitEvent");
  }
  void close(const rank &r) const {
    r.drain("the halves");
    r.cuda(cudaEventDestroy(passed), "cudaEventDestroy");
  } // the group may launch its end in the stream of its last launch: that stays
};

void dispatch_halves(rank &r, const streams &s) {
  weft_ep_recv_args recv = r.recv;
  recv.stream = s.receive;
  r.must(weft_ep_dispatch_send(r.ep, &r.dispatch, &r.op), "dispatch_send");
  s.pass(r, s.send, s.receive);
  r.must(weft_ep_dispatch_recv(r.ep, r.op, &recv, nullptr), "dispatch_recv");
  s.pass(r, s.receive, s.send);
}

void combine_halves(rank &r, const streams &s) {
  weft_ep_combine_args combine = r.combine;
  combine.stream = s.receive;
  r.must(weft_ep_combine_send(r.ep, r.op, &r.combine), "combine_send");
  s.pass(r, s.send, s.receive);
  r.must(weft_ep_combine_recv(r.ep, r.op, &combine, nullptr), "combine_recv");
  s.pass(r, s.receive, s.send);
}

void dispatch(rank &r, const streams &s, bool halved) {
  if (halved)
    dispatch_halves(r, s);
  else
    r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "dispatch");
}

void combine(rank &r, const streams &s, bool halved) {
  if (halved)
    combine_halves(r, s);
  else
    r.must(weft_ep_combine(r.ep, r.op, &r.combine, nullptr), "combine");
}

// What came back, of rows in any layout.
void judge_any(rank &r, const expected &is) {
  oracle_answer answer = {};
  answer.by_rank = answer.unweighted = r.recv.layout == WEFT_EP_RANK_MAJOR;
  r.drain("an operation");
  r.ask();
  if (r.recv.layout == WEFT_EP_PER_EXPERT)
    judge(r, is);
  else
    judge_combine(r, is, answer);
}

void lay_out(rank &r, uint64_t i) {
  static const weft_ep_layout layouts[] = {WEFT_EP_PER_EXPERT, WEFT_EP_PACKED, WEFT_EP_RANK_MAJOR};
  r.recv.layout = layouts[i % 3];
  r.recv.rows = r.recv.layout == WEFT_EP_PACKED ? (uint32_t)PACKED_ROWS : (uint32_t)ROWS;
}

// Whether this rank calls single halves: all ranks do, or one, or all but one, or none.
bool is_halved(const rank &r, uint64_t i) {
  return i % 4 == 0 || (i % 4 == 1 && r.index == (int32_t)(i % RANKS)) ||
         (i % 4 == 2 && r.index != (int32_t)(i % RANKS));
}

void mixed(rank &r, bool two) {
  streams s(r, two);
  for (uint64_t i = 0; i < 48; i++) {
    bool halved = is_halved(r, i);
    lay_out(r, i / 4);
    r.dispatch.processors = r.combine.processors = i % 5 == 4 ? 8 : 0;
    r.combine.dtype = i % 7 > 4 ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
    r.fill(300 + i, first_ranks(RANKS));
    dispatch(r, s, halved);
    combine(r, s, i % 8 < 4 ? halved : !halved);
    judge_any(r, all_there(300 + i));
    r.check_whole();
    if (i % 11 == 10)
      r.must(weft_ep_barrier(r.ep), "weft_ep_barrier");
  }
  s.close(r);
}

void halves(rank &r) {
  r.found();
  mixed(r, false);
  mixed(r, true);
  r.leave();
}

// fp8 that is cast on the way, and by a route that halves have filled.
void routed(rank &r) {
  struct weft_ep_route_options options = WEFT_EP_ROUTE_OPTIONS_INIT;
  const float *weights = r.dispatch.topk_weights;
  weft_ep_route_t *route = nullptr;
  r.found();
  streams s(r, true);
  r.must(weft_ep_route_create(r.ep, &options, &route), "weft_ep_route_create");
  for (uint64_t i = 0; i < 12; i++) {
    bool keeps = i % 4 != 0;
    r.recv.layout = WEFT_EP_RANK_MAJOR;
    if (!keeps)
      r.fill(400 + i, first_ranks(RANKS));
    r.poison();
    r.dispatch.route = route;
    r.dispatch.topk_idx = keeps ? nullptr : r.wide;
    r.dispatch.topk_weights = keeps ? nullptr : weights;
    dispatch(r, s, is_halved(r, i + 2));
    combine(r, s, is_halved(r, i));
    r.dispatch.topk_weights = weights;
    judge_any(r, all_there(400 + i / 4 * 4));
    r.check_whole();
  }
  r.poison_out();
  r.combine.flags = WEFT_EP_COMBINE_KEEP;
  r.must(weft_ep_combine_route(r.ep, route, &r.combine, nullptr, &r.op), "combine_route");
  judge_any(r, all_there(408));
  r.poison_out();
  r.combine.flags = 0;
  combine(r, s, r.index != 0);
  judge_any(r, all_there(408));
  r.dispatch.route = nullptr;
  r.dispatch.topk_idx = r.wide;
  r.recv.layout = WEFT_EP_PER_EXPERT;
  r.dispatch.dtype = WEFT_EP_FP8;
  r.fill(420, first_ranks(RANKS));
  dispatch(r, s, r.index == 1);
  r.run_experts();
  combine(r, s, r.index != 1);
  r.ask();
  judge(r, all_there(420));
  s.close(r);
  r.world->meet(r, "the last operation");
  weft_ep_route_free(route);
  r.leave();
}

// --- an operation combined several times, and one that ends another ---

void kept(rank &r) {
  r.found();
  streams s(r, true);
  for (uint64_t i = 0; i < 24; i++) {
    bool last = i % 3 != 0;
    lay_out(r, i);
    r.fill(430 + i, first_ranks(RANKS));
    dispatch(r, s, is_halved(r, i));
    for (uint64_t round = 0; round < 4; round++) {
      r.combine.flags = round == 3 && last ? 0 : WEFT_EP_COMBINE_KEEP;
      r.combine.dtype = round == 2 ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
      r.poison_out();
      combine(r, s, is_halved(r, i + round));
      judge_any(r, all_there(430 + i));
      r.check_whole();
    }
    if (last)
      continue;
    r.must(weft_ep_finish(r.ep, r.op), "finish"); // in the stream of its last launch
    s.pass(r, s.receive, s.send);
  }
  r.combine.dtype = WEFT_EP_COMBINE_BF16;
  r.dispatch.flags = WEFT_EP_DISPATCH_RECYCLE;
  r.combine.flags = WEFT_EP_COMBINE_KEEP;
  for (uint64_t key = 460; key < 468; key++) { // as DeepEP's tests do
    r.fill(key, first_ranks(RANKS));
    for (int i = 0; i < 2; i++)
      dispatch(r, s, i == 1);
    for (int i = 0; i < 2; i++) {
      r.poison_out();
      combine(r, s, i == 0);
      judge_any(r, all_there(key));
      r.check_whole();
    }
  }
  s.close(r);
  r.leave();
}

// --- graphs ---

cudaGraphExec_t capture_halves(rank &r, bool keeps) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  streams s(r, false);
  r.cuda(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  dispatch_halves(r, s);
  if (keeps) {
    r.combine.flags = WEFT_EP_COMBINE_KEEP;
    combine_halves(r, s);
    r.combine.flags = 0;
  }
  combine_halves(r, s);
  r.cuda(cudaStreamEndCapture(r.stream, &graph), "cudaStreamEndCapture");
  r.cuda(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  r.cuda(cudaGraphUpload(exec, r.stream), "cudaGraphUpload");
  r.cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  s.close(r);
  return exec;
}

void graphs(rank &r) {
  r.found();
  for (int round = 0; round < 2; round++) {
    r.fill(470, first_ranks(RANKS));
    cudaGraphExec_t exec = round == 0 && r.index == 1 ? r.capture() : capture_halves(r, round == 1);
    r.world->meet(r, "the capture");
    for (uint64_t key = 470; key < 480; key++) {
      r.fill(key, first_ranks(RANKS));
      r.replay(exec);
      judge(r, all_there(key));
    }
    r.world->meet(r, "the replays");
    r.cuda(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  }
  r.leave();
}

// --- a rank that falls silent between the halves ---

// Rank 2 sends its rows, which the others get, and nothing more.
void silent(rank &r) {
  expected is = all_there(490);
  oracle_answer by_rank = {};
  by_rank.by_rank = by_rank.unweighted = true;
  is.missing = {2};
  r.open(RANKS, SHORT_MS);
  r.activate(RANKS);
  streams s(r, false);
  r.recv.layout = WEFT_EP_RANK_MAJOR;
  r.fill(is.key, first_ranks(RANKS));
  r.world->meet(r, "the input");
  if (r.index == 2) {
    r.must(weft_ep_dispatch_send(r.ep, &r.dispatch, &r.op), "dispatch_send");
    r.drain("dispatch_send");
  } else {
    dispatch_halves(r, s);
    combine_halves(r, s);
    r.ask();
    if (r.info.num_lost != 0 || r.result.num_lost != 1)
      r.die("%u and %u ranks are lost, should be 0 and 1", r.info.num_lost, r.result.num_lost);
    judge_combine(r, is, by_rank);
  }
  s.close(r);
  r.leave();
}

// Lets the others' streams come to their ends, for some time: they may wait for this rank.
void give_time(const rank &r) {
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  for (const rank &other : r.world->ranks)
    while (other.index != r.index && cudaStreamQuery(other.stream) == cudaErrorNotReady &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
}

// A rank receives an operation when the others have sent the next one, which has no tokens.
void late(rank &r) {
  r.found();
  streams s(r, false);
  for (uint64_t key = 500; key < 506; key++) {
    bool is_late = r.index == (int32_t)(key % RANKS);
    uint64_t next;
    r.fill(key, first_ranks(RANKS));
    weft_ep_dispatch_args none = r.dispatch;
    none.num_tokens = 0;
    r.must(weft_ep_dispatch_send(r.ep, &r.dispatch, &r.op), "dispatch_send");
    if (is_late) {
      r.world->meet(r, "what the others send");
      give_time(r);
    }
    r.must(weft_ep_dispatch_recv(r.ep, r.op, &r.recv, nullptr), "dispatch_recv");
    r.must(weft_ep_dispatch_send(r.ep, &none, &next), "dispatch_send of no tokens");
    if (!is_late)
      r.world->meet(r, "what the others send");
    combine_halves(r, s);
    judge_any(r, all_there(key));
    r.check_whole();
    r.must(weft_ep_dispatch_recv(r.ep, next, &r.recv, nullptr), "dispatch_recv of no tokens");
    r.must(weft_ep_finish(r.ep, next), "finish");
  }
  s.close(r);
  r.leave();
}

// Two operations are open, and the second, which has no tokens, is combined right behind the first.
void overlap(rank &r) {
  weft_ep_recv_args nothing = WEFT_EP_RECV_ARGS_INIT;
  r.found();
  nothing.layout = WEFT_EP_PER_EXPERT;
  nothing.counts = r.masks;
  nothing.stream = r.stream;
  for (uint64_t key = 510; key < 530; key++) {
    uint64_t next;
    r.recv.layout = key % 2 ? WEFT_EP_PER_EXPERT : WEFT_EP_RANK_MAJOR;
    r.combine.dtype = key % 5 == 4 ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
    r.fill(key, first_ranks(RANKS));
    weft_ep_dispatch_args none = r.dispatch;
    none.num_tokens = 0;
    r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "dispatch");
    r.must(weft_ep_dispatch(r.ep, &none, &nothing, nullptr, &next), "dispatch of no tokens");
    r.must(weft_ep_combine(r.ep, r.op, &r.combine, nullptr), "combine");
    r.must(weft_ep_combine(r.ep, next, &r.combine, nullptr), "combine of no tokens");
    judge_any(r, all_there(key));
    r.check_whole();
  }
  r.leave();
}

// A half is received before another one is sent.
void refused(rank &r) {
  uint64_t op;
  r.found();
  streams s(r, false);
  r.fill(495, first_ranks(RANKS));
  r.must(weft_ep_dispatch_send(r.ep, &r.dispatch, &r.op), "dispatch_send");
  int rc = weft_ep_dispatch_send(r.ep, &r.dispatch, &op);
  if (rc != WEFT_ERR_BUSY || !strstr(weft_last_error(), "receive it first"))
    r.die("a second send: %s, \"%s\"", weft_err_name(rc), weft_last_error());
  r.must(weft_ep_dispatch_recv(r.ep, r.op, &r.recv, nullptr), "dispatch_recv");
  combine_halves(r, s);
  judge_any(r, all_there(495));
  r.check_whole();
  s.close(r);
  r.leave();
}

const struct test tests[] = {{"halves", halves}, {"routed", routed}, {"kept", kept},       {"graphs", graphs},
                             {"silent", silent}, {"late", late},     {"overlap", overlap}, {"refused", refused}};

} // namespace

int main(int argc, char **argv) {
  return run_tests(tests, sizeof tests / sizeof *tests, argc, argv);
}
