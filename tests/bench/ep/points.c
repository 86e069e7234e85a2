// The points of a sweep, and the experts that tokens select.
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "bench/ep/ep.h"
#include "bench/ep/routing.h"
#include "cmocka_all.h"

static struct bench_ep_config usual(void) {
  return (struct bench_ep_config){.ops = "dispatch,combine,both",
                                  .tokens = "128",
                                  .hidden = "256",
                                  .topk = "2",
                                  .ranks = "2",
                                  .experts = "4",
                                  .dtypes = "bf16",
                                  .combine_dtypes = "bf16",
                                  .layouts = "per-expert",
                                  .routes = "fresh",
                                  .processors = "0",
                                  .skews = "uniform",
                                  .memories = "host"};
}

static void lists_make_all_combinations(void **state) {
  (void)state;
  struct bench_ep_config config = usual();
  struct bench_ep_sweep sweep;
  config.tokens = "1,16,1024";
  config.ranks = "2,3";
  config.skews = "zipf,zipf:1.5";
  assert_int_equal(bench_ep_sweep_parse(&config, &sweep), 0);
  assert_int_equal(sweep.count, 3 * 2 * 2 * 2); // two loops: both, and the two parts
  assert_int_equal(sweep.max_ranks, 3);
  assert_true(sweep.wanted[BENCH_EP_BOTH] && !sweep.wanted[BENCH_EP_COMBINE_SEND]);
  assert_int_equal(sweep.points[0].tokens, 1);
  assert_int_equal(sweep.points[2].tokens, 16);
  assert_int_equal(sweep.points[sweep.count - 1].tokens, 1024);
  assert_true(sweep.points[0].skew.value == 1 && sweep.points[sweep.count - 1].skew.value == 1.5);
  bench_ep_sweep_free(&sweep);
  assert_null(sweep.points);
}

static void throughput_takes_many_tokens(void **state) {
  (void)state;
  struct bench_ep_config config = usual();
  struct bench_ep_sweep sweep;
  config.mode = BENCH_EP_THROUGHPUT;
  config.ops = "both";
  config.tokens = "4096,32768";
  config.layouts = "rank-major,packed";
  config.routes = "fresh,kept";
  config.memories = "cuda";
  config.processors = "24,64";
  assert_int_equal(bench_ep_sweep_parse(&config, &sweep), 0);
  assert_int_equal(sweep.count, 2 * 2 * 2 * 2);
  assert_int_equal(sweep.points[0].tokens, 4096);
  assert_int_equal(sweep.points[1].tokens, 32768);
  assert_int_equal(sweep.points[0].route, BENCH_EP_FRESH);
  assert_int_equal(sweep.points[4].route, BENCH_EP_KEPT);
  assert_int_equal(sweep.points[0].processors, 24);
  assert_int_equal(sweep.points[2].processors, 64);
  assert_int_equal(sweep.points[8].layout, WEFT_EP_PACKED);
  bench_ep_sweep_free(&sweep);
  config.processors = "4";
  assert_int_equal(bench_ep_sweep_parse(&config, &sweep), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "want 0, or numbers from 8 on"));
}

static void refuse(struct bench_ep_config config, const char *says) {
  struct bench_ep_sweep sweep = {.count = 77};
  assert_int_equal(bench_ep_sweep_parse(&config, &sweep), WEFT_ERR_INVALID);
  if (!strstr(weft_last_error(), says))
    fail_msg("\"%s\" is not in \"%s\"", says, weft_last_error());
  assert_int_equal(sweep.count, 77); // nothing is written
}

#define REFUSE(field, text, says)                                                                                      \
  do {                                                                                                                 \
    struct bench_ep_config config = usual();                                                                           \
    config.field = text;                                                                                               \
    refuse(config, says);                                                                                              \
  } while (0)

static void wrong_lists_are_refused(void **state) {
  (void)state;
  REFUSE(tokens, "0", "--tokens: \"0\" is out of range: want numbers from 1 to 32768");
  REFUSE(tokens, "1024,1025", "--tokens 1025 is more than the 1024 that --mode latency allows: want --mode throughput");
  REFUSE(routes, "old", "want one or more of fresh, kept");
  REFUSE(processors, "24", "--processors 24 is for kernels: want only --memory cuda, not host");
  REFUSE(window_bytes, 1 << 20, "--window is given for --mode latency: it belongs to --mode throughput");
  REFUSE(tokens, "4294967297", "out of range");
  REFUSE(tokens, "1,,2", "has an empty value");
  REFUSE(tokens, "", "has an empty value");
  REFUSE(tokens, "1,-2", "\"-2\" is out of range");
  REFUSE(tokens, "8,8", "--tokens names 8 twice");
  REFUSE(hidden, "200", "multiples of 128");
  REFUSE(topk, "17", "from 1 to 16");
  REFUSE(topk, "9", "more than there are experts: 2 ranks with 4 experts each have 8 in all");
  REFUSE(ranks, "two", "\"two\" is out of range");
  REFUSE(experts, "257", "from 1 to 256");
  REFUSE(dtypes, "bf16,fp9", "--dtype: \"fp9\" is not known: want one or more of bf16, fp8, fp8-pow2, fp8-ue8m0");
  REFUSE(combine_dtypes, "fp8", "want one or more of bf16, logfmt10");
  REFUSE(layouts, "flat", "want one or more of per-expert, rank-major, packed");
  REFUSE(memories, "disk", "want one or more of host, cuda");
  REFUSE(ops, "all", "want one or more of dispatch, combine, both");
  REFUSE(skews, "zipf:0", "want zipf:N with N from 0.01 to 8");
  REFUSE(skews, "hot:1.5", "want hot:N with N from 0.01 to 1");
  REFUSE(skews, "hot:", "out of range");
  REFUSE(skews, "zipf:nan", "out of range");
  REFUSE(skews, "uniform:1", "is not known");
  REFUSE(graph, true, "want only --memory cuda");
  struct bench_ep_config config = usual();
  config.graph = true;
  config.memories = "cuda";
  config.ops = "dispatch";
  refuse(config, "want \"both\" in --op");
  config = usual();
  config.tokens = config.topk = "1,2,3,4,5,6,7,8";
  config.ranks = "2,3,4,5,6,7,8,9";
  config.experts = "8,9,10,11,12,13,14,15";
  refuse(config, "more than 4096 measurements");
}

