// The kernels against the oracle: all shapes and operations, on all devices of the machine; ten thousand operations in
// a row; operations that overlap or end without a combine; values that look like an empty place; and a rank that stays
// silent. With name=number arguments, only that shape runs.
#include <cmath>
#include <cstring>
#include <string>

#include "cuda/support/ranks.cuh"

extern "C" {
#include "ep/oracle/oracle.h"
}

namespace {

enum { SKIPPED = 77 };

// What is run now.
void tell(const shape &shape, const std::string &what = "") {
  shape_print(shape);
  printf("%s\n", what.c_str());
  fflush(stdout);
}

// What the ranks of an operation dispatched, for the oracle.
struct judged {
  std::vector<input> in;
  std::vector<oracle_source> sources;
  oracle_case test;
};

void describe(const group &g, judged &j) {
  j.sources = std::vector<oracle_source>(g.shape.ranks);
  for (uint32_t i = 0; i < g.shape.ranks; i++) {
    j.sources[i].rank = g.active[i];
    j.sources[i].num_tokens = j.in[i].num_tokens;
    j.sources[i].x = j.in[i].x.data();
    j.sources[i].topk_idx = j.in[i].topk_idx.data();
    j.sources[i].topk_weights = j.in[i].weights.data();
  }
  j.test = {};
  j.test.hidden = g.shape.hidden;
  j.test.topk = g.shape.topk;
  j.test.experts_per_rank = g.shape.experts;
  j.test.capacity = g.capacity;
  j.test.dtype = (enum weft_ep_dtype)g.shape.dtype;
  j.test.sources = j.sources.data();
  j.test.num_sources = g.shape.ranks;
  j.test.combine_dtype = g.shape.coded ? WEFT_EP_COMBINE_LOGFMT10 : WEFT_EP_COMBINE_BF16;
}

// Scales of row i, as numbers.
std::vector<float> row_scales(const shape &s, const void *scales, uint32_t i) {
  uint32_t count = s.hidden / CUDA_BLOCK, stride = (count + 3) / 4 * 4;
  std::vector<float> row(count);
  for (uint32_t b = 0; b < count; b++)
    row[b] = s.dtype == CUDA_FP8_UE8M0 ? exp2f((float)((const uint8_t *)scales)[(size_t)i * stride + b] - 127.0f)
                                       : ((const float *)scales)[(size_t)i * count + b];
  return row;
}

// Rank-major, the experts are the identity: y = row * (sum of its weights), made here.
void reduce_rows(const group &g, rank &r, const weft_ep_recv_args &recv, uint32_t count) {
  const shape &s = g.shape;
  std::vector<uint16_t> y((size_t)g.rows * s.hidden);
  std::vector<double> row(s.hidden);
  for (uint32_t i = 0; i < count; i++) {
    if (s.dtype == CUDA_BF16)
      for (uint32_t h = 0; h < s.hidden; h++)
        row[h] = oracle_bf16(((const uint16_t *)recv.x)[(size_t)i * s.hidden + h]);
    else
      oracle_uncast(row.data(), (const uint8_t *)recv.x + (size_t)i * s.hidden, row_scales(s, recv.scales, i).data(),
                    s.hidden);
    for (uint32_t h = 0; h < s.hidden; h++) {
      float sum = 0.0f;
      for (uint32_t k = 0; k < s.topk && recv.local_expert[i * s.topk + k] >= 0; k++)
        sum += recv.weights[i * s.topk + k] * (float)row[h];
      y[(size_t)i * s.hidden + h] = oracle_to_bf16(sum);
    }
  }
  OK(cudaMemcpy(r.y, y.data(), y.size() * 2, cudaMemcpyHostToDevice));
}

bool judge_dispatch(const group &g, rank &r, const judged &j) {
  const shape &s = g.shape;
  size_t all = (size_t)g.parts * g.rows;
  auto x = fetch(r.received, all * g.layout.value_bytes);
  auto scales = fetch(r.scales, all * (s.hidden / CUDA_BLOCK));
  auto counts = fetch(r.counts, s.experts);
  auto src_rank = fetch(r.src_rank, all), src_token = fetch(r.src_token, all);
  auto local_expert = fetch(r.local_expert, all * s.topk);
  auto range = fetch(r.range, (size_t)g.parts * g.capacity);
  auto weights = fetch(r.weights, all * s.topk);
  weft_ep_recv_args recv = WEFT_EP_RECV_ARGS_INIT;
  recv.layout = s.rank_major ? WEFT_EP_RANK_MAJOR : WEFT_EP_PER_EXPERT;
  recv.rows = g.rows;
  recv.x = x.data();
  recv.scales = scales.data();
  recv.counts = counts.data();
  recv.src_rank = src_rank.data();
  recv.src_token = src_token.data();
  recv.range = range.data();
  recv.local_expert = s.rank_major ? local_expert.data() : nullptr;
  recv.weights = s.rank_major ? weights.data() : nullptr;
  oracle_verdict verdict = oracle_check_dispatch(&j.test, g.active[r.index], &recv, nullptr, nullptr, 0);
  if (!verdict.ok) {
    printf("  rank %d: %s\n", g.active[r.index], verdict.what);
    return false;
  }
  if (!s.rank_major) {
    g.run_experts(r);
    g.finish(r);
    return true;
  }
  uint32_t count = 0;
  for (int32_t active : g.active)
    count += (uint32_t)range[active];
  reduce_rows(g, r, recv, count);
  return true;
}

bool judge_combine(const group &g, rank &r, const judged &j) {
  auto out = fetch(r.out, (size_t)g.shape.tokens * g.shape.hidden);
  enum pattern_kind kind = PATTERN_PLAIN;
  oracle_verdict verdict =
      oracle_check_combine(&j.test, g.active[r.index], out.data(), nullptr, pattern_expert, &kind, nullptr, 0, false);
  if (!verdict.ok)
    printf("  rank %d: %s\n", g.active[r.index], verdict.what);
  return verdict.ok;
}

bool none_lost(const group &g) {
  bool none = true;
  for (const rank &r : g.ranks)
    if (g.lost(r)) {
      printf("  rank %d lost members %llx\n", g.active[r.index], (unsigned long long)g.lost(r));
      none = false;
    }
  return none;
}

// One operation, judged.
bool run_operation(group &g, uint64_t op) {
  judged j;
  j.in.resize(g.shape.ranks);
  std::vector<char> ok(g.shape.ranks);
  g.each([&](rank &r) {
    j.in[r.index] = g.make_input(r.index, op, op % 3 == 0 ? 0.2f : 0.0f, op % 2 == 0);
    g.upload(r, j.in[r.index]);
  });
  describe(g, j);
  g.each([&](rank &r) {
    g.dispatch(r);
    g.finish(r);
    ok[r.index] = judge_dispatch(g, r, j);
  });
  g.each([&](rank &r) {
    g.combine(r);
    g.finish(r);
    ok[r.index] = judge_combine(g, r, j) && ok[r.index];
  });
  return std::count(ok.begin(), ok.end(), 0) == 0 && none_lost(g);
}

// Operations whose experts are the identity.
const uint64_t operations[] = {1, 2, 3, 5, 6, 7};

// Operations of random sizes, one behind the other in the stream, without a look between: then one that is judged.
bool run_storm(const shape &shape, uint32_t operations) {
  tell(shape, ", " + std::to_string(operations) + " operations of random sizes in a row");
  group g(shape);
  // Before anybody launches: it waits for all of the device, other ranks included.
  g.each([&](rank &r) { g.upload(r, g.make_input(r.index, 1, 0.1f, false)); });
  bool shared = g.shape.ranks > g.shape.devices;
  g.each([&](rank &r) {
    uint32_t state = 12345 + r.index; // each rank another size
    for (uint32_t i = 0; i < operations; i++) {
      state = state * 1664525 + 1013904223;
      r.num_tokens = (state >> 16) % 4 == 0 ? (state >> 20) % 3 : (state >> 16) % (shape.tokens + 1);
      g.dispatch(r);
      g.run_experts(r);
      g.combine(r);
      if (shared && i % 128 == 127) // who launches more than a stream takes keeps the others from launching
        g.finish(r);
    }
    g.finish(r);
  });
  return run_operation(g, operations);
}

// A rank that does not come: the others lose it by the deadline, agree on who was there, and go on without it.
bool run_silence(const shape &shape) {
  tell(shape, ", one of them silent");
  group g(shape);
  bool ok = true;
  g.each([&](rank &r) {
    g.set_timeout(r, 20000000);
    g.upload(r, g.make_input(r.index, 1, 0.0f, false));
  });
  g.each([&](rank &r) {
    if (r.index == 1)
      return;
    for (int i = 0; i < 3; i++) {
      g.dispatch(r);
      g.run_experts(r);
      g.combine(r);
    }
    g.finish(r);
  });
  for (const rank &r : g.ranks) {
    uint64_t lost = r.index == 1 ? 2 : g.lost(r);
    if (lost != 2) {
      printf("  rank %d lost members %llx, not 2\n", g.active[r.index], (unsigned long long)lost);
      ok = false;
    }
    auto record = g.record(r, 2);
    if (r.index != 1 && (record.lost != 2 || record.num_ranks != shape.ranks || record.unsent + record.missing == 0)) {
      printf("  rank %d: operation %llu has lost %llx of %u ranks, and %u selections\n", g.active[r.index],
             (unsigned long long)record.op, (unsigned long long)record.lost, record.num_ranks,
             record.unsent + record.missing);
      ok = false;
    }
  }
  return ok;
}

// Two operations open at once, again and again.
bool run_overlapping(const shape &shape, uint32_t pairs) {
  tell(shape, ", two operations at once");
  group g(shape);
  bool ok = true;
  for (uint32_t i = 0; i < pairs && ok; i++) {
    judged j[2];
    std::vector<char> fine(g.shape.ranks, 1);
    for (int k = 0; k < 2; k++) {
      j[k].in.resize(g.shape.ranks);
      for (uint32_t index = 0; index < g.shape.ranks; index++)
        j[k].in[index] = g.make_input(index, 2 * i + k, 0.2f, true);
      describe(g, j[k]);
    }
    auto begin = [&](int k) {
      g.each([&](rank &r) { g.upload(r, j[k].in[r.index]); });
      g.each([&](rank &r) {
        g.dispatch(r);
        g.finish(r);
      });
    };
    auto end = [&](int k) {
      g.each([&](rank &r) {
        r.num_tokens = j[k].in[r.index].num_tokens;
        g.combine(r);
        g.finish(r);
        fine[r.index] = judge_combine(g, r, j[k]) && fine[r.index];
      });
    };
    auto experts = [&](int k) {
      g.each([&](rank &r) { fine[r.index] = judge_dispatch(g, r, j[k]) && fine[r.index]; });
    };
    begin(0);
    experts(0);
    begin(1); // what the experts have made of the first is still in y
    end(0);
    experts(1);
    end(1);
    ok = std::count(fine.begin(), fine.end(), 0) == 0 && none_lost(g);
  }
  return ok;
}

// Operations that all end without a combine, sent two at a time; then one that is judged.
bool run_without_combines(const shape &shape, uint32_t pairs) {
  tell(shape, ", operations without a combine");
  group g(shape);
  g.each([&](rank &r) { g.upload(r, g.make_input(r.index, 1, 0.1f, true)); });
  g.each([&](rank &r) {
    for (uint32_t i = 0; i < pairs; i++) {
      for (uint32_t halves : {DEVICE_SEND, DEVICE_SEND, DEVICE_RECV, DEVICE_RECV})
        g.dispatch_halves(r, halves);
      g.end(r);
      g.end(r);
    }
    g.finish(r);
  });
  return none_lost(g) && run_operation(g, 2 * pairs);
}

void run_once(group &g) {
  g.each([&](rank &r) {
    g.dispatch(r);
    g.combine(r);
    g.finish(r);
  });
}

// x, its scales if `given`, and y are words of ones: they arrive as other values that are no numbers.
bool run_empty_words(const shape &shape, bool given) {
  tell(shape, given ? ", given, words of ones" : ", words of ones");
  group g(shape);
  bool ok = true;
  size_t all = (size_t)g.parts * g.rows, values = (size_t)shape.tokens * shape.hidden;
  g.each([&](rank &r) {
    g.upload(r, g.make_input(r.index, 1, 0.0f, false));
    OK(cudaMemset(r.x, 0xFF, values * 2));
    OK(cudaMemset(r.y, 0xFF, all * shape.hidden * 2));
    OK(cudaMemset(r.received, 0, all * g.layout.value_bytes));
    if (given) {
      r.given_scales = device_alloc<float>(values / CUDA_BLOCK);
      OK(cudaMemset(r.given_scales, 0xFF, values / CUDA_BLOCK * 4));
    }
    OK(cudaDeviceSynchronize());
  });
  run_once(g);
  for (rank &r : g.ranks) {
    OK(cudaSetDevice(r.device));
    auto received = fetch((uint8_t *)r.received, all * g.layout.value_bytes);
    auto counts = fetch(r.counts, g.shape.experts);
    auto out = fetch(r.out, (size_t)r.num_tokens * shape.hidden);
    size_t row = (size_t)g.rows * g.layout.value_bytes, numbers = 0; // bytes of an expert's rows
    for (uint32_t e = 0; e < g.shape.experts; e++)
      for (size_t i = 0; i < (size_t)counts[e] * g.layout.value_bytes; i++)
        if (shape.dtype != CUDA_BF16 || i % 2 == 1) // the upper byte tells
          numbers += (received[e * row + i] & 0x7F) != 0x7F;
    for (uint16_t value : out)
      numbers += (value & 0x7FFF) <= 0x7F80;
    if (numbers > 0)
      printf("  rank %d: %zu values have come as numbers\n", g.active[r.index], numbers);
    ok = ok && numbers == 0;
  }
  return none_lost(g) && ok;
}

// Outputs are 1 and -1 by turns, so that words of signs could not travel as they are in code.
bool run_coded_signs(shape shape) {
  shape.coded = 1;
  tell(shape, ", outputs 1 and -1");
  group g(shape);
  std::vector<input> in(g.shape.ranks);
  std::vector<uint16_t> ones((size_t)g.parts * g.rows * shape.hidden);
  for (size_t i = 0; i < ones.size(); i++)
    ones[i] = i % 2 ? 0xBF80 : 0x3F80;
  g.each([&](rank &r) {
    in[r.index] = g.make_input(r.index, 1, 0.0f, false);
    g.upload(r, in[r.index]);
    OK(cudaMemcpy(r.y, ones.data(), ones.size() * 2, cudaMemcpyHostToDevice));
  });
  run_once(g);
  bool ok = none_lost(g);
  for (rank &r : g.ranks) {
    OK(cudaSetDevice(r.device));
    auto out = fetch(r.out, (size_t)r.num_tokens * shape.hidden);
    for (uint32_t token = 0; token < r.num_tokens && ok; token++) {
      double sum = 0.0;
      for (uint32_t k = 0; k < shape.topk; k++)
        sum += in[r.index].topk_idx[token * shape.topk + k] >= 0 ? in[r.index].weights[token * shape.topk + k] : 0.0f;
      for (uint32_t i = 0; i < shape.hidden && ok; i++) {
        double value = oracle_bf16(out[(size_t)token * shape.hidden + i]);
        double right = i % 2 ? -sum : sum;
        ok = std::fabs(value - right) <= 0.02 * sum + 1e-6;
        if (!ok)
          printf("  rank %d: token %u, value %u is %g, not %g\n", g.active[r.index], token, i, value, right);
      }
    }
  }
  return ok;
}

bool run_shape(const shape &shape) {
  tell(shape);
  group g(shape);
  bool ok = true;
  for (uint64_t op : operations)
    ok = ok && run_operation(g, op);
  return ok;
}

std::vector<shape> all_shapes(void) {
  std::vector<shape> shapes;
  auto add = [&](auto set) {
    shape shape;
    set(shape);
    shapes.push_back(shape);
  };
  add([](shape &) {});
  add([](shape &s) { s.halves = 1; });
  add([](shape &s) { s.strict = 1; });
  for (uint32_t rank_major : {0u, 1u})
    add([=](shape &s) { s.coded = 1, s.rank_major = rank_major, s.tokens = 40, s.experts = 9; });
  add([](shape &s) { s.coded = s.halves = s.strict = 1, s.hidden = 1152, s.tokens = 40, s.experts = 9; });
  add([](shape &s) { s.late = 1, s.tokens = 50; });
  add([](shape &s) { s.late = s.halves = 1, s.tokens = 50, s.topk = 5; });
  add([](shape &s) { s.late = s.coded = 1, s.tokens = 40, s.experts = 9; });
  // Warps send the weights of several tokens each, to more ranks than they have groups of lanes for.
  add([](shape &s) { s.late = 1, s.ranks = 7, s.topk = 16, s.tokens = 200, s.hidden = 1024, s.blocks = 6; });
  for (int dtype : {CUDA_BF16, CUDA_FP8, CUDA_FP8_POW2, CUDA_FP8_UE8M0})
    for (uint32_t rank_major : {0u, 1u})
      add([=](shape &s) { s.dtype = dtype, s.rank_major = rank_major, s.experts = 5, s.tokens = 33; });
  for (uint32_t hidden : {128u, 640u, 2048u, 2560u, 3072u, 3584u, 4096u, 5120u, 6144u, 8192u, 16384u})
    add([=](shape &s) {
      s.hidden = hidden, s.tokens = 20, s.experts = 9, s.dtype = hidden % 3 ? CUDA_FP8 : CUDA_BF16;
    });
  for (uint32_t tokens : {1u, 7u, 513u, 1024u})
    add([=](shape &s) { s.tokens = tokens, s.hidden = 1024, s.experts = 16; });
  for (uint32_t ranks : {8u, 12u})
    if (ranks <= 8 * (uint32_t)device_count()) // a device has eight queues
      add([=](shape &s) { s.ranks = ranks, s.hidden = 1024, s.tokens = 40, s.experts = 9; });
  for (uint32_t blocks : {6u, 18u})
    add([=](shape &s) { s.blocks = blocks, s.tokens = 33, s.experts = 9; });
  for (uint32_t ranks : {1u, 2u, 3u})
    add([=](shape &s) { s.ranks = ranks, s.stride = 3, s.topk = 16 / ranks - 1, s.tokens = 60, s.experts = 24; });
  return shapes;
}

} // namespace

