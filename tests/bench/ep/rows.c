// Rows are computed from the times of ranks, and are sent between hosts.
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "bench/ep/bound.h"
#include "bench/ep/found_json.h"
#include "cmocka_all.h"
#include "limits/host.h"

enum { RANKS = 2, COUNT = 3 };

static const struct bench_ep_point point = {.tokens = 4,
                                            .hidden = 128,
                                            .topk = 2,
                                            .ranks = RANKS,
                                            .experts = 2,
                                            .dtype = WEFT_EP_FP8,
                                            .combine_dtype = WEFT_EP_COMBINE_BF16,
                                            .layout = WEFT_EP_RANK_MAJOR,
                                            .skew = {BENCH_EP_HOT, 0.5},
                                            .loop = BENCH_EP_PARTS};

// Rank r's dispatch takes (10, 20, 30) + r us, its combine (40, 20, 2) - r us.
static void fill(struct bench_ep_found *found) {
  const uint64_t times[2][COUNT] = {{10000, 20000, 30000}, {40000, 20000, 2000}};
  assert_int_equal(bench_ep_found_open(found, RANKS), 0);
  found->count = COUNT;
  found->counted = true;
  for (uint32_t r = 0; r < RANKS; r++) {
    struct bench_ep_found_rank *rank = &found->ranks[r];
    snprintf(rank->host, sizeof rank->host, "host%u", r);
    rank->machine = r;
    rank->result = (struct bench_ep_result){.count = COUNT,
                                            .logical = {21000, 42000},
                                            .wire = {2100 + r * 4200, 4000},
                                            .pairs = 10 - 4 * r,
                                            .hottest_pairs = 8 - 4 * r,
                                            .way = "ofi",
                                            .gpu_index = r};
    rank->times = calloc(BENCH_EP_MAX_TIMES * COUNT, sizeof *rank->times);
    assert_non_null(rank->times);
    for (uint32_t i = 0; i < COUNT; i++) {
      rank->times[i] = times[0][i] + 1000 * r;
      rank->times[COUNT + i] = times[1][i] - 1000 * r;
    }
  }
}

static const struct figure *figure(const struct figures_row *row, const char *name) {
  const struct figure *found = figures_find(row, name);
  assert_non_null(found);
  return found;
}

static void rows_are_right_by_hand(void **state) {
  (void)state;
  struct bench_ep_config config = {0};
  struct bench_ep_sweep sweep = {.wanted = {[BENCH_EP_DISPATCH] = true, [BENCH_EP_COMBINE] = true}};
  struct bench_ep_found found;
  struct figures figures;
  uint32_t num_rows;
  fill(&found);
  assert_int_equal(figures_begin(&figures, "ep"), 0);
  assert_int_equal(bench_ep_add_rows(&figures, &config, &sweep, &point, 5, &found, &num_rows), 0);
  assert_int_equal(num_rows, 2);
  const struct figures_row *dispatch = &figures.rows[0], *combine = &figures.rows[1];
  assert_int_equal(dispatch->run, 5);
  assert_string_equal(json_string_value(json_object_get(dispatch->keys, "op")), "dispatch");
  assert_string_equal(json_string_value(json_object_get(dispatch->keys, "skew")), "hot:0.5");
  assert_string_equal(json_string_value(json_object_get(dispatch->keys, "dtype")), "fp8");
  assert_int_equal(json_integer_value(json_object_get(dispatch->keys, "experts")), 4);
  // An operation takes as long as on the rank that takes longest.
  assert_true(figure(dispatch, "latency")->value == 21 && figure(dispatch, "latency")->max == 31);
  assert_int_equal(figure(dispatch, "latency")->count, COUNT);
  assert_int_equal(figure(dispatch, "rank_latency")->count, RANKS * COUNT);
  assert_true(figure(dispatch, "rank_latency")->value == 20.5);
  assert_string_equal(dispatch->slowest, "rank 1 on host1");
  assert_string_equal(combine->slowest, "rank 0 on host0");
  // Of a rank, by the mean of the ranks and of the latency.
  assert_true(figure(dispatch, "wire_bytes")->value == 4200 && figure(dispatch, "logical_bytes")->value == 21000);
  assert_true(figure(dispatch, "wire_bandwidth")->value == 4200 / 21000.0);
  assert_true(figure(dispatch, "logical_bandwidth")->value == 1);
  // 16 pairs: 10 at the busiest rank of 2, 8 at the busiest expert of 4.
  assert_true(figure(dispatch, "busiest_rank")->value == 125 && figure(dispatch, "busiest_expert")->value == 200);
  bench_ep_found_free(&found);
  figures_free(&figures);
}