// --- routing ---

enum { TOKENS = 512, TOPK = 4, RANKS = 2, EXPERTS = 16, ALL = RANKS * EXPERTS };

// How often each expert is selected by all ranks; every token's are distinct.
static void count(struct bench_ep_skew skew, uint64_t seed, uint32_t counts[ALL], int64_t *hottest) {
  static int64_t topk[TOKENS * TOPK];
  static float weights[TOKENS * TOPK];
  struct bench_ep_point point = {.tokens = TOKENS, .topk = TOPK, .ranks = RANKS, .experts = EXPERTS, .skew = skew};
  struct bench_ep_routing *routing;
  assert_int_equal(bench_ep_routing_open(&routing, &point, seed), 0);
  memset(counts, 0, ALL * sizeof *counts);
  for (int32_t rank = 0; rank < RANKS; rank++) {
    bench_ep_routing_fill(routing, rank, topk, weights);
    for (uint32_t i = 0; i < TOKENS * TOPK; i++) {
      assert_in_range(topk[i], 0, ALL - 1);
      assert_true(weights[i] >= 0.125f && weights[i] <= 1);
      counts[topk[i]]++;
      for (uint32_t k = 0; k < i % TOPK; k++)
        assert_int_not_equal(topk[i - i % TOPK + k], topk[i]);
    }
  }
  *hottest = bench_ep_routing_hottest(routing);
  bench_ep_routing_close(routing);
}

static uint32_t most(const uint32_t counts[ALL]) {
  uint32_t found = 0;
  for (uint32_t e = 0; e < ALL; e++)
    found = counts[e] > counts[found] ? e : found;
  return found;
}

static void uniform_is_even(void **state) {
  (void)state;
  uint32_t counts[ALL], mean = RANKS * TOKENS * TOPK / ALL;
  int64_t hottest;
  count((struct bench_ep_skew){BENCH_EP_UNIFORM, 0}, 1, counts, &hottest);
  for (uint32_t e = 0; e < ALL; e++)
    assert_in_range(counts[e], mean * 2 / 3, mean * 4 / 3);
}

static void one_expert_is_hot(void **state) {
  (void)state;
  uint32_t counts[ALL];
  int64_t hottest;
  count((struct bench_ep_skew){BENCH_EP_HOT, 1}, 1, counts, &hottest);
  assert_int_equal(most(counts), hottest);
  assert_int_equal(counts[hottest], RANKS * TOKENS); // every token
  count((struct bench_ep_skew){BENCH_EP_HOT, 0.5}, 1, counts, &hottest);
  assert_int_equal(most(counts), hottest);
  assert_in_range(counts[hottest], RANKS * TOKENS * 45 / 100, RANKS * TOKENS * 65 / 100);
}

static void zipf_grows_with_its_exponent(void **state) {
  (void)state;
  uint32_t counts[ALL], before = 0;
  int64_t hottest;
  const double exponents[] = {0.3, 0.7, 1, 1.5, 3};
  for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++) {
    count((struct bench_ep_skew){BENCH_EP_ZIPF, exponents[i]}, 1, counts, &hottest);
    assert_int_equal(most(counts), hottest);
    assert_true(counts[hottest] > before);
    before = counts[hottest];
  }
  assert_true(before > RANKS * TOKENS * 95 / 100);
}

static void the_seed_decides(void **state) {
  (void)state;
  uint32_t first[ALL], again[ALL], other[ALL];
  int64_t hottest;
  const struct bench_ep_skew zipf = {BENCH_EP_ZIPF, 1};
  count(zipf, 1, first, &hottest);
  count(zipf, 1, again, &hottest);
  count(zipf, 2, other, &hottest);
  assert_memory_equal(first, again, sizeof first);
  assert_memory_not_equal(first, other, sizeof first);
}

static void all_experts_may_be_selected(void **state) {
  (void)state;
  struct bench_ep_point point = {.tokens = 8, .topk = 4, .ranks = 2, .experts = 2, .skew = {BENCH_EP_ZIPF, 8}};
  struct bench_ep_routing *routing;
  int64_t topk[32];
  float weights[32];
  assert_int_equal(bench_ep_routing_open(&routing, &point, 1), 0);
  bench_ep_routing_fill(routing, 1, topk, weights);
  for (int t = 0; t < 8; t++)
    assert_int_equal(topk[4 * t] + topk[4 * t + 1] + topk[4 * t + 2] + topk[4 * t + 3], 0 + 1 + 2 + 3);
  bench_ep_routing_close(routing);
  point.topk = 5;
  assert_int_equal(bench_ep_routing_open(&routing, &point, 1), WEFT_ERR_INVALID);
  bench_ep_routing_close(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_make_all_combinations),
      cmocka_unit_test(throughput_takes_many_tokens),
      cmocka_unit_test(wrong_lists_are_refused),
      cmocka_unit_test(uniform_is_even),
      cmocka_unit_test(one_expert_is_hot),
      cmocka_unit_test(zipf_grows_with_its_exponent),
      cmocka_unit_test(the_seed_decides),
      cmocka_unit_test(all_experts_may_be_selected),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
