// What each call may choose by itself on real GPUs (weft/ep.h): the types and the top-k of a dispatch, the type of a
// combine, int32_t indices, strides, a number of tokens in device memory, places of the top-k, information for kernels,
// several combines of one operation, operations that end their predecessor, and masks. Each case runs in a separate
// process. With arguments, only the named cases run.
#include "cuda/support/api.cuh"
#include "cuda/support/cases.cuh"

#include <cstring>

namespace {

enum { SHORT_MS = 300, BLOCKS = HIDDEN / WEFT_EP_BLOCK };

// --- types and top-k ---

// What one operation says for itself.
struct form {
  weft_ep_dtype dtype;
  uint32_t topk;
  weft_ep_combine_dtype combine;
  bool narrow, halves, rank_major;
};

void say(rank &r, const form &f) {
  r.dispatch.dtype = f.dtype;
  r.dispatch.topk = f.topk;
  r.combine.dtype = f.combine;
  r.dispatch.topk_idx = f.narrow ? nullptr : r.wide;
  r.dispatch.topk_idx32 = f.narrow ? r.narrow : nullptr;
  r.recv.layout = f.rank_major ? WEFT_EP_RANK_MAJOR : WEFT_EP_PER_EXPERT;
}

void operate(rank &r, const form &f) {
  if (!f.halves) {
    r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "dispatch");
    r.run_experts();
    r.must(weft_ep_combine(r.ep, r.op, &r.combine, nullptr), "combine");
  } else {
    r.must(weft_ep_dispatch_send(r.ep, &r.dispatch, &r.op), "dispatch_send");
    r.must(weft_ep_dispatch_recv(r.ep, r.op, &r.recv, nullptr), "dispatch_recv");
    r.run_experts();
    r.must(weft_ep_combine_send(r.ep, r.op, &r.combine), "combine_send");
    r.must(weft_ep_combine_recv(r.ep, r.op, &r.combine, nullptr), "combine_recv");
  }
  r.ask();
}

void types(rank &r) {
  const weft_ep_dtype dtypes[] = {WEFT_EP_BF16, WEFT_EP_FP8, WEFT_EP_FP8_POW2, WEFT_EP_FP8_UE8M0};
  uint64_t key = 60;
  r.found();
  for (uint32_t i = 0; i < 32; i++) {
    const form f = {dtypes[(i * 5 + i / 4) % 4],
                    i % 3 ? (uint32_t)TOPK : i % 2 + 1,
                    i % 4 == 3 ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16,
                    i % 2 == 1,
                    i % 5 == 4,
                    false};
    say(r, f);
    r.dispatch.processors = r.combine.processors = i % 6 == 5 ? 8 : 0;
    r.fill(key, first_ranks(RANKS));
    operate(r, f);
    judge(r, all_there(key++));
    r.check_whole();
  }
  r.leave();
}

// What does not fit the group, or is not in pieces of 16 bytes, is refused, and operations go on.
void wrong_types(rank &r) {
  uint64_t op;
  r.found();
  r.dispatch.topk = TOPK + 1;
  int rc = weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &op);
  if (rc != WEFT_ERR_INVALID || !strstr(weft_last_error(), "topk is 5"))
    r.die("a topk that is too large: %s, \"%s\"", weft_err_name(rc), weft_last_error());
  r.dispatch.topk = 0;
  r.dispatch.row_stride = 2 * HIDDEN + 8;
  rc = weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &op);
  if (rc != WEFT_ERR_INVALID || !strstr(weft_last_error(), "row_stride is 2056"))
    r.die("a row_stride that is no multiple: %s, \"%s\"", weft_err_name(rc), weft_last_error());
  r.dispatch.row_stride = 0;
  r.fill(90, first_ranks(RANKS));
  r.pair();
  judge(r, all_there(90));
  r.leave();
}

// --- ranks that do not say the same ---

// Rank 2 has said something else than the others. None of them takes what it cannot read for rows.
void check_parted(const rank &r, uint32_t lost, const char *what) {
  uint32_t expected = r.index == 2 ? 2 : 1;
  if (lost != expected)
    r.die("%u ranks are lost in the %s, should be %u", lost, what, expected);
}