static void nothing_timed_makes_no_row(void **state) {
  (void)state;
  struct bench_ep_config config = {0};
  struct bench_ep_sweep sweep = {.wanted = {[BENCH_EP_DISPATCH] = true}};
  struct bench_ep_found found;
  struct figures figures;
  uint32_t num_rows = 7;
  fill(&found);
  found.count = 0;
  assert_int_equal(figures_begin(&figures, "ep"), 0);
  assert_int_equal(bench_ep_add_rows(&figures, &config, &sweep, &point, 0, &found, &num_rows), 0);
  assert_int_equal(num_rows + figures.num_rows, 0);
  bench_ep_found_free(&found);
  figures_free(&figures);
}

static void ranks_survive_the_way_to_another_host(void **state) {
  (void)state;
  struct bench_ep_found here, there;
  fill(&here);
  fill(&there);
  json_t *json = bench_ep_found_to_json(&there, 1, 1, 2);
  assert_non_null(json);
  struct bench_ep_found_rank last = here.ranks[1];
  here.ranks[1] = (struct bench_ep_found_rank){0};
  assert_int_equal(bench_ep_found_from_json(&here, 1, 1, "afar", 2, json), 0);
  assert_string_equal(here.ranks[1].host, "afar");
  assert_memory_equal(here.ranks[1].times, last.times, 2 * COUNT * sizeof *last.times);
  assert_int_equal(here.ranks[1].result.wire[0], 6300);
  assert_int_equal(here.ranks[1].result.hottest_pairs, 4);
  assert_int_equal(here.ranks[1].result.gpu_index, 1);
  assert_string_equal(here.ranks[1].result.way, "ofi");
  free(last.times);
  json_decref(json);
  bench_ep_found_free(&here);
  bench_ep_found_free(&there);
}

// `change` spoils what rank 1's host sent.
static void refuse(const char *member, json_t *value, const char *says) {
  struct bench_ep_found here, there;
  fill(&here);
  fill(&there);
  free(here.ranks[1].times);
  here.ranks[1].times = NULL;
  json_t *json = bench_ep_found_to_json(&there, 1, 1, 2);
  assert_non_null(json);
  bool of_all = json_object_get(json, member) != NULL;
  json_t *rank = json_array_get(json_object_get(json, "ranks"), 0);
  assert_int_equal(json_object_set_new(of_all ? json : rank, member, value), 0);
  assert_int_equal(bench_ep_found_from_json(&here, 1, 1, "afar", 2, json), WEFT_ERR_PROTOCOL);
  if (!strstr(weft_last_error(), says))
    fail_msg("\"%s\" is not in \"%s\"", says, weft_last_error());
  json_decref(json);
  bench_ep_found_free(&here);
  bench_ep_found_free(&there);
}

static void what_another_host_spoilt_is_refused(void **state) {
  (void)state;
  refuse("count", json_integer(COUNT + 1), "4 iterations were timed there, but 3 here");
  refuse("count", json_string("3"), "count is missing, or is not a number");
  refuse("ranks", json_array(), "ranks has 0 elements: want 1");
  refuse("times", json_array(), "times has 0 numbers: want 6");
  refuse("times", json_pack("[i,i,i,i,i,s]", 1, 2, 3, 4, 5, "6"), "times is missing, or is not a number");
  refuse("wire", json_pack("[i,i]", -1, 2), "wire is missing, or is not a number");
  refuse("gpu_id", json_string("zz"), "gpu_id has other characters than hexadecimal digits");
  refuse("way", json_integer(1), "way is missing, or is not a text");
}

