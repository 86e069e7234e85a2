// Results: statistics, JSON both ways, files, and what is refused.
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/err.h>

#include "cmocka_all.h"

#include "base/fail.h"
#include "measure/support/sample.h"
#include "support/temporary.h"

static void times_are_by_nearest_rank(void **state) {
  (void)state;
  uint64_t samples[200];
  for (uint64_t i = 0; i < 200; i++)
    samples[i] = (i * 73 % 200 + 1) * 1000; // 1 to 200 us, shuffled
  struct results_times times;
  results_times_from_ns(&times, samples, 200);
  assert_int_equal(times.count, 200);
  assert_true(times.avg == 100.5 && times.min == 1 && times.p50 == 100 && times.p99 == 198 && times.max == 200);
}

static void times_of_few_samples(void **state) {
  (void)state;
  struct results_times times = {.count = 9, .max = 9};
  results_times_from_ns(&times, NULL, 0);
  assert_true(times.count == 0 && times.avg == 0 && times.max == 0);
  uint64_t one[] = {1500};
  results_times_from_ns(&times, one, 1);
  assert_true(times.avg == 1.5 && times.min == 1.5 && times.p50 == 1.5 && times.p99 == 1.5 && times.max == 1.5);
  uint64_t three[] = {3000, 1000, 2000};
  results_times_from_ns(&times, three, 3);
  assert_true(times.p50 == 2 && times.p99 == 3);
  uint64_t two[] = {3000, 1000};
  results_times_from_ns(&times, two, 2);
  assert_true(times.p50 == 1); // half of them do not exceed it
}

