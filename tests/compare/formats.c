// Files of every format are read correctly, and other files are refused with the place of the fault.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "cmocka_all.h"
#include "compare/input.h"
#include "compare/read/baseline.h"
#include "measure/figures.h"

static void read_format(struct compare_run *run, const char *name) {
  const char *source = getenv("WEFT_SOURCE");
  char path[1024];
  snprintf(path, sizeof path, "%s/tests/compare/formats/%s", source ? source : ".", name);
  if (input_add_file(run, path))
    fail_msg("%s", weft_last_error());
}

// The row of exactly these keys.
static const struct compare_row *row_of(const struct compare_run *run, const char *keys) {
  json_t *wanted = json_loads(keys, 0, NULL);
  const struct compare_row *found = NULL;
  assert_non_null(wanted);
  for (size_t i = 0; i < run->num_rows; i++)
    if (json_equal(run->rows[i].keys, wanted))
      found = &run->rows[i];
  json_decref(wanted);
  if (!found)
    fail_msg("no row %s", keys);
  return found;
}

static const struct compare_repeat *repeat_of(const struct compare_run *run, const char *keys, const char *figure) {
  const struct compare_series *series = compare_row_find(row_of(run, keys), figure);
  if (!series)
    fail_msg("no %s in %s", figure, keys);
  return &series->repeats[0];
}

static void expect(const struct compare_run *run, const char *keys, const char *figure, double value) {
  double found = repeat_of(run, keys, figure)->value;
  if (!(found > value - 1e-9 * value - 1e-12 && found < value + 1e-9 * value + 1e-12))
    fail_msg("%s of %s: %.17g, not %.17g", figure, keys, found, value);
}

static void nixlbench_tables(void **state) {
  (void)state;
  struct compare_run run = {0};
  read_format(&run, "nixlbench10.out");
  assert_int_equal(run.num_rows, 2);
  const char *keys = "{\"op\":\"WRITE\",\"backend\":\"UCX\",\"scheme\":\"pairwise\",\"initiator_memory\":\"host\","
                     "\"target_memory\":\"cuda\",\"threads\":1,\"bytes\":65536,\"batch\":1}";
  expect(&run, keys, "bandwidth", 11.702857);
  expect(&run, keys, "time_per_block", 5.6);
  assert_null(compare_row_find(row_of(&run, keys), "latency")); // of a request, which nixlbench does not print
  expect(&run, keys, "transfer_p99", 9);
  assert_true(compare_row_find(row_of(&run, keys), "bandwidth")->higher);
  assert_false(compare_row_find(row_of(&run, keys), "prep")->higher);
  compare_run_free(&run);
  read_format(&run, "nixlbench6.out");
  expect(&run, "{\"bytes\":4096,\"batch\":64}", "time_per_block", 3.25);
  expect(&run, "{\"bytes\":4096,\"batch\":64}", "bandwidth", 1.26031);
  assert_string_equal(run.format, "nixlbench table");
  compare_run_free(&run);
  read_format(&run, "nixlbench12.out");                         // of four workers
  expect(&run, "{\"bytes\":4096,\"batch\":1}", "bandwidth", 3); // of both initiators
  expect(&run, "{\"bytes\":4096,\"batch\":1}", "own_bandwidth", 1.5);
  expect(&run, "{\"bytes\":4096,\"batch\":1}", "time_per_block", 20);
  expect(&run, "{\"bytes\":4096,\"batch\":1}", "prep_p99", 1.6);
  expect(&run, "{\"bytes\":4096,\"batch\":1}", "transfer_p99", 18);
  compare_run_free(&run);
}