void other_topk(rank &r) {
  r.open(RANKS, SHORT_MS);
  r.activate(RANKS);
  r.dispatch.topk = r.index == 2 ? TOPK / 2 : TOPK;
  r.fill(80, first_ranks(RANKS));
  r.world->meet(r, "the input");
  r.pair();
  check_parted(r, r.info.num_lost, "dispatch");
  if (r.index != 2 && r.lost[0] != 2)
    r.die("rank %d is lost, should be rank 2", r.lost[0]);
  r.leave();
}

void other_combine(rank &r) {
  r.open(RANKS, SHORT_MS);
  r.activate(RANKS);
  r.combine.dtype = r.index == 2 ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
  r.fill(81, first_ranks(RANKS));
  r.world->meet(r, "the input");
  r.pair();
  check_parted(r, r.result.num_lost, "combine");
  r.leave();
}

// --- strides ---

enum { PAD = 64 }; // bytes behind a row of x

void spread_rows(rank &r, void *to) {
  r.cuda(cudaMemcpy2D(to, 2 * HIDDEN + PAD, r.dispatch.x, 2 * HIDDEN, 2 * HIDDEN, TOKENS, cudaMemcpyDeviceToDevice),
         "cudaMemcpy2D");
}

// Scales block by block: those of block b of all rows of an expert stand together, and the experts apart.
void strides(rank &r) {
  const void *x = r.dispatch.x;
  r.found();
  r.fill(70, first_ranks(RANKS));
  spread_rows(r, r.spare);
  r.dispatch.x = r.spare;
  r.dispatch.row_stride = 2 * HIDDEN + PAD;
  r.dispatch.dtype = WEFT_EP_FP8;
  r.recv.scale_row_stride = 1;
  r.recv.scale_block_stride = ROWS;
  r.recv.scale_expert_stride = ROWS * BLOCKS + 32;
  r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "dispatch");
  r.drain("dispatch");
  r.gather_scales();
  r.run_experts();
  r.must(weft_ep_combine(r.ep, r.op, &r.combine, nullptr), "combine");
  r.ask();
  judge(r, all_there(70));
  // What came is sent on, cast already, with scales of these strides: it has to come as it is.
  r.dispatch.x = x;
  r.dispatch.row_stride = 0;
  r.recv.scale_row_stride = r.recv.scale_block_stride = r.recv.scale_expert_stride = 0;
  r.send_given_scales(71);
  r.leave();
}

// --- tokens that the device counts, and the status ---

void check_told(const rank &r) {
  weft_ep_recv_status status;
  uint64_t lost;
  r.copy(&status, r.status, sizeof status, cudaMemcpyDeviceToHost);
  r.copy(&lost, r.lost_bits, sizeof lost, cudaMemcpyDeviceToHost);
  bool right = status.op == r.info.op && status.epoch == r.info.epoch && status.mark == r.info.mark &&
               status.num_ranks == r.info.num_ranks && status.num_rows == r.info.num_rows &&
               status.rows_needed == r.info.rows_needed && status.num_lost == 0 && status.written == r.info.op + 1;
  if (!right || lost != 0)
    r.die("the status is of operation %llu (%llu), epoch %llu, %u rows (%u), and lost %llx",
          (unsigned long long)status.op, (unsigned long long)r.info.op, (unsigned long long)status.epoch,
          status.num_rows, r.info.num_rows, (unsigned long long)lost);
}

void counted(rank &r) {
  r.found();
  r.dispatch.num_tokens_at = r.number;
  r.recv.status = r.status;
  r.recv.status_size = sizeof(weft_ep_recv_status);
  r.recv.lost = r.lost_bits;
  weft_ep_set_mark(r.ep, 7);
  cudaGraphExec_t exec =
      r.capture([&] { r.must(weft_ep_mask_read(r.ep, r.masks, CAPACITY, r.stream), "mask_read, captured"); });
  r.world->meet(r, "the capture");
  for (uint64_t key = 100; key < 108; key++) {
    r.tokens = key == 103 ? 0 : (uint32_t)((key * 7 + (uint64_t)r.index * 3) % (TOKENS + 1));
    r.fill(key, first_ranks(RANKS));
    r.copy(r.number, &r.tokens, sizeof r.tokens, cudaMemcpyHostToDevice);
    r.world->meet(r, "the input");
    r.cuda(cudaGraphLaunch(exec, r.stream), "cudaGraphLaunch");
    r.ask_newest();
    judge(r, all_there(key));
    check_told(r);
    r.check_whole();
    r.world->meet(r, "the judgement");
  }
  r.cuda(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  r.leave();
}

// --- rank-major, at their places ---

void places(rank &r) {
  r.found();
  r.recv.layout = WEFT_EP_RANK_MAJOR;
  r.recv.flags = WEFT_EP_RECV_KEEP_PLACES;
  r.recv.local_expert = r.local_expert;
  r.recv.weights = r.local_weights;
  for (uint64_t key = 110; key < 113; key++) {
    r.fill(key, first_ranks(RANKS));
    r.info = WEFT_EP_INFO_INIT;
    r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, &r.info, &r.op), "dispatch");
    r.judge_places(key);
    r.must(weft_ep_finish(r.ep, r.op), "finish");
  }
  r.leave();
}

