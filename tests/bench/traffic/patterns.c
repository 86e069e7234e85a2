// Traffic patterns: which are read, and which are refused, with the place of the fault.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/err.h>

#include "bench/traffic/pattern.h"
#include "cmocka_all.h"

#define K UINT64_C(1024)

static void sizes_are_powers_of_1024(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
  } right[] = {{"0", 0},           {"1", 1},
               {"4096", 4096},     {"64K", 64 * K},
               {"64k", 64 * K},    {"64KB", 64 * K},
               {"64KiB", 64 * K},  {"1M", K * K},
               {"1.5M", 1536 * K}, {"2G", 2 * K * K * K},
               {"0.5K", 512},      {"1T", K * K * K * K},
               {"10b", 10},        {"0.3", 0},
               {"0.25K", 256},     {"0.015625M", 16 * K}}; // 1/64 of it, exactly
  static const char *const wrong[] = {
      "", "-1", "K", "1.", ".5", "1X", "1KK", "1Ki", "1.5.2", "2T", "1e3", "0x10", "99999999999999999999", "1 K", "+1"};
  uint64_t bytes = 0;
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    assert_true(traffic_size_parse(right[i].text, strlen(right[i].text), &bytes));
    assert_int_equal(bytes, right[i].bytes);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    if (traffic_size_parse(wrong[i], strlen(wrong[i]), &bytes))
      fail_msg("\"%s\" was taken for %llu", wrong[i], (unsigned long long)bytes);
}

static void assert_pair(const struct traffic_pair *pair, uint32_t from, uint32_t to, uint64_t bytes) {
  assert_int_equal(pair->from, from);
  assert_int_equal(pair->to, to);
  assert_int_equal(pair->bytes, bytes);
  assert_int_equal(pair->kinds[0].bytes * pair->kinds[0].count + pair->kinds[1].bytes * pair->kinds[1].count, bytes);
}

static void a_matrix_has_senders_in_rows(void **state) {
  (void)state;
  static const char text[] = "# a ring, and one more\n\n0 64K  0\r\n\t0 0 1M\n1G 7 0";
  struct traffic_pattern pattern = {.shards = 1};
  assert_int_equal(traffic_matrix_parse(&pattern, text, strlen(text), "m", 0), 0);
  assert_int_equal(pattern.ranks, 3);
  assert_int_equal(pattern.num_pairs, 4);
  assert_pair(&pattern.pairs[0], 0, 1, 64 * K);
  assert_pair(&pattern.pairs[1], 1, 2, K * K);
  assert_pair(&pattern.pairs[2], 2, 0, K * K * K);
  assert_pair(&pattern.pairs[3], 2, 1, 7);
  assert_int_equal(traffic_pattern_senders(&pattern), 3);
  assert_int_equal(traffic_pattern_receivers(&pattern), 3);
  assert_int_equal(traffic_pattern_bytes(&pattern), 64 * K + K * K + K * K * K + 7);
  free(pattern.pairs);
}

static void shards_are_as_even_as_they_can_be(void **state) {
  (void)state;
  struct traffic_pair pair = {0};
  traffic_pair_split(&pair, 10, 3);
  assert_int_equal(pair.kinds[0].bytes, 4);
  assert_int_equal(pair.kinds[0].count, 1);
  assert_int_equal(pair.kinds[1].bytes, 3);
  assert_int_equal(pair.kinds[1].count, 2);
  traffic_pair_split(&pair, 12, 3);
  assert_int_equal(pair.kinds[0].count, 3);
  assert_int_equal(pair.kinds[1].count, 0);
  traffic_pair_split(&pair, 2, 16); // no empty pieces
  assert_int_equal(traffic_pair_pieces(&pair), 2);
}

static void assert_refused(int rc, int expected, const char *says) {
  if (rc != expected || !strstr(weft_last_error(), says))
    fail_msg("%d \"%s\" instead of \"%s\"", rc, weft_last_error(), says);
}