static void nccl_tests_tables(void **state) {
  (void)state;
  struct compare_run run = {0};
  read_format(&run, "nccl.out");
  const char *keys = "{\"op\":\"all_reduce_perf\",\"bytes\":1048576,\"type\":\"float\",\"redop\":\"sum\",\"place\":"
                     "\"in-place\"}";
  expect(&run, keys, "latency", 41.25);
  expect(&run, keys, "bus_bandwidth", 25.42);
  assert_int_equal(repeat_of(&run, keys, "latency")->count, 20);
  assert_int_equal(run.num_rows, 3);
  assert_int_equal(run.left_out, 1); // with three wrong values
  assert_non_null(strstr(run.why_left, "3 wrong values"));
  compare_run_free(&run);
  read_format(&run, "nccl_old.out"); // by mpirun, without a root, with nothing under redop
  expect(&run, "{\"bytes\":1024,\"type\":\"float\",\"place\":\"out-of-place\"}", "latency", 8.5);
  expect(&run, "{\"bytes\":1024,\"type\":\"float\",\"place\":\"in-place\"}", "algorithm_bandwidth", 0.12);
  compare_run_free(&run);
  read_format(&run, "nccl_iterations.out");
  keys = "{\"bytes\":8,\"type\":\"float\",\"redop\":\"sum\",\"place\":\"out-of-place\"}";
  expect(&run, keys, "latency", 10);
  assert_true(repeat_of(&run, keys, "latency")->error == 0.2); // 10 % of 10 us, by 25 iterations
  assert_true(repeat_of(&run, keys, "bus_bandwidth")->error < 0);
  compare_run_free(&run);
  static const char bare[] =
      "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
      "      8      2 float                 10.0  0.25   0.25      0  11.0  0.24   0.24      0\n";
  assert_int_equal(input_add_text(&run, "bare", bare, sizeof bare - 1), 0); // the time is no redop
  expect(&run, "{\"bytes\":8,\"type\":\"float\",\"place\":\"out-of-place\"}", "latency", 10);
  expect(&run, "{\"bytes\":8,\"type\":\"float\",\"place\":\"in-place\"}", "latency", 11);
  compare_run_free(&run);
  static const char narrow[] = "# size time algbw\n8 2 4 3 4 5\nbusbw\n"; // fewer headings than a table has
  assert_int_equal(input_add_text(&run, "narrow", narrow, sizeof narrow - 1), 0);
  expect(&run, "{\"bytes\":8,\"type\":\"4\",\"place\":\"out-of-place\"}", "latency", 2);
  compare_run_free(&run);
}

static void perftest_tables(void **state) {
  (void)state;
  struct compare_run run = {0};
  read_format(&run, "perftest_bw.out");
  const char *keys = "{\"bytes\":65536,\"op\":\"WRITE\",\"bidirectional\":false,\"connection\":\"RC\",\"qps\":4}";
  expect(&run, keys, "bandwidth", 22888.18 * 1048576 / 1e9);
  expect(&run, keys, "messages", 366211);
  compare_run_free(&run);
  read_format(&run, "perftest_gbits.out");
  expect(&run, "{\"bytes\":65536,\"op\":\"READ\",\"bidirectional\":false,\"connection\":\"RC\",\"qps\":1}", "bandwidth",
         24);
  compare_run_free(&run);
  read_format(&run, "perftest_lat.out");
  keys = "{\"bytes\":2,\"op\":\"WRITE\",\"bidirectional\":false,\"connection\":\"RC\",\"qps\":1}";
  expect(&run, keys, "latency", 1.01);
  expect(&run, keys, "latency_p50", 1);
  expect(&run, keys, "latency_p999", 3.1);
  assert_true(repeat_of(&run, keys, "latency")->error == 0.2 / 100); // of 10,000 iterations
  compare_run_free(&run);
  static const char both[] = "                RDMA_Write Bidirectional BW Test\n"
                             " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
                             " 65536      5000             384.50             384.00               0.732421\n";
  assert_int_equal(input_add_text(&run, "both", both, sizeof both - 1), 0);
  keys = "{\"bytes\":65536,\"op\":\"WRITE\",\"bidirectional\":true}";
  expect(&run, keys, "both_bandwidth", 48); // no bandwidth of one direction
  expect(&run, keys, "both_messages", 732421);
  assert_null(compare_row_find(row_of(&run, keys), "bandwidth"));
  compare_run_free(&run);
}

