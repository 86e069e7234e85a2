// A rank dies while the first operation of a joiner is fixed: some ranks count the joiner from one operation on, and
// others only from a later one. In the operation between, the joiner and the others skip each other, no rank is
// reported lost for it, and data sent in it is not taken for data of a later operation. The test plays the dead rank's
// part by what it tells the joiner.
#include <cstring>

#include "cuda/support/ranks.cuh"

namespace {

enum { SKIPPED = 77, FIRST = 1, OPS = 6, COMMON = 2 }; // the joiner's first operation; the first in which all are

shape small(uint32_t ranks) {
  shape s;
  s.ranks = ranks;
  s.tokens = 64;
  s.hidden = 1024;
  s.topk = 4;
  s.experts = 4;
  s.blocks = 20; // of up to three ranks on a device
  return s;
}

// Input and output of an operation, in memory of its own: nobody may wait for a device while ranks wait for each other.
struct buffers {
  uint16_t *x, *out;
  int64_t *topk_idx;
  float *weights;
  uint32_t num_tokens;
};

using sums = std::vector<std::vector<std::vector<uint16_t>>>; // [rank][operation]

struct scenario : group {
  bool ok = true;
  std::vector<std::vector<buffers>> of; // [rank][operation]
  // In pinned memory: the joiner's first operation as its device has it then, and the places of its rows with another.
  device_record *first;
  std::vector<uint32_t *> places;

  explicit scenario(uint32_t ranks) : group(small(ranks)), of(ranks, std::vector<buffers>(OPS)), places(ranks) {
    each([&](rank &r) {
      for (uint64_t op = 0; op < OPS; op++)
        of[r.index][op] = make(r, op);
      OK(cudaMallocHost(&places[r.index], layout.answers - layout.rows));
    });
    OK(cudaMallocHost(&first, sizeof *first));
  }
  buffers make(const rank &r, uint64_t op) const {
    input in = make_input(r.index, op, 0.0f, false);
    buffers b = {device_alloc<uint16_t>(in.x.size()), device_alloc<uint16_t>(in.x.size()),
                 device_alloc<int64_t>(in.topk_idx.size()), device_alloc<float>(in.weights.size()), in.num_tokens};
    OK(cudaMemcpy(b.x, in.x.data(), in.x.size() * 2, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b.topk_idx, in.topk_idx.data(), in.topk_idx.size() * 8, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b.weights, in.weights.data(), in.weights.size() * 4, cudaMemcpyHostToDevice));
    OK(cudaDeviceSynchronize());
    return b;
  }
  // What the rank's next calls are about.
  void use(rank &r, uint64_t op) const {
    const buffers &b = of[r.index][op];
    r.x = b.x;
    r.out = b.out;
    r.topk_idx = b.topk_idx;
    r.topk_weights = b.weights;
    r.num_tokens = b.num_tokens;
  }
  void answer(rank &r, uint64_t op) const {
    use(r, op);
    run_experts(r);
    combine(r);
  }
  void operate(rank &r, uint64_t op) const {
    use(r, op);
    dispatch(r);
    answer(r, op);
  }

  // The rank begins anew, with `op` in view `epoch`. View 1 is without the last rank, view 2 with it, and the rank
  // knows both.
  void restart(rank &r, uint64_t op, uint64_t epoch) const {
    OK(cudaSetDevice(r.device));
    for (char *area : r.areas)
      OK(cudaMemset(area, 0, sizeof(cuda_area_head)));
    cuda_state state = fetch(r.state, 1)[0];
    fill_view(r, state.published[0], 1, shape.ranks - 1);
    fill_view(r, state.published[1], 2, shape.ranks);
    memset(state.start_sent, 0, sizeof state.start_sent);
    state.control.ready = 2;
    OK(cudaMemcpy(r.state, &state, sizeof state, cudaMemcpyHostToDevice));
    begin(r, op, epoch);
  }
  // Rank `r` counts the joiner from its first operation on: the one that told it.
  void count_early(rank &r) const {
    OK(cudaSetDevice(r.device));
    cuda_state state = fetch(r.state, 1)[0];
    uint32_t joiner = shape.ranks - 1;
    fill_view(r, state.live[1], 2, shape.ranks);
    state.live[1].members[joiner].since = FIRST;
    state.counters.live[FIRST] = 1;
    state.counters.newest = 1;
    state.start_sent[joiner] = FIRST + 1;
    OK(cudaMemcpy(r.state, &state, sizeof state, cudaMemcpyHostToDevice));
    const cuda_unit start = {{FIRST + 1, 0, 2}, 1};
    OK(cudaMemcpy(&((cuda_area_head *)ranks[joiner].areas[r.index])->start, &start, sizeof start, cudaMemcpyDefault));
  }

