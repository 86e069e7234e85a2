// Routes with a rank that has left or died, on real GPUs, through the public interface: operations by such a route keep
// its row places, and the rows of that rank are 0. Each case runs in a separate process. With arguments, only the named
// cases run.
#include "cuda/support/cases.cuh"
#include "cuda/support/routes.cuh"

#include <chrono>
#include <cstring>

namespace {

// What a receive says of its rows and selections. Rows of nobody have rank -1.
struct rows_told {
  std::vector<int32_t> counts, src_rank, src_token, selection; // local experts, or PACKED: slots
  std::vector<float> weights;                                  // RANK_MAJOR
  explicit rows_told(const rank &r)
      : counts(take<int32_t>(r, r.recv.counts, EXPERTS)),
        src_rank(take<int32_t>(r, r.recv.src_rank, (size_t)EXPERTS * ROWS)),
        src_token(take<int32_t>(r, r.recv.src_token, (size_t)EXPERTS * ROWS)),
        selection(take<int32_t>(r, r.local_expert, (size_t)ROWS * TOPK)),
        weights(take<float>(r, r.local_weights, (size_t)ROWS * TOPK)) {}
};

void receive_as(rank &r, weft_ep_layout layout) {
  const weft_ep_recv_args usual = r.recv;
  r.recv = WEFT_EP_RECV_ARGS_INIT;
  r.recv.x = usual.x;
  r.recv.counts = usual.counts;
  r.recv.src_rank = usual.src_rank;
  r.recv.src_token = usual.src_token;
  r.recv.stream = usual.stream;
  r.recv.scales = usual.scales;
  r.recv.range = usual.range;
  r.recv.rows = layout == WEFT_EP_PACKED ? (uint32_t)PACKED_ROWS : (uint32_t)ROWS;
  r.recv.layout = layout;
  if (layout == WEFT_EP_RANK_MAJOR)
    receive_by_rank(r);
  if (layout != WEFT_EP_PACKED)
    return;
  r.recv.alignment = ALIGNMENT;
  r.recv.flags = WEFT_EP_RECV_ZERO_PADDING;
  r.recv.slot = r.local_expert;
}

void poison_told(rank &r) {
  const std::vector<char> bytes((size_t)ROWS * TOPK * 4, (char)0xEE);
  r.poison();
  r.copy(r.local_expert, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  r.copy(r.local_weights, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
}

// Rows have the places that they had when all ranks were there, and those of rank 2 are 0 and nobody's.
void judge_gone(const rank &r, const rows_told &before, uint64_t key) {
  const rows_told now(r);
  const auto rows = take<uint16_t>(r, r.recv.x, (size_t)EXPERTS * ROWS * HIDDEN);
  const std::vector<uint16_t> zeros(HIDDEN), x[RANKS] = {r.x_of(0, key), r.x_of(1, key), r.x_of(2, key)};
  uint32_t gone = 0, received = r.recv.layout == WEFT_EP_PER_EXPERT ? EXPERTS * ROWS : r.recv.rows;
  if (now.counts != before.counts || now.src_rank != before.src_rank)
    r.die("layout %d: the places of rows have changed since the route was filled", r.recv.layout);
  for (uint32_t row = 0; row < received; row++) {
    int32_t from = before.src_rank[row], token = from == 2 ? -1 : before.src_token[row];
    if (from < 0)
      continue;
    const uint16_t *values = from == 2 ? zeros.data() : &x[from][(size_t)token * HIDDEN];
    gone += from == 2;
    if (now.src_token[row] != token || memcmp(&rows[(size_t)row * HIDDEN], values, HIDDEN * 2) != 0)
      r.die("row %u of rank %d says token %d, should be %d, or has other values", row, from, now.src_token[row], token);
    for (uint32_t k = 0; r.recv.layout == WEFT_EP_RANK_MAJOR && k < TOPK; k++) {
      size_t at = (size_t)row * TOPK + k;
      int32_t expert = from == 2 ? -1 : before.selection[at];
      float weight = from == 2 ? 0 : before.weights[at];
      if (now.selection[at] != expert || now.weights[at] != weight)
        r.die("row %u of rank %d has expert %d with %g, should be %d with %g", row, from, now.selection[at],
              (double)now.weights[at], expert, (double)weight);
    }
  }
  if (gone == 0)
    r.die("no row is of rank 2: the case proves nothing");
  for (uint32_t i = 0; r.recv.layout == WEFT_EP_PACKED && i < now.selection.size(); i++) {
    int32_t slot = before.selection[i];
    if (now.selection[i] != (slot >= 0 && before.src_rank[slot] == 2 ? -1 : slot))
      r.die("selection %u is in row %d, and was in %d", i, now.selection[i], slot);
  }
}

enum { GONE_KEY = 290, LAYOUTS = 3 };
const weft_ep_layout gone_layouts[LAYOUTS] = {WEFT_EP_RANK_MAJOR, WEFT_EP_PER_EXPERT, WEFT_EP_PACKED};

// An operation by the route of a layout, judged in both halves. So many are lost in it; -1: rank 2, or nobody.
void pair_without(rank &r, weft_ep_route_t *route, const rows_told &before, int layout, int lost) {
  const float *weights = r.dispatch.topk_weights;
  oracle_answer answer = {};
  expected is = all_there(GONE_KEY);
  is.missing = {2};
  receive_as(r, gone_layouts[layout]);
  poison_told(r);
  answer.by_rank = answer.unweighted = r.recv.layout == WEFT_EP_RANK_MAJOR;
  r.dispatch.route = route;
  r.dispatch.topk_idx = nullptr;
  r.dispatch.topk_weights = nullptr;
  r.pair();
  r.dispatch.route = nullptr;
  r.dispatch.topk_idx = r.wide;
  r.dispatch.topk_weights = weights;
  if ((lost >= 0 && r.info.num_lost != (uint32_t)lost) || (r.info.num_lost > 0 && r.lost[0] != 2))
    r.die("%u ranks are lost, the first is %d", r.info.num_lost, r.lost[0]);
  judge_gone(r, before, GONE_KEY);
  judge_combine(r, is, answer);
  if (r.result.num_missing == 0)
    r.die("nothing is missing of rank 2");
}

// Ranks fill a route in each layout; rank 2 leaves, or dies; the others go by these routes, and one more is filled.
void go_on_without(rank &r, bool dies) {
  weft_ep_route_t *routes[LAYOUTS];
  std::vector<rows_told> before;
  r.open(RANKS, (uint32_t)(dies ? (int)SHORT_MS : (int)TIMEOUT_MS));
  r.activate(RANKS);
  r.fill(GONE_KEY, first_ranks(RANKS));
  r.world->meet(r, "the input");
  for (int i = 0; i < LAYOUTS; i++) {
    receive_as(r, gone_layouts[i]);
    poison_told(r);
    routes[i] = make_route(r);
    by_route(r, routes[i], false);
    before.emplace_back(r);
  }
  r.world->meet(r, "the routes");
  if (dies && r.index != 2)
    for (int i = 0; i < LAYOUTS; i++)
      pair_without(r, routes[i], before[i], i, i == 0 ? 1 : -1);
  else if (!dies && r.index == 0) {
    const int32_t leaver = 2;
    struct weft_ep_change_args change = WEFT_EP_CHANGE_ARGS_INIT;
    change.remove = &leaver;
    change.num_remove = 1;
    r.must(weft_ep_change(r.ep, &change, DEADLINE_MS), "weft_ep_change");
  }
  auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(DEADLINE_MS);
  bool there = r.index != 2 || !dies;
  while (there && (r.index == 2 ? weft_ep_is_active(r.ep) : r.info.num_ranks != 2)) {
    if (std::chrono::steady_clock::now() > deadline)
      r.die("no view without rank 2 within %d ms", DEADLINE_MS);
    r.pair();
  }
  if (r.index != 2)
    for (int round = 0; round < 2; round++)
      for (int i = 0; i < LAYOUTS; i++)
        pair_without(r, routes[i], before[i], i, 0);
  r.world->meet(r, "the last operation");
  for (weft_ep_route_t *route : routes)
    weft_ep_route_free(route);
  r.leave();
}

void left(rank &r) {
  go_on_without(r, false);
}

void died(rank &r) {
  go_on_without(r, true);
}

const struct test tests[] = {{"left", left}, {"died", died}};

} // namespace

int main(int argc, char **argv) {
  return run_tests(tests, sizeof tests / sizeof *tests, argc, argv);
}