static void ep_tests(void **state) {
  (void)state;
  struct compare_run run = {0};
  read_format(&run, "deepep_low_latency.out");
  expect(&run, "{\"op\":\"both\",\"phase\":0,\"ranks\":2}", "latency", 81);
  expect(&run, "{\"op\":\"both\",\"phase\":1,\"ranks\":3}", "logical_bandwidth", 210);
  expect(&run, "{\"op\":\"dispatch\",\"phase\":0,\"ranks\":2}", "latency", 34);
  expect(&run, "{\"op\":\"combine\",\"phase\":0,\"ranks\":2}", "logical_bandwidth", 345);
  expect(&run, "{\"op\":\"dispatch_recv\",\"phase\":0,\"ranks\":2}", "latency", 7.5);
  expect(&run, "{\"op\":\"combine_send\",\"phase\":0,\"ranks\":2}", "latency", 32.5);
  compare_run_free(&run);
  read_format(&run, "deepep_tuning.out");
  expect(&run, "{\"op\":\"dispatch\",\"dtype\":\"FP8\"}", "rdma_bandwidth", 43.5);
  expect(&run, "{\"op\":\"dispatch\",\"dtype\":\"FP8\"}", "latency", 250);
  expect(&run, "{\"op\":\"dispatch\",\"dtype\":\"BF16\"}", "latency", 345.5);
  expect(&run, "{\"op\":\"combine\"}", "latency", 413.25);
  compare_run_free(&run);
  read_format(&run, "deepep_v2.out");
  expect(&run, "{\"op\":\"dispatch\",\"phase\":0,\"ranks\":2}", "latency", 86);
  expect(&run, "{\"op\":\"dispatch\",\"phase\":0,\"ranks\":2}", "copy", 31);
  expect(&run, "{\"op\":\"combine\",\"phase\":0,\"ranks\":2}", "reduce", 46);
  expect(&run, "{\"op\":\"expanded_dispatch\",\"phase\":0,\"ranks\":1}", "scaleup_bandwidth", 300);
  compare_run_free(&run);
  read_format(&run, "deepep_hybrid.out");
  expect(&run, "{\"op\":\"dispatch_torch_api_bf16\",\"phase\":0,\"ranks\":2}", "latency", 208);
  expect(&run, "{\"op\":\"dispatch_torch_api_bf16\",\"phase\":0,\"ranks\":2}", "rdma_bandwidth", 41);
  expect(&run, "{\"op\":\"combine_torch_api\",\"phase\":0,\"ranks\":2}", "nvlink_bandwidth", 252);
  expect(&run, "{\"op\":\"dispatch_permute_torch_api_fp8\",\"phase\":0,\"ranks\":1}", "latency", 480);
  expect(&run, "{\"op\":\"dispatch_kernel_nvl_bf16\",\"phase\":0,\"ranks\":2}", "logical_bandwidth", 305);
  expect(&run, "{\"op\":\"combine_kernel_nvl\",\"phase\":0,\"ranks\":2}", "latency", 199);
  compare_run_free(&run);
  read_format(&run, "nixl_ep_data_plane.out");
  expect(&run, "{\"op\":\"both\",\"tokens\":128,\"hidden\":7168,\"topk\":8}", "latency", 519.5);
  compare_run_free(&run);
}

static const char p2p_json[] =
    "{\"memory\": \"host\", \"initiator_memory\": \"host\", \"target_memory\": \"host\", \"same_gpu\": false, "
    "\"bidirectional\": false, \"complete\": true, \"results\": [{\"operation\": \"write\", \"bytes\": 4096, "
    "\"iterations\": 100, \"at_once\": 16, \"latency_min_us\": 1, \"latency_p50_us\": 2, \"latency_p99_us\": 3, "
    "\"latency_p999_us\": 4, \"latency_max_us\": 5, \"latency_avg_us\": 2.5, \"per_second\": 1e6, \"checked\": false, "
    "\"transport\": \"shm\", \"gb_per_second\": 4.096}]}";
static const char p2p_csv[] =
    "operation,bytes,iterations,latency_min_us,latency_p50_us,latency_p99_us,latency_p999_us,latency_max_us,"
    "latency_avg_us,at_once,per_second,gb_per_second,peer_gb_per_second,checked,transport,initiator_memory,"
    "target_memory,same_gpu\nwrite,4096,100,1,2,3,4,5,2.5,16,1000000,4.096,,no,shm,host,host,no\n";