// --- an operation combined several times, and one that ends another ---

void kept(rank &r) {
  const float *weights = r.dispatch.topk_weights;
  r.found();
  for (uint64_t key = 120; key < 128; key++) {
    bool late = key % 2 == 1, split = key % 4 >= 2;
    r.dispatch.topk_weights = late ? nullptr : weights;
    r.combine.topk_weights = late ? weights : nullptr;
    r.fill(key, first_ranks(RANKS));
    r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "dispatch");
    for (int round = 0; round < 4; round++) {
      bool last = round == 3 && key % 3 != 0;
      r.combine.flags = last ? 0 : WEFT_EP_COMBINE_KEEP;
      r.combine.dtype = round == 2 ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
      r.poison_out();
      r.run_experts(); // y is made again, so that it is there for each
      if (split)
        r.must(weft_ep_combine_send(r.ep, r.op, &r.combine), "combine_send");
      r.must(split ? weft_ep_combine_recv(r.ep, r.op, &r.combine, nullptr)
                   : weft_ep_combine(r.ep, r.op, &r.combine, nullptr),
             "combine");
      r.ask();
      judge(r, all_there(key));
      r.check_whole();
    }
    if (key % 3 == 0)
      r.must(weft_ep_finish(r.ep, r.op), "finish");
  }
  r.leave();
}

// As DeepEP's tests do: a dispatch twice, and then a combine twice on what the second brought.
void recycled(rank &r) {
  r.found();
  r.dispatch.flags = WEFT_EP_DISPATCH_RECYCLE;
  r.combine.flags = WEFT_EP_COMBINE_KEEP;
  for (uint64_t key = 130; key < 140; key++) {
    r.fill(key, first_ranks(RANKS));
    for (int i = 0; i < 2; i++)
      r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "dispatch");
    for (int i = 0; i < 2; i++) {
      r.poison_out();
      r.run_experts();
      r.must(weft_ep_combine(r.ep, r.op, &r.combine, nullptr), "combine");
      r.ask();
      judge(r, all_there(key));
      r.check_whole();
    }
  }
  r.leave();
}

// --- masks ---

void check_masks(const rank &r, int32_t masked) {
  int32_t is[CAPACITY];
  r.drain("mask_read");
  r.copy(is, r.masks, sizeof is, cudaMemcpyDeviceToHost);
  for (int32_t i = 0; i < CAPACITY; i++)
    if (is[i] != (i == masked))
      r.die("rank %d is reported as %d, and rank %d is masked", i, is[i], masked);
}

void masks(rank &r) {
  r.found();
  for (uint64_t round = 0; round < 4; round++) {
    bool masked = r.index == 0 && round % 2 == 1;
    if (r.index == 0)
      r.must(weft_ep_mask_update(r.ep, 2, masked), "weft_ep_mask_update");
    r.must(weft_ep_mask_read(r.ep, r.masks, CAPACITY, r.stream), "weft_ep_mask_read");
    check_masks(r, masked ? 2 : -1);
    r.fill(140 + round, first_ranks(RANKS));
    r.pair();
    r.check_whole();
  }
  r.leave();
}

const struct test tests[] = {{"types", types},
                             {"wrong_types", wrong_types},
                             {"strides", strides},
                             {"other_topk", other_topk},
                             {"other_combine", other_combine},
                             {"counted", counted},
                             {"places", places},
                             {"kept", kept},
                             {"recycled", recycled},
                             {"masks", masks}};

} // namespace

int main(int argc, char **argv) {
  return run_tests(tests, sizeof tests / sizeof *tests, argc, argv);
}