static void a_figure_stands_beside_its_bound(void **state) {
  (void)state;
  struct bench_ep_config config = {0};
  struct bench_ep_sweep sweep = {.wanted = {[BENCH_EP_DISPATCH] = true}};
  struct bench_ep_found found;
  struct limits *limits;
  struct figures figures;
  struct bench_output output = {0};
  uint32_t num_rows;
  fill(&found);
  found.ranks[1].machine = 0; // in another container of it, perhaps
  assert_int_equal(limits_open(&limits), 0);
  assert_int_equal(figures_begin(&figures, "ep"), 0);
  assert_int_equal(bench_ep_add_rows(&figures, &config, &sweep, &point, 0, &found, &num_rows), 0);
  assert_int_equal(bench_ep_bound_row(limits, &output, &figures, &figures.rows[0], &point, &found, 0), 0);
  assert_int_equal(figures.num_bounds, 1);
  assert_string_equal(figures.rows[0].refused, ""); // 0.2 GB/s
  // Two ranks of one GPU are no measurement of a link, whatever they tell.
  for (uint32_t r = 0; r < RANKS; r++)
    snprintf(found.ranks[r].result.gpu, sizeof found.ranks[r].result.gpu, "GPU 0, one");
  assert_int_equal(bench_ep_bound_row(limits, &output, &figures, &figures.rows[0], &point, &found, 0), 0);
  assert_non_null(strstr(figures.rows[0].refused, "one GPU"));
  limits_close(limits);
  bench_ep_found_free(&found);
  figures_free(&figures);
}

// Of four ranks that reach each other as if on two hosts, each sends to one by memory and to two by the network: their
// wire bytes may be half as many again as the network's bound.
static void a_bound_of_the_network_is_of_what_passes_it(void **state) {
  (void)state;
  enum { MANY = 4 };
  static const double shares[][2] = {{2, 3.0 / 8}, {3, 3.0 / 8}, {4, 1.0 / 4}, {8, 1.0 / 4}}; // --as-hosts, share
  struct bench_ep_config config = {0};
  struct bench_ep_sweep sweep = {.wanted = {[BENCH_EP_DISPATCH] = true}};
  struct bench_ep_point four = point;
  struct bench_ep_found found;
  struct figures figures;
  struct bench_output output = {0};
  struct limits *limits;
  uint32_t num_rows;
  const struct limits_entry loopback = {
      .kind = LIMITS_LOOPBACK, .name = "loopback tcp", .gbps = 1e6, .measured = true}; // above that of any NIC
  four.ranks = MANY;
  assert_int_equal(bench_ep_found_open(&found, MANY), 0);
  found.count = 1;
  for (uint32_t r = 0; r < MANY; r++) {
    found.ranks[r].result = (struct bench_ep_result){.count = 1, .wire = {1000, 1000}, .way = "ofi tcp eth0"};
    found.ranks[r].times = calloc(BENCH_EP_MAX_TIMES, sizeof *found.ranks[r].times);
    assert_non_null(found.ranks[r].times);
  }
  assert_int_equal(limits_open(&limits), 0);
  assert_int_equal(limits_table_add(&limits->table, &loopback), 0);
  assert_int_equal(figures_begin(&figures, "ep"), 0);
  assert_int_equal(bench_ep_add_rows(&figures, &config, &sweep, &four, 0, &found, &num_rows), 0);
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    uint32_t as_hosts = (uint32_t)shares[i][0];
    assert_int_equal(bench_ep_bound_row(limits, &output, &figures, &figures.rows[0], &four, &found, as_hosts), 0);
    double share = figure(&figures.rows[0], "wire_bandwidth")->bound / 1e6;
    if (share < 0.999 * shares[i][1] || share > 1.001 * shares[i][1])
      fail_msg("as %u hosts: %g of the bound, not %g", as_hosts, share, shares[i][1]);
  }
  const char *uses = json_string_value(json_object_get(figures.settings, "uses"));
  assert_non_null(uses);
  assert_string_equal(uses, "ofi tcp eth0");
  limits_close(limits);
  bench_ep_found_free(&found);
  figures_free(&figures);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_right_by_hand),
      cmocka_unit_test(nothing_timed_makes_no_row),
      cmocka_unit_test(ranks_survive_the_way_to_another_host),
      cmocka_unit_test(what_another_host_spoilt_is_refused),
      cmocka_unit_test(a_figure_stands_beside_its_bound),
      cmocka_unit_test(a_bound_of_the_network_is_of_what_passes_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