static void p2p_reports(void **state) {
  (void)state;
  const char *texts[] = {p2p_json, p2p_csv};
  for (size_t i = 0; i < 2; i++) {
    struct compare_run run = {0};
    if (input_add_text(&run, "p2p", texts[i], strlen(texts[i])))
      fail_msg("%s", weft_last_error());
    const char *keys = "{\"op\":\"WRITE\",\"bytes\":4096,\"depth\":16,\"transport\":\"shm\",\"initiator_memory\":"
                       "\"host\",\"target_memory\":\"host\",\"bidirectional\":false}";
    expect(&run, keys, "latency", 2.5);
    expect(&run, keys, "latency_p999", 4);
    expect(&run, keys, "messages", 1e6);
    expect(&run, keys, "bandwidth", 4.096);
    compare_run_free(&run);
  }
}

// It keeps its latencies, and has no rates.
static void a_refused_row_of_p2p(void **state) {
  (void)state;
  static const char csv[] = "operation,bytes,iterations,latency_avg_us,at_once,gb_per_second,transport,refused\n"
                            "read,64,100,1.5,16,,shm,\"23 GB/s is above the bound of \"\"a, b\"\", 1 GB/s "
                            "(measured)\"\r\nread,8,100,1,16,2,shm,\r\n";
  struct compare_run run = {0};
  if (input_add_text(&run, "p2p", csv, sizeof csv - 1))
    fail_msg("%s", weft_last_error());
  const char *keys = "{\"op\":\"READ\",\"bytes\":64,\"depth\":16,\"transport\":\"shm\"}";
  expect(&run, keys, "latency", 1.5);
  assert_null(compare_row_find(row_of(&run, keys), "bandwidth"));
  expect(&run, "{\"op\":\"READ\",\"bytes\":8,\"depth\":16,\"transport\":\"shm\"}", "bandwidth", 2);
  assert_true(run.without_rates == 1 && run.left_out == 0);
  assert_string_equal(run.why_without, "23 GB/s is above the bound of \"a, b\", 1 GB/s (measured)");
  compare_run_free(&run);
  static const char json[] =
      "{\"initiator_memory\": \"host\", \"target_memory\": \"host\", \"bidirectional\": true, \"complete\": false, "
      "\"results\": [{\"operation\": \"read\", \"bytes\": 64, \"iterations\": 100, \"at_once\": 16, "
      "\"latency_avg_us\": 1.5, \"transport\": \"shm\", \"refused\": \"23 GB/s is too much\"}]}";
  if (input_add_text(&run, "p2p", json, sizeof json - 1))
    fail_msg("%s", weft_last_error());
  assert_true(run.without_rates == 1);
  assert_string_equal(run.why_without, "23 GB/s is too much");
  assert_string_equal(run.remark, "not all was measured: the benchmark was cut short");
  compare_run_free(&run);
}

// The rate of one direction is lower while the other one runs: these rows are not those of one direction alone.
static void both_directions_of_p2p(void **state) {
  (void)state;
  static const char csv[] = "operation,bytes,iterations,latency_avg_us,at_once,gb_per_second,peer_gb_per_second,"
                            "transport,refused\nwrite,8,100,1,16,,,shm,too much\nwrite,64,100,1.5,16,2,3,shm,\n";
  struct compare_run run = {0};
  if (input_add_text(&run, "p2p", csv, sizeof csv - 1))
    fail_msg("%s", weft_last_error());
  const char *keys = "{\"op\":\"WRITE\",\"bytes\":64,\"depth\":16,\"transport\":\"shm\",\"bidirectional\":true}";
  expect(&run, keys, "bandwidth", 2);
  expect(&run, keys, "peer_bandwidth", 3);
  expect(&run, "{\"op\":\"WRITE\",\"bytes\":8,\"depth\":16,\"transport\":\"shm\",\"bidirectional\":true}", "latency",
         1);
  compare_run_free(&run);
}

// Figures with two repeats, and one row that the benchmark refused.
static char *figures_text(void) {
  struct figures figures;
  uint64_t samples[200];
  assert_int_equal(figures_begin(&figures, "transfer"), 0);
  for (uint32_t repeat = 0; repeat < 2; repeat++) {
    json_t *keys = json_pack("{s:s, s:i}", "op", "READ", "bytes", 8);
    struct figures_row *row = figures_add_row(&figures, keys, repeat);
    json_decref(keys);
    for (uint64_t i = 0; i < 200; i++)
      samples[i] = 1000 + (i * 37 % 100) * 10 + repeat;
    assert_non_null(figures_add_times(row, "latency", samples, 200));
    assert_non_null(figures_add(row, "bandwidth", "GB/s", FIGURE_HIGHER, 3));
  }
  json_t *keys = json_pack("{s:s, s:i}", "op", "READ", "bytes", 16);
  struct figures_row *row = figures_add_row(&figures, keys, 0);
  json_decref(keys);
  assert_non_null(figures_add(row, "bandwidth", "GB/s", FIGURE_HIGHER, 1800));
  snprintf(row->refused, sizeof row->refused, "above its bound");
  figures_withdraw_rates(row);
  snprintf(figures.cut_short, sizeof figures.cut_short, "SIGINT");
  json_t *json = figures_to_json(&figures);
  char *text = json_dumps(json, 0);
  json_decref(json);
  figures_free(&figures);
  return text;
}