static void a_wrong_matrix_is_refused_with_its_place(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
    uint32_t workers;
  } wrong[] = {
      {"0 1K\n1K -5\n", "m:2:4: \"-5\" is negative: want 0 to 1T bytes", 0},
      {"0 1K\n  1Q 0\n", "m:2:3: \"1Q\" is not a size", 0},
      {"0 1\n1\n", "m:2:2: the row ends after 1 columns, but the first row has 2", 0},
      {"0 1\n1 0 1\n", "m:2:5: column 3 of a matrix with 2", 0},
      {"0 1\n1 0\n1 1\n", "m:3:1: row 3 of a matrix with 2 columns", 0},
      {"0 1 1\n0 0 1\n", "m:2:1: the matrix has 2 rows, but 3 columns", 0},
      {"# nothing\n\n", "m:2:1: the matrix has 0 rows", 0},
      {"", "m:1:1: the matrix has 0 rows", 0},
      {"0 0\n0 0\n", "m:2:1: all 2 x 2 sizes are 0", 0},
      {"0 1 1\n1 0 1\n1 1 0\n", "m:1:5: a column is for worker 2, but there are only 2 workers", 2},
      {"0 2T\n0 0\n", "m:1:3: \"2T\" is not a size", 0},
      {"0 \x01"
       "1\n0 0\n",
       "m:1:3: \"?1\" is not a size", 0},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct traffic_pattern pattern = {.shards = 1};
    assert_refused(traffic_matrix_parse(&pattern, wrong[i].text, strlen(wrong[i].text), "m", wrong[i].workers),
                   WEFT_ERR_INVALID, wrong[i].says);
    free(pattern.pairs);
  }
}

#ifdef WITH_YAML
// A folder with two matrices.
static int make_folder(void **state) {
  const char *tmp = getenv("TMPDIR");
  char *folder = NULL, path[512];
  if (asprintf(&folder, "%s/weft-patterns-XXXXXX", tmp ? tmp : "/tmp") < 0 || !mkdtemp(folder))
    return -1;
  static const char *const texts[] = {"0 1K\n0 0\n", "0 0\n3M 0\n"};
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%d.txt", folder, i);
    FILE *file = fopen(path, "we");
    if (!file || fputs(texts[i], file) < 0 || fclose(file) != 0)
      return -1;
  }
  *state = folder;
  return 0;
}

static int remove_folder(void **state) {
  char path[512];
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%d.txt", (char *)*state, i);
    unlink(path);
  }
  int rc = rmdir(*state);
  free(*state);
  return rc;
}

static void a_list_of_patterns(void **state) {
  static const char text[] = "traffic_patterns:\n"
                             "- matrix_file: 0.txt\n"
                             "  shards: 4\n"
                             "  mem_type: VRAM\n"
                             "  xfer_op: READ\n"
                             "  sleep_before_launch_sec: 0.25\n"
                             "  sleep_after_launch_sec: 1\n"
                             "  metadata: {isl: 1000, 'n': '1', more: [true, null, 1.5]}\n"
                             "- {name: back, matrix_file: 1.txt, mem_type: cpu, sleep_before_launch_sec: null}\n";
  struct traffic_plan plan;
  char source[512];
  snprintf(source, sizeof source, "%s/p.yaml", (char *)*state);
  if (traffic_yaml_parse(&plan, text, strlen(text), source, 0) != 0)
    fail_msg("%s", weft_last_error());
  assert_int_equal(plan.num_patterns, 2);
  assert_int_equal(plan.ranks, 2);
  const struct traffic_pattern *first = &plan.patterns[0], *second = &plan.patterns[1];
  assert_string_equal(first->name, "0.txt");
  assert_int_equal(first->op, WEFT_TRANSFER_READ);
  assert_true(first->memory_given);
  assert_int_equal(first->memory, TRAFFIC_CUDA);
  assert_true(first->before_s == 0.25 && first->after_s == 1);
  assert_int_equal(traffic_pair_pieces(&first->pairs[0]), 4);
  assert_int_equal(json_integer_value(json_object_get(first->metadata, "isl")), 1000);
  assert_string_equal(json_string_value(json_object_get(first->metadata, "n")), "1");
  assert_int_equal(json_array_size(json_object_get(first->metadata, "more")), 3);
  assert_string_equal(second->name, "back");
  assert_int_equal(second->op, WEFT_TRANSFER_WRITE);
  assert_int_equal(second->memory, TRAFFIC_HOST);
  assert_pair(&second->pairs[0], 1, 0, 3 * K * K);
  traffic_plan_free(&plan);
}