static void large_samples_do_not_overflow_the_mean(void **state) {
  (void)state;
  uint64_t samples[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
  struct results_times times;
  results_times_from_ns(&times, samples, 3);
  assert_true(fabs(times.avg / times.max - 1) < 1e-12);
}

static void bandwidth_is_in_gb_per_second(void **state) {
  (void)state;
  assert_true(results_gbps(1e9, 1e6) == 1);
  assert_true(results_gbps(1e9, 0) == 0);
}

static void default_metric_is_the_mean_of_the_last_phase_that_passed(void **state) {
  (void)state;
  struct results results;
  sample_failed(&results); // phase 1 failed, phase 2 was not reached
  const struct results_phase *phase = &results.phases[0];
  double sum = 0;
  for (uint32_t i = 0; i < 4; i++) {
    const struct results_rank *rank = &phase->ranks[i];
    sum += (rank->dispatch_logical_bytes + rank->combine_logical_bytes) / rank->both.avg / 1e3;
  }
  assert_true(fabs(results_default_metric(&results) - sum / 4) < 1e-9);
  assert_ptr_equal(results_last_passed(&results), phase);
  results.phases[0].ranks[3].state = RESULTS_UNREACHED;
  assert_true(results_default_metric(&results) == 0);
  assert_null(results_last_passed(&results));
  results_free(&results);
}

static void a_phase_of_planned_losses_only_has_not_passed(void **state) {
  (void)state;
  struct results_rank ranks[] = {{.state = RESULTS_KILLED}, {.state = RESULTS_NOT_MEMBER}};
  struct results_phase phase = {.num_ranks = 2, .ranks = ranks};
  assert_false(results_phase_passed(&phase));
  ranks[1].state = RESULTS_PASSED;
  assert_true(results_phase_passed(&phase));
}

static void json_round_trip_loses_nothing(void **state) {
  (void)state;
  void (*samples[])(struct results *) = {sample_passed, sample_failed, sample_wide};
  for (size_t i = 0; i < 3; i++) {
    struct results results, again;
    samples[i](&results);
    results_round(&results);
    json_t *json = results_to_json(&results);
    assert_non_null(json);
    assert_int_equal(results_from_json(&again, json), 0);
    json_t *second = results_to_json(&again);
    assert_true(json_equal(json, second));
    assert_int_equal(again.phases[1].ranks[1].incarnation, results.phases[1].ranks[1].incarnation);
    assert_true(again.transitions[0].detect_us == results.transitions[0].detect_us);
    assert_int_equal(again.transitions[0].stalled_rank, results.transitions[0].stalled_rank);
    const struct results_rank *one = &results.phases[0].ranks[1], *other = &again.phases[0].ranks[1];
    assert_int_equal(other->num_dispatch_rows, results.phases[0].num_ranks);
    assert_memory_equal(other->dispatch_rows, one->dispatch_rows, one->num_dispatch_rows * sizeof(uint64_t));
    assert_true(again.phases[0].begin_s == 0.5 && again.phases[0].end_s == 1.25);
    assert_true(again.phases[again.num_phases - 1].end_s < 0);
    assert_true(again.transitions[0].time_s == results.transitions[0].time_s);
    assert_memory_equal(&again.phases[0].ranks[0].both, &results.phases[0].ranks[0].both, sizeof(struct results_times));
    json_decref(second);
    json_decref(json);
    results_free(&again);
    results_free(&results);
  }
}

// What newer versions have added.
static void fields_that_older_versions_lack_may_be_missing(void **state) {
  (void)state;
  static const char *const added[] = {"gpu", "gpu_name", "window_bytes", "dispatch_rows"};
  struct results results, again;
  sample_passed(&results);
  json_t *json = results_to_json(&results);
  json_t *rank = json_array_get(json_object_get(json_array_get(json_object_get(json, "phases"), 1), "ranks"), 2);
  for (size_t i = 0; i < sizeof added / sizeof *added; i++)
    assert_int_equal(json_object_del(rank, added[i]), 0);
  json_t *phase = json_array_get(json_object_get(json, "phases"), 0);
  assert_int_equal(json_object_del(phase, "begin_s") | json_object_del(phase, "end_s"), 0);
  json_t *change = json_array_get(json_object_get(json, "transitions"), 0);
  assert_int_equal(json_object_del(change, "membership_stall_us"), 0);
  assert_int_equal(json_object_del(change, "time_s"), 0);
  assert_int_equal(json_object_del(json, "processors"), 0);
  assert_int_equal(results_from_json(&again, json), 0);
  assert_true(again.transitions[0].membership_stall_us < 0);
  assert_true(again.transitions[0].time_s < 0);
  assert_true(again.phases[0].begin_s < 0 && again.phases[0].end_s < 0);
  assert_int_equal(again.phases[1].ranks[2].num_dispatch_rows, 0);
  assert_int_equal(again.num_processors, 0);
  assert_int_equal(again.phases[1].ranks[2].gpu, -1);
  assert_string_equal(again.phases[1].ranks[2].gpu_name, "");
  assert_int_equal(again.phases[1].ranks[2].window_bytes, 0);
  assert_int_equal(again.phases[1].ranks[3].gpu, 3);
  json_decref(json);
  results_free(&again);
  results_free(&results);
}

static void unknown_fields_are_passed_over(void **state) {
  (void)state;
  struct results results, again;
  sample_passed(&results);
  json_t *json = results_to_json(&results);
  json_object_set_new(json, "future", json_true());
  json_object_set_new(json_array_get(json_object_get(json, "phases"), 0), "weather", json_string("fine"));
  assert_int_equal(results_from_json(&again, json), 0);
  json_decref(json);
  results_free(&again);
  results_free(&results);
}

static void wrong_data_does_not_keep_results_from_being_written(void **state) {
  (void)state;
  struct results results, again;
  sample_failed(&results);
  results.phases[1].ranks[2].worst_diff = NAN;
  results.transitions[0].connect_us = INFINITY;
  memset(results.error, 'x', RESULTS_TEXT - 2);
  results.error[RESULTS_TEXT - 2] = '\xC3'; // the first half of a character
  json_t *json = results_to_json(&results);
  assert_non_null(json);
  assert_int_equal(results_from_json(&again, json), 0);
  assert_true(isnan(again.phases[1].ranks[2].worst_diff));
  assert_true(again.transitions[0].connect_us < 0);
  assert_int_equal(strlen(again.error), RESULTS_TEXT - 1);
  assert_int_equal(again.error[RESULTS_TEXT - 2], '?');
  json_decref(json);
  results_free(&again);
  results_free(&results);
}

static void a_count_too_large_for_json_is_named(void **state) {
  (void)state;
  struct results results;
  sample_passed(&results);
  fail(WEFT_ERR_TIMEOUT, "what failed before");
  json_t *json = results_to_json(&results); // which does not hide that
  assert_non_null(json);
  json_decref(json);
  assert_string_equal(weft_last_error(), "what failed before");
  results.transitions[3].op = UINT64_MAX;
  assert_null(results_to_json(&results));
  assert_string_equal(weft_last_error(), "transitions[3].op: too large for JSON");
  results_free(&results);
}

// A value, as JSON text, that does not belong at a place; NULL takes the field away.
struct malformed {
  const char *path[5]; // names, or "#n" for an index
  const char *value;
  const char *words[2]; // of the error
};

static const struct malformed malformed[] = {
    {{"weft_results"}, NULL, {"weft_results"}},
    {{"weft_results"}, "\"1\"", {"weft_results"}},
    {{"run"}, NULL, {"run: is missing"}},
    {{"run"}, "17", {"run: is to be a string"}},
    {{"run"}, "\"0123456789012345678901234567890123456789\"", {"run: is too long"}},
    {{"job"}, "\"a\\u0000b\"", {"job: ", "NUL"}},
    {{"elapsed_s"}, "\"4\"", {"elapsed_s: is to be a number"}},
    {{"config"}, "[]", {"config: is to be an object, or null"}},
    {{"plan"}, "{}", {"plan: is to be a list, or null"}},
    {{"passed"}, "1", {"passed: is to be true or false"}},
    {{"exit_status"}, "4294967296", {"exit_status: is to be an integer"}},
    {{"exit_status"}, "0.0", {"exit_status: is to be an integer"}},
    {{"phases"}, "{}", {"phases: is to be a list"}},
    {{"phases", "#1"}, "7", {"phases[1]: is to be an object"}},
    {{"phases", "#1", "index"}, "-1", {"phases[1].index: is to be an integer from 0"}},
    {{"phases", "#1", "ranks"}, NULL, {"phases[1].ranks: is missing"}},
    {{"phases", "#1", "ranks"}, "[]", {"phases[1].ranks: are 0, and those of phases[0] 8"}},
    {{"phases", "#1", "ranks", "#3", "state"},
     "\"dancing\"",
     {"phases[1].ranks[3].state: is to be one of", "\"left\""}},
    {{"phases", "#1", "ranks", "#3", "state"}, "1", {"phases[1].ranks[3].state: is to be one of"}},
    {{"phases", "#0", "ranks", "#0", "rank"}, "true", {"phases[0].ranks[0].rank: is to be an integer"}},
    {{"phases", "#0", "ranks", "#0", "incarnation"}, "12", {"incarnation: is to be a string of 16 hex"}},
    {{"phases", "#0", "ranks", "#0", "incarnation"}, "\"00000000000000zz\"", {"incarnation: is to be a string of 16"}},
    {{"phases", "#0", "ranks", "#0", "checked"}, "1e3", {"phases[0].ranks[0].checked: is to be an integer"}},
    {{"phases", "#0", "ranks", "#0", "combine"}, "[]", {"phases[0].ranks[0].combine: is to be an object"}},
    {{"phases", "#0", "ranks", "#0", "worst_diff"}, "[]", {"worst_diff: is to be a number"}},
    {{"phases", "#0", "begin_s"}, "-1", {"phases[0].begin_s: is to be a number from 0 on, or null"}},
    {{"phases", "#0", "ranks", "#2", "dispatch_rows"}, "{}", {"phases[0].ranks[2].dispatch_rows: is to be a list"}},
    {{"phases", "#0", "ranks", "#2", "dispatch_rows"},
     "[1, -1]",
     {"phases[0].ranks[2].dispatch_rows[1]: is to be an integer from 0"}},
    {{"phases", "#0", "ranks", "#2", "dispatch_rows"},
     "[1, 2]",
     {"phases[0].ranks[2].dispatch_rows: has 2 numbers, where the phase has 8 ranks"}},
    {{"transitions"}, "null", {"transitions: is to be a list"}},
    {{"transitions", "#2", "change"},
     "\"JOIN\"",
     {"transitions[2].change: is to be one of \"join\" \"leave\" \"kill\""}},
    {{"transitions", "#2", "launch_us"}, "-5", {"transitions[2].launch_us: is to be a number from 0 on, or null"}},
    {{"transitions", "#2", "stalled_rank"}, "-5", {"transitions[2].stalled_rank: is to be an integer from 0"}},
    {{"transitions", "#2", "epoch"}, NULL, {"transitions[2].epoch: is missing"}},
};

// Sets the place that `path` leads to.
static void spoil(json_t *json, const struct malformed *test) {
  size_t depth = 0;
  while (depth + 1 < 5 && test->path[depth + 1])
    depth++;
  for (size_t i = 0; i < depth; i++)
    json = test->path[i][0] == '#' ? json_array_get(json, strtoul(test->path[i] + 1, NULL, 10))
                                   : json_object_get(json, test->path[i]);
  const char *last = test->path[depth];
  json_t *value = test->value ? json_loads(test->value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
  if (!test->value)
    assert_int_equal(json_object_del(json, last), 0);
  else if (last[0] == '#')
    assert_int_equal(json_array_set_new(json, strtoul(last + 1, NULL, 10), value), 0);
  else
    assert_int_equal(json_object_set_new(json, last, value), 0);
}

static void each_malformed_field_is_named(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
    struct results results, again = {0};
    sample_passed(&results);
    json_t *json = results_to_json(&results);
    spoil(json, &malformed[i]);
    assert_int_equal(results_from_json(&again, json), WEFT_ERR_PROTOCOL);
    for (size_t k = 0; k < 2 && malformed[i].words[k]; k++)
      if (!strstr(weft_last_error(), malformed[i].words[k]))
        fail_msg("\"%s\" is not in \"%s\"", malformed[i].words[k], weft_last_error());
    assert_null(again.phases);
    json_decref(json);
    results_free(&results);
  }
}

static void another_format_is_refused(void **state) {
  (void)state;
  struct results results = {0};
  json_t *json = json_pack("{s:i}", "weft_results", 2);
  assert_int_equal(results_from_json(&results, json), WEFT_ERR_VERSION);
  assert_non_null(strstr(weft_last_error(), "format 2"));
  json_decref(json);
  json = json_array();
  assert_int_equal(results_from_json(&results, json), WEFT_ERR_PROTOCOL);
  json_decref(json);
}

struct directory {
  char path[96];
  char file[128];
};

static int make_directory(void **state) {
  struct directory *directory = calloc(1, sizeof *directory);
  if (!directory)
    return -1;
  support_temporary(directory->path, sizeof directory->path, "weft-results");
  if (!mkdtemp(directory->path))
    return -1;
  snprintf(directory->file, sizeof directory->file, "%s/results.json", directory->path);
  *state = directory;
  return 0;
}

static int remove_directory(void **state) {
  struct directory *directory = *state;
  unlink(directory->file);
  int failed = rmdir(directory->path); // nothing else may be left in it
  free(directory);
  return failed;
}

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void a_saved_file_gives_the_same_reports(void **state) {
  struct directory *directory = *state;
  struct results results, again;
  sample_passed(&results);
  results_round(&results);
  assert_int_equal(results_save(&results, AT_FDCWD, directory->file), 0);
  assert_int_equal(results_save(&results, AT_FDCWD, directory->file), 0); // over what is there
  assert_int_equal(results_load(&again, directory->file), 0);
  for (int format = REPORT_TEXT; format <= REPORT_CSV; format++) {
    struct report_options options = {.format = (enum report_format)format};
    char *texts[2];
    for (int i = 0; i < 2; i++) {
      size_t size;
      FILE *file = open_memstream(&texts[i], &size);
      assert_int_equal(report_write(file, i == 0 ? &results : &again, &options), 0);
      fclose(file);
    }
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
  }
  results_free(&again);
  results_free(&results);
}

static void a_save_that_fails_leaves_the_old_file_and_nothing_else(void **state) {
  struct directory *directory = *state;
  write_text(directory->file, "old");
  struct results results;
  sample_passed(&results);
  results.transitions[0].epoch = UINT64_MAX;
  assert_int_equal(results_save(&results, AT_FDCWD, directory->file), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "results.json: transitions[0].epoch"));
  results.transitions[0].epoch = 1;
  assert_int_equal(results_save(&results, AT_FDCWD, "/nowhere/results.json"), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), "/nowhere/results.json"));
  assert_int_equal(results_save(&results, AT_FDCWD, directory->path), WEFT_ERR_SYSTEM); // a directory stands there
  assert_non_null(strstr(weft_last_error(), directory->path));
  struct stat info;
  assert_int_equal(stat(directory->file, &info), 0);
  assert_int_equal(info.st_size, 3);
  results_free(&results);
}