static void figures_and_their_baseline(void **state) {
  (void)state;
  struct compare_run run = {0}, again = {0};
  char *text = figures_text();
  assert_int_equal(input_add_text(&run, "figures", text, strlen(text)), 0);
  free(text);
  const char *keys = "{\"op\":\"READ\",\"bytes\":8}";
  const struct compare_series *latency = compare_row_find(row_of(&run, keys), "latency");
  assert_int_equal(run.num_repeats, 2);
  assert_int_equal(run.left_out, 1);
  assert_string_equal(run.why_left, "above its bound");
  assert_string_equal(run.remark, "not all was measured: the benchmark was cut short by SIGINT");
  assert_int_equal(latency->num_repeats, 2);
  assert_int_equal(latency->repeats[1].num_samples, 200);
  assert_true(run.started[0] > 0);
  assert_non_null(compare_row_find(row_of(&run, keys), "latency_p99"));
  // As a baseline it has no samples, and says what they were worth, and that the run was not whole.
  json_t *json = compare_baseline_json(&run);
  assert_non_null(json);
  text = json_dumps(json, 0);
  json_decref(json);
  assert_null(strstr(text, "samples"));
  if (input_add_text(&again, "baseline", text, strlen(text)))
    fail_msg("%s", weft_last_error());
  free(text);
  assert_string_equal(again.format, "weft baseline");
  assert_string_equal(again.remark, run.remark);
  const struct compare_repeat *one = repeat_of(&again, keys, "latency");
  assert_int_equal(again.num_repeats, 2);
  assert_int_equal(one->num_samples, 0);
  assert_true(one->count == 200 && one->error > 0.001 && one->error < 0.05);
  assert_true(again.started[1] == run.started[1]);
  compare_run_free(&run);
  compare_run_free(&again);
}

static const char bench_csv[] =
    "run,op,bytes,graph,host,latency_us_mean,latency_us_min,latency_us_p50,latency_us_p95,latency_us_p99,"
    "latency_us_p999,latency_us_max,latency_bound,bandwidth_GB/s,bandwidth_bound,slowdown_percent,slowdown_bound,"
    "busiest_rank_percent,busiest_rank_bound,slowest,refused\r\n"
    "0,READ,4096,no,\"a, or \"\"b\"\"\",2.5,1,2,3,4,5,6,,1.6384,12.5,-3.5,,100,,\"rank 1 on b, in 2 of 3\",\r\n"
    "1,READ,4096,no,\"a, or \"\"b\"\"\",2.25,1,2,3,4,5,6,,1.8204,12.5,1.5,,101,,,\r\n"
    "0,READ,64,,,2.5,1,2,3,4,5,6,,1800,,,,,,,\"1800 GB/s is above the bound, 12.5 GB/s\"\n"
    "0,WRITE,64,yes,,2.5,,,,,,,,,,,,,,,\n\n";