int main(int argc, char **argv) {
  if (device_count() == 0) {
    printf("skipped: no GPU here\n");
    return SKIPPED;
  }
  std::vector<shape> shapes = all_shapes();
  if (argc > 1)
    shapes.assign(1, shape());
  for (int i = 1; i < argc; i++)
    if (!shape_option(shapes[0], argv[i])) {
      fprintf(stderr, "%s: no option %s\n", argv[0], argv[i]);
      return 2;
    }
  if (shapes[0].late && shapes[0].rank_major) {
    fprintf(stderr, "%s: late and rank_major: rows by rank come with their weights, or without any\n", argv[0]);
    return 2;
  }
  int failed = 0;
  for (const shape &shape : shapes)
    failed += !run_shape(shape);
  if (argc == 1) {
    shape small;
    small.hidden = 1024;
    small.experts = 16;
    failed += !run_storm(small, 10000);
    for (uint32_t halves : {0u, 1u}) {
      small.halves = halves;
      failed += !run_overlapping(small, 5);
      failed += !run_without_combines(small, 20);
    }
    small.halves = 0;
    failed += !run_coded_signs(small);
    failed += !run_empty_words(small, true);
    for (int dtype : {CUDA_BF16, CUDA_FP8}) {
      small.dtype = dtype;
      failed += !run_empty_words(small, false);
    }
    small.ranks = 3;
    failed += !run_silence(small);
  }
  printf("%zu shapes, %d wrong\n", shapes.size(), failed);
  return failed != 0;
}
