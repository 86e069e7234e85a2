// A source sends fewer rows than its header counted, as a source does that is lost in the middle of an operation. Rows
// that arrived stay, and the places of the missing rows are 0 and belong to no rank, in each layout. If too many rows
// are missing to record them, none of that source's rows stay. Exits 77 without a GPU.
#include <map>

#include "cuda/support/flow_ranks.cuh"

namespace {

enum : uint32_t { EXPERT = 4 }; // for which rows are missing

// The source of a row of the buffer; token -1: there is none.
struct origin {
  int32_t rank, token;
};

// Rank 0, which is sent `extra` rows less by rank 1 than that has said.
struct receiver {
  flow_group &group;
  flow_rank &r;
  uint32_t extra, seat;
  bool overflows; // `extra` are so many that no account is kept of them
  std::map<uint64_t, origin> expected;

  receiver(flow_group &group, uint32_t extra, bool overflows)
      : group(group), r(group.all[0]), extra(extra), seat(group.seat_of(0, 1)), overflows(overflows) {
    cuda_flow_op op = r.host_op;
    uint32_t count = counted(1, EXPERT), *at = (uint32_t *)op.counts + seat * group.shape.experts + EXPERT;
    op.rows[seat] += extra;
    OK(cudaSetDevice(r.device));
    OK(cudaMemcpy(at, &count, sizeof count, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(r.op, &op, sizeof op, cudaMemcpyHostToDevice));
    for (uint32_t source = 0; source < 2; source++)
      expect(source);
  }

  // As the headers say.
  uint32_t counted(uint32_t source, uint32_t expert) const {
    return group.counted[0][source][expert] + (source == 1 && expert == EXPERT ? extra : 0);
  }
  // Where the rows of a source for an expert begin in the expert's part, and that part.
  uint64_t begin_of(uint32_t source, uint32_t expert, uint64_t *part) const {
    *part = group.shape.layout == WEFT_EP_PER_EXPERT ? (uint64_t)expert * r.rows : 0;
    uint64_t begin = source == 0 ? 0 : counted(0, expert);
    for (uint32_t e = 0; group.shape.layout == WEFT_EP_PACKED && e < expert; e++)
      begin += counted(0, e) + counted(1, e);
    return begin;
  }
  void expect_row(uint64_t part, uint64_t row, uint32_t source, int32_t token) {
    bool stays = source == 0 || !overflows;
    if (row < r.rows)
      expected[part + row] = {group.all[source].rank, stays ? token : -1};
  }
  void expect(uint32_t source) {
    const flow_rank &from = group.all[source];
    uint32_t K = group.shape.topk, E = group.shape.experts;
    if (group.shape.layout == WEFT_EP_RANK_MAJOR) {
      const std::vector<int32_t> &tokens = r.pairs[source];
      uint64_t begin = source == 0 ? 0 : r.pairs[0].size();
      for (size_t i = 0; i < tokens.size() + (source == 1 ? extra : 0); i++)
        expect_row(0, begin + i, source, i < tokens.size() ? tokens[i] : -1);
      return;
    }
    uint64_t part;
    for (uint32_t e = 0; e < E; e++)
      for (uint32_t i = 0; i < counted(source, e); i++) {
        uint64_t begin = begin_of(source, e, &part);
        expect_row(part, begin + i, source, -1);
      }
    for (size_t at = 0; at < from.topk.size(); at++)
      if (group.member_of(from.topk[at]) == 0) {
        uint64_t begin = begin_of(source, (uint32_t)(from.topk[at] % E), &part);
        expect_row(part, begin + (uint64_t)from.number[at], source, (int32_t)(at / K));
      }
  }

  bool judge_row(uint64_t row, const origin &is, const char *values) const {
    auto found = expected.find(row);
    int32_t fill;
    memset(&fill, FILL, sizeof fill);
    origin should = found == expected.end() ? origin{fill, fill} : found->second;
    if (is.rank != should.rank || is.token != should.token)
      return group.complain("origin of row", r, row, is.token, should.token);
    for (uint32_t i = 0; found != expected.end() && should.token < 0 && i < group.row.value_bytes; i++)
      if (values[i] != 0)
        return group.complain("value of a row that did not come", r, row, values[i], 0);
    return true;
  }
  bool judge() const {
    std::vector<int32_t> src_rank(r.buffer_rows), src_token(r.buffer_rows);
    std::vector<char> out(r.buffer_rows * group.row.value_bytes);
    cuda_flow_op told;
    OK(cudaSetDevice(r.device));
    OK(cudaMemcpy(&told, r.op, sizeof told, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(src_rank.data(), r.src_rank, src_rank.size() * sizeof(int32_t), cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(src_token.data(), r.src_token, src_token.size() * sizeof(int32_t), cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(out.data(), r.out, out.size(), cudaMemcpyDeviceToHost));
    if (told.lost != 1ull << seat)
      return group.complain("lost", r, 0, (long long)told.lost, (long long)(1ull << seat));
    for (uint64_t row = 0; row < r.buffer_rows; row++)
      if (!judge_row(row, {src_rank[row], src_token[row]}, &out[row * group.row.value_bytes]))
        return false;
    return true;
  }
};

bool try_shape(int layout, uint32_t topk, uint32_t extra, bool overflows) {
  flow_shape shape;
  shape.tokens = 333;
  shape.hidden = 512;
  shape.topk = topk;
  shape.experts = 9;
  shape.layout = layout;
  shape.blocks = {8};
  flow_group group(shape);
  receiver receiver(group, extra, overflows);
  uint64_t op = group.next++;
  group.each([&](flow_rank &r) {
    group.clear(r);
    group.begin(r, op);
    group.plan(r);
  });
  group.all_rows(false);
  group.wait();
  bool right = receiver.judge();
  printf("%s - layout %d, top-%u, %u rows less: %s\n", right ? "ok" : "FAILED", layout, topk, extra,
         group.wrong.c_str());
  return right;
}

} // namespace

int main() {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  if (device_count() == 0) {
    printf("no GPU\n");
    return 77;
  }
  bool right = true;
  for (int layout : {WEFT_EP_PER_EXPERT, WEFT_EP_RANK_MAJOR, WEFT_EP_PACKED})
    for (uint32_t topk : {1, 3}) {
      right &= try_shape(layout, topk, 2, false);
      right &= try_shape(layout, topk, 5000, true);
    }
  return !right;
}