static void csv_of_weft_bench(void **state) {
  (void)state;
  struct compare_run run = {0};
  if (input_add_text(&run, "bench", bench_csv, strlen(bench_csv)))
    fail_msg("%s", weft_last_error());
  const char *keys = "{\"op\":\"READ\",\"bytes\":4096,\"graph\":false,\"host\":\"a, or \\\"b\\\"\"}";
  assert_string_equal(run.format, "weft bench CSV");
  assert_int_equal(run.num_rows, 2); // without the one that was refused
  assert_int_equal(run.num_repeats, 2);
  assert_int_equal(run.left_out, 1);
  assert_string_equal(run.why_left, "1800 GB/s is above the bound, 12.5 GB/s");
  expect(&run, keys, "latency", 2.5);
  expect(&run, keys, "latency_p999", 5);
  expect(&run, keys, "bandwidth", 1.6384);
  expect(&run, keys, "busiest_rank", 100);
  const struct compare_series *series = compare_row_find(row_of(&run, keys), "bandwidth");
  assert_true(series->higher && !series->detail && series->num_repeats == 2 && series->repeats[1].value == 1.8204);
  assert_string_equal(series->unit, "GB/s");
  series = compare_row_find(row_of(&run, keys), "latency_p95");
  assert_true(!series->higher && series->detail && series->repeats[1].percentile == 0.95);
  assert_string_equal(series->unit, "us");
  assert_null(compare_row_find(row_of(&run, keys), "latency_max"));
  assert_null(compare_row_find(row_of(&run, keys), "slowdown"));
  expect(&run, "{\"op\":\"WRITE\",\"bytes\":64,\"graph\":true}", "latency", 2.5);
  compare_run_free(&run);
}

// A difference of others, which may be negative.
static void a_slowdown_is_left_out(void **state) {
  (void)state;
  struct figures figures;
  assert_int_equal(figures_begin(&figures, "traffic"), 0);
  json_t *keys = json_pack("{s:i}", "step", 0);
  struct figures_row *row = figures_add_row(&figures, keys, 0);
  json_decref(keys);
  assert_non_null(figures_add(row, "bandwidth", "GB/s", FIGURE_HIGHER, 3));
  assert_non_null(figures_add(row, "slowdown", "percent", FIGURE_LOWER, -22.5));
  json_t *json = figures_to_json(&figures);
  char *text = json_dumps(json, 0);
  struct compare_run run = {0};
  if (input_add_text(&run, "traffic", text, strlen(text)))
    fail_msg("%s", weft_last_error());
  expect(&run, "{\"step\":0}", "bandwidth", 3);
  assert_null(compare_row_find(row_of(&run, "{\"step\":0}"), "slowdown"));
  free(text);
  json_decref(json);
  figures_free(&figures);
  compare_run_free(&run);
}

static void several_files_are_repeats(void **state) {
  (void)state;
  struct compare_run run = {0};
  read_format(&run, "nixlbench6.out");
  read_format(&run, "nixlbench6.out");
  const struct compare_series *series = compare_row_find(row_of(&run, "{\"bytes\":4096,\"batch\":64}"), "bandwidth");
  assert_int_equal(run.num_repeats, 2);
  assert_int_equal(series->num_repeats, 2);
  assert_int_equal(series->repeats[1].index, 1);
  read_format(&run, "perftest_lat.out");
  assert_string_equal(run.format, "several formats");
  compare_run_free(&run);
}

static void refused(int code, const char *says, const char *text) {
  struct compare_run run = {0};
  int err = input_add_text(&run, "some.txt", text, strlen(text));
  if (err != code || !strstr(weft_last_error(), says) || strncmp(weft_last_error(), "some.txt: ", 10) != 0)
    fail_msg("%.60s: %d, %s", text, err, err ? weft_last_error() : "taken");
  compare_run_free(&run);
}

#define NIXL_HEAD "Block Size (B)      Batch Size     Avg Lat. (us)  B/W (MiB/Sec)  B/W (GiB/Sec)  B/W (GB/Sec)\n"

#define BENCH_HEAD "run,bytes,bandwidth_GB/s,bandwidth_bound,slowest,refused"