static void a_wrong_list_is_refused_with_its_place(void **state) {
  static const struct {
    const char *text, *says;
    int rc;
  } wrong[] = {
      {"", "1:1: the document is empty", WEFT_ERR_INVALID},
      {"traffic_patterns: [\n", ":2:1: not YAML", WEFT_ERR_INVALID},
      {"- 1\n", "1:1: a list: want a mapping with traffic_patterns", WEFT_ERR_INVALID},
      {"0 64K\n64K 0\n", "1:1: a scalar: want a mapping with traffic_patterns; --matrix gives", WEFT_ERR_INVALID},
      {"a: 1\n", "1:1: a: want traffic_patterns once", WEFT_ERR_INVALID},
      {"traffic_patterns: 3\n", "1:19: traffic_patterns is a list of patterns, not a scalar", WEFT_ERR_INVALID},
      {"traffic_patterns: []\n", "1:19: traffic_patterns is empty", WEFT_ERR_INVALID},
      {"traffic_patterns:\n- 3\n", "2:3: a pattern is a mapping", WEFT_ERR_INVALID},
      {"traffic_patterns:\n- shards: 1\n", "2:3: a pattern without matrix_file", WEFT_ERR_INVALID},
      {"traffic_patterns:\n- matrix: 0.txt\n", "2:3: a pattern has no member matrix: want matrix_file",
       WEFT_ERR_INVALID},
      {"traffic_patterns:\n- {shards: 0}\n", "2:12: shards: 0: want", WEFT_ERR_INVALID},
      {"traffic_patterns:\n- {shards: 1, shards: 1}\n", "shards is given twice", WEFT_ERR_INVALID},
      {"traffic_patterns:\n- {xfer_op: COPY}\n", "2:13: xfer_op: COPY: want WRITE or READ", WEFT_ERR_INVALID},
      {"traffic_patterns:\n- {mem_type: disk}\n", "2:14: mem_type: disk: want", WEFT_ERR_INVALID},
      {"traffic_patterns:\n- {sleep_before_launch_sec: -1}\n", "2:29: a gap of -1: want 0 to 3600", WEFT_ERR_INVALID},
      {"traffic_patterns:\n- {sleep_after_launch_sec: nan}\n", "a gap of nan", WEFT_ERR_INVALID},
      {"traffic_patterns:\n- {metadata: &a [*a]}\n", "contains itself", WEFT_ERR_INVALID},
      {"traffic_patterns:\n- {matrix_file: none.txt}\n", "p.yaml:2:17", WEFT_ERR_SYSTEM},
  };
  char source[512];
  snprintf(source, sizeof source, "%s/p.yaml", (char *)*state);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct traffic_plan plan;
    assert_refused(traffic_yaml_parse(&plan, wrong[i].text, strlen(wrong[i].text), source, 0), wrong[i].rc,
                   wrong[i].says);
    assert_int_equal(plan.num_patterns, 0);
  }
}

static void a_list_for_more_workers_than_there_are(void **state) {
  static const char text[] = "traffic_patterns: [{matrix_file: 0.txt}]\n";
  struct traffic_plan plan;
  char source[512];
  snprintf(source, sizeof source, "%s/p.yaml", (char *)*state);
  assert_refused(traffic_yaml_parse(&plan, text, strlen(text), source, 1), WEFT_ERR_INVALID,
                 "0.txt:1:3: a column is for worker 1, but there is only 1 worker, counted from 0");
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_powers_of_1024),
      cmocka_unit_test(a_matrix_has_senders_in_rows),
      cmocka_unit_test(shards_are_as_even_as_they_can_be),
      cmocka_unit_test(a_wrong_matrix_is_refused_with_its_place),
#ifdef WITH_YAML
      cmocka_unit_test_setup_teardown(a_list_of_patterns, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(a_wrong_list_is_refused_with_its_place, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(a_list_for_more_workers_than_there_are, make_folder, remove_folder),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