static void it_is_this_users_alone_and_follows_no_link(void **state) {
  struct directory *directory = *state;
  struct results results;
  struct stat info;
  char other[sizeof directory->file + 8];
  snprintf(other, sizeof other, "%s.other", directory->file);
  write_text(other, "mine");
  assert_int_equal(symlink(other, directory->file), 0);
  sample_passed(&results);
  mode_t mask = umask(0);
  assert_int_equal(results_save(&results, AT_FDCWD, directory->file), 0);
  umask(mask);
  assert_int_equal(lstat(directory->file, &info), 0);
  assert_true(S_ISREG(info.st_mode));
  assert_int_equal(info.st_mode & 07777, 0600);
  assert_int_equal(stat(other, &info), 0);
  assert_int_equal(info.st_size, 4);
  unlink(other);
  results_free(&results);
}

static void a_fifo_is_not_waited_for(void **state) {
  struct directory *directory = *state;
  struct results results;
  assert_int_equal(mkfifo(directory->file, 0600), 0);
  assert_int_equal(results_load(&results, directory->file), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), "not a regular file"));
}

static void a_file_that_cannot_be_read_is_named(void **state) {
  struct directory *directory = *state;
  struct results results;
  assert_int_equal(results_load(&results, directory->file), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), directory->file));
  assert_int_equal(results_load(&results, directory->path), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), "directory"));
  write_text(directory->file, "{\"weft_results\": 1,\n \"run\" }");
  assert_int_equal(results_load(&results, directory->file), WEFT_ERR_PROTOCOL);
  assert_non_null(strstr(weft_last_error(), "line 2"));
  assert_non_null(strstr(weft_last_error(), directory->file));
  write_text(directory->file, "{\"weft_results\": 1}");
  assert_int_equal(results_load(&results, directory->file), WEFT_ERR_PROTOCOL);
  assert_non_null(strstr(weft_last_error(), "results.json: run: is missing"));
}