  void expect(bool right, const char *what, uint32_t index, uint64_t has) {
    if (right)
      return;
    printf("  rank %u: %s: %llx\n", index, what, (unsigned long long)has);
    ok = false;
  }
  // As they are when the joiner's first operation has ended. Nobody waits.
  void note_first(const rank &joiner) {
    size_t rows = sizeof(cuda_area_head) + FIRST % CUDA_DEPTH * layout.slot + layout.rows;
    OK(cudaMemcpyAsync(first, &joiner.state->record[FIRST % CUDA_RECORDS], sizeof *first, cudaMemcpyDefault,
                       joiner.stream));
    for (const rank &r : ranks)
      OK(cudaMemcpyAsync(places[r.index], r.areas[joiner.index] + rows, layout.answers - layout.rows, cudaMemcpyDefault,
                         joiner.stream));
  }
  // The joiner has passed over rank `index`, and taken back what it had sent.
  void judge_first(uint32_t index) {
    const buffers &b = of[shape.ranks - 1][FIRST];
    uint32_t selections = 0;
    for (int64_t expert : fetch(b.topk_idx, (size_t)b.num_tokens * shape.topk))
      selections += expert / shape.experts == active[index];
    expect(first->op == FIRST && selections > 0 && first->missing == selections, "selections missing", index,
           first->missing);
    uint64_t left = 0;
    for (uint32_t i = 0; i < (layout.answers - layout.rows) / 4; i++)
      left += places[index][i] != CUDA_EMPTY;
    expect(left == 0, "words left with who was passed over", index, left);
  }
  sums fetch_sums() const {
    sums all(shape.ranks, std::vector<std::vector<uint16_t>>(OPS));
    for (uint32_t i = 0; i < shape.ranks; i++)
      for (uint64_t op = COMMON; op < OPS; op++)
        all[i][op] = fetch(of[i][op].out, (size_t)of[i][op].num_tokens * shape.hidden);
    return all;
  }
  // Operations in which all are have the sums of a group that has always been one.
  void judge_common(const sums &want) {
    const sums has = fetch_sums();
    for (uint32_t i = 0; i < shape.ranks; i++) {
      expect(lost(ranks[i]) == 0 && device_lost(ranks[i].report) == 0, "has lost", i, lost(ranks[i]));
      for (uint64_t op = COMMON; op < OPS; op++)
        expect(has[i][op] == want[i][op], "other sums in", i, op);
      expect(record(ranks[i], OPS - 1).missing == 0, "missing in the last", i, record(ranks[i], OPS - 1).missing);
    }
  }
};

sums plain_sums(uint32_t ranks) {
  scenario plain(ranks);
  plain.each([&](rank &r) {
    for (uint64_t op = COMMON; op < OPS; op++)
      plain.operate(r, op);
    plain.finish(r);
  });
  return plain.fetch_sums();
}

// The joiner was told to begin with operation 1, by a rank that nobody else has heard of it. The other counts it from
// operation 2 on.
bool a_joiner_passes_over() {
  printf("a joiner passes over a rank that counts it later\n");
  const sums want = plain_sums(2);
  scenario g(2);
  g.restart(g.ranks[0], 0, 1);
  g.restart(g.ranks[1], FIRST, 2);
  g.each([&](rank &r) {
    for (uint64_t op = r.index == 0 ? 0 : FIRST; op < OPS; op++) {
      g.operate(r, op);
      if (r.index == 1 && op == FIRST)
        g.note_first(r);
    }
    g.finish(r);
  });
  g.judge_first(0);
  g.judge_common(want);
  return g.ok;
}

// The one that told it lives, and the third hears in operation 1 that the joiner is there, but has sent operation 2
// already as the first one with it.
bool both_pass_over() {
  printf("a rank that adopts the joiner's view too late, and the joiner, pass over each other\n");
  const sums want = plain_sums(3);
  scenario g(3);
  g.restart(g.ranks[0], 0, 1);
  g.restart(g.ranks[1], 0, 1);
  g.restart(g.ranks[2], FIRST, 2);
  g.count_early(g.ranks[0]);
  g.each([&](rank &r) {
    for (uint64_t op = r.index == 2 ? FIRST : 0; op < OPS; op++) {
      bool ahead = r.index == 1 && (op == FIRST || op == COMMON);
      if (r.index == 1 && op == FIRST)
        for (uint64_t sent : {FIRST, COMMON}) {
          g.use(r, sent);
          g.dispatch_halves(r, DEVICE_SEND);
        }
      if (ahead) {
        g.use(r, op);
        g.dispatch_halves(r, DEVICE_RECV);
        g.answer(r, op);
      } else
        g.operate(r, op);
      if (r.index == 2 && op == FIRST)
        g.note_first(r);
    }
    g.finish(r);
  });
  g.judge_first(1);
  g.judge_common(want);
  return g.ok;
}

} // namespace

int main(void) {
  if (device_count() == 0) {
    printf("skipped: no GPU here\n");
    return SKIPPED;
  }
  int failed = 0;
  failed += !a_joiner_passes_over();
  failed += !both_pass_over();
  printf("%d wrong\n", failed);
  return failed != 0;
}
