// Figures: distributions, JSON both ways, files, and what is refused.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/err.h>

#include "cmocka_all.h"
#include "measure/figures.h"
#include "measure/prometheus.h"
#include "support/temporary.h"

static void fill(struct figures *figures) {
  uint64_t samples[2000];
  for (uint64_t i = 0; i < 2000; i++)
    samples[i] = (i * 733 % 2000 + 1) * 1000; // 1 to 2000 us, shuffled
  assert_int_equal(figures_begin(figures, "transfer"), 0);
  assert_int_equal(figures_add_bound(figures, "host copy", 10, false, "a guess"), 0);
  assert_int_equal(figures_add_bound(figures, "host copy", 12.5, true, "memcpy of 256 MiB"), 0);
  json_t *keys = json_pack("{s:s, s:i}", "op", "WRITE", "bytes", 4096);
  struct figures_row *row = figures_add_row(figures, keys, 0);
  json_decref(keys);
  assert_non_null(row);
  assert_non_null(figures_add_times(row, "latency", samples, 2000));
  struct figure *bandwidth = figures_add(row, "bandwidth", "GB/s", FIGURE_HIGHER, 3.25);
  assert_non_null(bandwidth);
  bandwidth->bound = 12.5;
  snprintf(bandwidth->bound_name, sizeof bandwidth->bound_name, "host copy");
  assert_int_equal(samples[0], 1000); // as it was
  assert_int_equal(samples[1], 734000);
}

static void check(const struct figures *figures) {
  assert_string_equal(figures->kind, "transfer");
  assert_int_equal(figures->num_bounds, 1); // the second one replaced the first
  assert_true(figures->bounds[0].value == 12.5 && figures->bounds[0].measured);
  assert_int_equal(figures->num_rows, 1);
  const struct figures_row *row = &figures->rows[0];
  assert_string_equal(json_string_value(json_object_get(row->keys, "op")), "WRITE");
  const struct figure *latency = figures_find(row, "latency"), *bandwidth = figures_find(row, "bandwidth");
  assert_non_null(latency);
  assert_non_null(bandwidth);
  assert_null(figures_find(row, "jitter"));
  assert_int_equal(latency->count, 2000);
  assert_true(latency->value == 1000.5 && latency->min == 1 && latency->max == 2000);
  assert_true(latency->p50 == 1000 && latency->p95 == 1900 && latency->p99 == 1980 && latency->p999 == 1998);
  assert_int_equal(json_array_size(latency->samples), FIGURES_MAX_SAMPLES);
  double second = json_real_value(json_array_get(latency->samples, 1)); // the third or the fourth of 2,000
  assert_true(second == 1467 || second == 200);
  assert_true(latency->bound < 0 && bandwidth->bound == 12.5 && bandwidth->p50 < 0);
  assert_int_equal(bandwidth->better, FIGURE_HIGHER);
}

static void figures_survive_a_file(void **state) {
  (void)state;
  struct figures figures, read;
  char path[256];
  support_temporary(path, sizeof path, "weft-figures");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  fill(&figures);
  check(&figures);
  assert_int_equal(figures_save(&figures, path), 0);
  assert_int_equal(figures_load(&read, path), 0);
  check(&read);
  assert_string_equal(read.started, figures.started);
  figures_free(&figures);
  figures_free(&read);
  assert_int_equal(unlink(path), 0);
}

// Ranks, or slots of a ring, that take turns: each is as often among the samples as among the times.
static void samples_are_of_all_that_take_turns(void **state) {
  (void)state;
  enum { MOST = 16, COUNT = 1000 * MOST };
  static uint64_t times[COUNT];
  for (size_t turns = 2; turns <= MOST; turns++) {
    struct figures figures;
    size_t kept[MOST] = {0}, count = FIGURES_MAX_SAMPLES * turns;
    assert_int_equal(figures_begin(&figures, "ep"), 0);
    for (size_t i = 0; i < count; i++)
      times[i] = 1000 * (1 + i % turns);
    struct figures_row *row = figures_add_row(&figures, figures.settings, 0);
    const struct figure *figure = row ? figures_add_times(row, "rank_latency", times, count) : NULL;
    assert_non_null(figure);
    assert_int_equal(json_array_size(figure->samples), FIGURES_MAX_SAMPLES);
    for (size_t i = 0; i < FIGURES_MAX_SAMPLES; i++)
      kept[(size_t)json_real_value(json_array_get(figure->samples, i)) - 1]++;
    for (size_t i = 0; i < turns; i++)
      assert_in_range(kept[i], FIGURES_MAX_SAMPLES / turns - 10, FIGURES_MAX_SAMPLES / turns + 10);
    figures_free(&figures);
  }
}