#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(times_are_by_nearest_rank),
      cmocka_unit_test(times_of_few_samples),
      cmocka_unit_test(large_samples_do_not_overflow_the_mean),
      cmocka_unit_test(bandwidth_is_in_gb_per_second),
      cmocka_unit_test(default_metric_is_the_mean_of_the_last_phase_that_passed),
      cmocka_unit_test(a_phase_of_planned_losses_only_has_not_passed),
      cmocka_unit_test(json_round_trip_loses_nothing),
      cmocka_unit_test(fields_that_older_versions_lack_may_be_missing),
      cmocka_unit_test(unknown_fields_are_passed_over),
      cmocka_unit_test(wrong_data_does_not_keep_results_from_being_written),
      cmocka_unit_test(a_count_too_large_for_json_is_named),
      cmocka_unit_test(each_malformed_field_is_named),
      cmocka_unit_test(another_format_is_refused),
      WITH_DIRECTORY(a_saved_file_gives_the_same_reports),
      WITH_DIRECTORY(a_save_that_fails_leaves_the_old_file_and_nothing_else),
      WITH_DIRECTORY(it_is_this_users_alone_and_follows_no_link),
      WITH_DIRECTORY(a_fifo_is_not_waited_for),
      WITH_DIRECTORY(a_file_that_cannot_be_read_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