static void what_is_wrong_is_refused(void **state) {
  (void)state;
  refused(WEFT_ERR_PROTOCOL, "it is empty", "");
  refused(WEFT_ERR_PROTOCOL, "holds no result: want weft figures", "hello\n");
  refused(WEFT_ERR_PROTOCOL, "JSON of another kind", "{\"a\": 1}");
  refused(WEFT_ERR_PROTOCOL, "it is a comparison", "{\"weft_comparison\": 1}");
  refused(WEFT_ERR_PROTOCOL, "not JSON: line 1", "{\"weft_figures\": 1");
  refused(WEFT_ERR_VERSION, "format 7, but this version reads format 1", "{\"weft_figures\": 7}");
  refused(WEFT_ERR_VERSION, "format 2, but this version reads format 1", "{\"weft_baseline\": 2, \"rows\": []}");
  refused(WEFT_ERR_VERSION, "weft_results: format", "{\"weft_results\": 99}");
  refused(WEFT_ERR_PROTOCOL, "kind: ", "{\"weft_figures\": 1}");
  refused(WEFT_ERR_PROTOCOL, "it has no row: want a run that measured something (read as nixlbench table)", NIXL_HEAD);
  refused(WEFT_ERR_PROTOCOL, "line 2: Avg Lat. (us) is \"nan\": want a number", NIXL_HEAD "4096 1 nan 1 1 1\n");
  refused(WEFT_ERR_PROTOCOL, "is \"-inf\"", NIXL_HEAD "4096 1 3 1 1 -inf\n");
  refused(WEFT_ERR_PROTOCOL, "line 2: has 4 numbers under 6 headings", NIXL_HEAD "4096 1 3 1\n");
  refused(WEFT_ERR_PROTOCOL, "line 2: has 7 numbers under 6 headings", NIXL_HEAD "4096 1 3 1 1 1 1\n");
  refused(WEFT_ERR_PROTOCOL, "line 2: has 4 numbers under 5 headings",
          "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec]\n2 1000 1.0 2.0\n");
  refused(WEFT_ERR_PROTOCOL, "rank 5000", "[rank 5000] Dispatch + combine bandwidth: 1.0 GB/s, avg_t=1.0 us\n");
  refused(WEFT_ERR_PROTOCOL, "latency is -1: want a finite number",
          "{\"weft_baseline\": 1, \"rows\": [{\"keys\": {}, \"figures\": [{\"name\": \"latency\", \"unit\": \"us\", "
          "\"better\": \"lower\", \"repeats\": [{\"value\": -1}]}]}]}");
  refused(WEFT_ERR_PROTOCOL, "line 2: bytes is \"x\"",
          "operation,bytes,iterations,at_once,transport\nread,x,1,1,shm\n");
  refused(WEFT_ERR_PROTOCOL, "weft bench CSV", "run,phase,rank,state\n0,0,1,passed\n");
  refused(WEFT_ERR_PROTOCOL, "it has no row: want a run that measured something (read as weft bench CSV)",
          BENCH_HEAD "\n");
  refused(WEFT_ERR_PROTOCOL, "its benchmark refused every row, the first because too fast: want a run with a row that",
          BENCH_HEAD "\n0,8,,2,,too fast\n");
  refused(WEFT_ERR_PROTOCOL, "line 3: has 3 values, where the first line has 6 names",
          BENCH_HEAD "\n0,8,1,2,,\n0,8,1\n");
  refused(WEFT_ERR_PROTOCOL, "line 2: bandwidth is \"-1\": want a number", BENCH_HEAD "\n0,8,-1,2,,\n");
  refused(WEFT_ERR_PROTOCOL, "line 3: run is 1.5: want a whole number", BENCH_HEAD "\n\n1.5,8,1,2,,\n");
  refused(WEFT_ERR_PROTOCOL, "run is 10000: want a whole number below 10000", BENCH_HEAD "\n10000,8,1,2,,\n");
  refused(WEFT_ERR_PROTOCOL, "line 1: there is no figure", "run,bytes,slowest,refused\n0,8,,\n");
  refused(WEFT_ERR_PROTOCOL, "not a column of a figure: x_bound", "run,x_p_mean,x_bound,a_s,a_bound,slowest,refused\n");
  refused(WEFT_ERR_PROTOCOL, "not a column of a figure: bytes", "run,a_s,a_bound,bytes,slowest,refused\n0,1,,8,,\n");
  refused(WEFT_ERR_PROTOCOL, "has 2 values", "operation,bytes,iterations,at_once,transport\nread,1\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nixlbench_tables),
      cmocka_unit_test(nccl_tests_tables),
      cmocka_unit_test(perftest_tables),
      cmocka_unit_test(ep_tests),
      cmocka_unit_test(p2p_reports),
      cmocka_unit_test(a_refused_row_of_p2p),
      cmocka_unit_test(both_directions_of_p2p),
      cmocka_unit_test(figures_and_their_baseline),
      cmocka_unit_test(csv_of_weft_bench),
      cmocka_unit_test(a_slowdown_is_left_out),
      cmocka_unit_test(several_files_are_repeats),
      cmocka_unit_test(what_is_wrong_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