static void samples_are_in_the_order_of_time(void **state) {
  (void)state;
  const size_t counts[] = {1000, 1001, 1999, 4096, 100000000};
  for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
    for (size_t i = 0; i < 1000; i++) {
      size_t place = figures_place(i, 1000, counts[k]);
      assert_true(place >= i * counts[k] / 1000 && place < (i + 1) * counts[k] / 1000);
    }
  }
}

static void refused(json_t *json, int err, const char *part) {
  struct figures figures;
  assert_int_equal(figures_from_json(&figures, json), err);
  assert_non_null(strstr(weft_last_error(), part));
  json_decref(json);
}

static void what_is_none_is_refused(void **state) {
  (void)state;
  struct figures figures;
  fill(&figures);
  json_t *json = figures_to_json(&figures);
  figures_free(&figures);
  assert_true(figures_is_json(json));
  json_t *other = json_pack("{s:i}", "weft_results", 1);
  assert_false(figures_is_json(other));
  refused(other, WEFT_ERR_PROTOCOL, "holds no figures");
  refused(json_pack("{s:i}", "weft_figures", 7), WEFT_ERR_VERSION, "format 7");
  json_t *row = json_array_get(json_object_get(json, "rows"), 0);
  json_t *figure = json_array_get(json_object_get(row, "figures"), 1);
  json_object_set_new(figure, "better", json_string("sideways"));
  refused(json, WEFT_ERR_PROTOCOL, "rows[0].figures[1].better");
}

// The rate of a refused row has no value, in the struct and in JSON; its durations stay.
static void rates_of_a_refused_row_are_null(void **state) {
  (void)state;
  struct figures figures, read;
  fill(&figures);
  assert_non_null(figures_add(&figures.rows[0], "messages", "1/s", FIGURE_HIGHER, 0));
  assert_non_null(figures_add(&figures.rows[0], "cpu", "percent", FIGURE_LOWER, 5));
  figures_withdraw_rates(&figures.rows[0]);
  json_t *json = figures_to_json(&figures), *figure;
  json_t *list = json_object_get(json_array_get(json_object_get(json, "rows"), 0), "figures");
  size_t i, nulls = 0;
  json_array_foreach(list, i, figure) {
    bool rate = strstr(json_string_value(json_object_get(figure, "unit")), "/s") != NULL;
    assert_int_equal(json_is_null(json_object_get(figure, "value")), rate);
    nulls += rate;
  }
  assert_int_equal(nulls, 2);
  assert_int_equal(figures_from_json(&read, json), 0);
  assert_true(isnan(figures_find(&read.rows[0], "bandwidth")->value));
  assert_true(figures_find(&read.rows[0], "latency")->value == 1000.5);
  assert_true(figures_find(&read.rows[0], "cpu")->value == 5);
  json_decref(json);
  figures_free(&figures);
  figures_free(&read);
}

static void a_full_disk_is_reported(void **state) {
  (void)state;
  FILE *full = fopen("/dev/full", "w");
  assert_non_null(full);
  setbuf(full, NULL);
  struct text text = {0};
  text_add(&text, "weft_bench_passed 1\n");
  assert_int_equal(prometheus_hand_out(full, &text), WEFT_ERR_LIMIT);
  assert_non_null(strstr(weft_last_error(), "cannot be written: No space left on device"));
  fclose(full);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(figures_survive_a_file),           cmocka_unit_test(samples_are_of_all_that_take_turns),
      cmocka_unit_test(samples_are_in_the_order_of_time), cmocka_unit_test(what_is_none_is_refused),
      cmocka_unit_test(rates_of_a_refused_row_are_null),  cmocka_unit_test(a_full_disk_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
