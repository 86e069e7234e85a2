// The reports against golden files. With WEFT_WRITE_GOLDEN set, writes these files instead: look at what changed.
#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "cmocka_all.h"
#include "measure/support/sample.h"

typedef void (*sample_fn)(struct results *results);

static char *report(sample_fn sample, struct report_options options, size_t *size) {
  struct results results;
  sample(&results);
  char *out = NULL;
  FILE *file = open_memstream(&out, size);
  assert_non_null(file);
  assert_int_equal(report_write(file, &results, &options), 0);
  fclose(file);
  results_free(&results);
  return out;
}

static char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "r");
  if (!file)
    fail_msg("no golden file %s", path);
  char *text = calloc(1, 1 << 16);
  assert_non_null(text);
  *size = fread(text, 1, (1 << 16) - 1, file);
  fclose(file);
  return text;
}

static void compare(const char *name, sample_fn sample, struct report_options options) {
  char path[4096];
  snprintf(path, sizeof path, "%s/tests/measure/golden/%s", getenv("WEFT_SOURCE"), name);
  size_t size = 0, golden_size = 0;
  char *text = report(sample, options, &size);
  if (getenv("WEFT_WRITE_GOLDEN")) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
  }
  char *golden = read_file(path, &golden_size);
  assert_string_equal(text, golden);
  assert_int_equal(size, golden_size);
  free(golden);
  free(text);
}

static void text_in_unicode_and_colour(void **state) {
  (void)state;
  struct report_options options = {.format = REPORT_TEXT, .color = true, .unicode = true};
  compare("passed.color.txt", sample_passed, options);
  compare("failed.color.txt", sample_failed, options);
}

static void text_in_plain_ascii(void **state) {
  (void)state;
  struct report_options options = {.format = REPORT_TEXT};
  compare("passed.txt", sample_passed, options);
  compare("failed.txt", sample_failed, options);
}

static void plain_text_is_ascii_without_escapes(void **state) {
  (void)state;
  size_t size = 0;
  char *text = report(sample_failed, (struct report_options){.format = REPORT_TEXT}, &size);
  for (size_t i = 0; i < size; i++)
    assert_true(text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'));
  free(text);
}

static void csv_has_a_record_per_phase_and_rank(void **state) {
  (void)state;
  compare("passed.csv", sample_passed, (struct report_options){.format = REPORT_CSV});
  compare("failed.csv", sample_failed, (struct report_options){.format = REPORT_CSV});
}

// Fields of one record, from `*at` on, which goes behind its line end.
static int count_fields(const char **at) {
  int fields = 1;
  bool quoted = false;
  for (; quoted || **at != '\r'; (*at)++) {
    assert_true(**at != '\0');
    if (**at == '"')
      quoted = !quoted;
    fields += !quoted && **at == ',';
  }
  assert_true((*at)[1] == '\n');
  *at += 2;
  return fields;
}

static void csv_records_have_as_many_fields_as_the_header(void **state) {
  (void)state;
  size_t size = 0;
  char *text = report(sample_failed, (struct report_options){.format = REPORT_CSV}, &size);
  const char *at = text;
  int fields = count_fields(&at), records = 0;
  for (; at < text + size; records++)
    assert_int_equal(count_fields(&at), fields);
  assert_int_equal(records, 18);
  free(text);
}

static size_t columns_of(const char *line, const char *end) {
  size_t columns = 0;
  for (; line < end; line++)
    columns += ((unsigned char)*line & 0xC0) != 0x80;
  return columns;
}

static void text_keeps_to_its_width(void **state) {
  (void)state;
  sample_fn samples[] = {sample_passed, sample_failed, sample_wide};
  const size_t widths[] = {0, 80, 100, 140};
  for (size_t i = 0; i < 12; i++) {
    size_t size = 0, width = widths[i % 4];
    struct report_options options = {.format = REPORT_TEXT, .unicode = true, .width = width};
    char *text = report(samples[i / 4], options, &size);
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
      if (columns_of(line, end) > (width ? width : RESULTS_WIDTH))
        fail_msg("%zu columns: %.*s", columns_of(line, end), (int)(end - line), line);
      assert_true(end == line || end[-1] != ' ');
    }
    free(text);
  }
}

static void one_of_a_kind_is_not_many(void **state) {
  (void)state;
  char *text = NULL;
  size_t size = 0;
  struct results results = {0};
  results.config =
      json_pack("{s:i, s:i, s:i, s:i}", "num_tokens", 1, "experts_per_rank", 1, "iterations", 1, "topk", 1);
  FILE *file = open_memstream(&text, &size);
  assert_non_null(file);
  assert_int_equal(report_write(file, &results, &(struct report_options){.format = REPORT_TEXT}), 0);
  fclose(file);
  assert_non_null(strstr(text, "sizes    1 token, top-k 1, 1 expert per rank, 1 timed operation a phase\n"));
  results_free(&results);
  free(text);
}

static void json_is_that_of_the_results(void **state) {
  (void)state;
  size_t size = 0;
  char *text = report(sample_failed, (struct report_options){.format = REPORT_JSON}, &size);
  struct results results, again = {0};
  sample_failed(&results);
  json_t *json = json_loads(text, 0, NULL);
  assert_non_null(json);
  assert_int_equal(results_from_json(&again, json), 0);
  assert_string_equal(again.run, results.run);
  assert_string_equal(again.phases[1].ranks[2].reason, results.phases[1].ranks[2].reason);
  json_decref(json);
  results_free(&again);
  results_free(&results);
  free(text);
}

static void an_empty_run_has_a_report(void **state) {
  (void)state;
  struct results results = {.error = "the store at http://127.0.0.1:1 cannot be reached", .exit_status = 3};
  char *out = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&out, &size);
  assert_int_equal(report_write(file, &results, &(struct report_options){.format = REPORT_TEXT}), 0);
  fclose(file);
  assert_non_null(strstr(out, "! FAILED 0 phases; 0 checks; no phase passed; exit status 3"));
  assert_non_null(strstr(out, "cannot be reached"));
  free(out);
}

static void lines_of_an_error_stay_lines(void **state) {
  (void)state;
  struct results results = {.error = "rank 1 was killed; the end of its log:\n  | one\n  | two", .exit_status = 5};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_int_equal(report_write(out, &results, &(struct report_options){.format = REPORT_TEXT}), 0);
  fclose(out);
  assert_non_null(
      strstr(text, "error    rank 1 was killed; the end of its log:\n           | one\n           | two\n"));
  free(text);
}

// The text report of a run of 4 ranks and then 8, with these experts on each and top-k 8.
static char *report_with_experts(int experts_per_rank) {
  struct results results;
  char *text = NULL;
  size_t size = 0;
  sample_passed(&results);
  json_object_set_new(results.config, "experts_per_rank", json_integer(experts_per_rank));
  results.num_phases = experts_per_rank == 1 ? 2 : 1;
  FILE *out = open_memstream(&text, &size);
  assert_int_equal(report_write(out, &results, &(struct report_options){.format = REPORT_TEXT}), 0);
  fclose(out);
  results.num_phases = 4;
  results_free(&results);
  return text;
}

static void top_k_is_what_a_token_selects(void **state) {
  (void)state;
  char *text = report_with_experts(2);
  assert_non_null(strstr(text, "hidden 7168, top-k 8, 2 experts per rank"));
  free(text);
  text = report_with_experts(1);
  assert_non_null(strstr(text, "top-k 4 to 8 (of 8: as many as a phase has experts)"));
  free(text);
}

static void top_k_is_no_more_than_there_are_experts(void **state) {
  (void)state;
  struct results results = {.num_phases = 1, .passed = true};
  struct results_rank rank = {.state = RESULTS_PASSED};
  results.phases = calloc(1, sizeof *results.phases);
  results.phases[0] = (struct results_phase){.num_ranks = 1, .ranks = malloc(sizeof rank)};
  results.phases[0].ranks[0] = rank;
  results.config = json_pack("{s:i, s:i}", "topk", 8, "experts_per_rank", 2);
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_int_equal(report_write(out, &results, &(struct report_options){.format = REPORT_TEXT}), 0);
  fclose(out);
  assert_non_null(strstr(text, "top-k 2 (of 8: there are no more experts)"));
  assert_null(strstr(text, "too few processors"));
  free(text);
  results_free(&results);
}

static void a_report_that_cannot_be_written_is_an_error(void **state) {
  (void)state;
  struct results results;
  sample_passed(&results);
  for (int format = REPORT_TEXT; format <= REPORT_CSV; format++) {
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(report_write(full, &results, &(struct report_options){.format = (enum report_format)format}),
                     WEFT_ERR_LIMIT);
    fclose(full);
  }
  results_free(&results);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_in_unicode_and_colour),
      cmocka_unit_test(text_in_plain_ascii),
      cmocka_unit_test(plain_text_is_ascii_without_escapes),
      cmocka_unit_test(csv_has_a_record_per_phase_and_rank),
      cmocka_unit_test(csv_records_have_as_many_fields_as_the_header),
      cmocka_unit_test(text_keeps_to_its_width),
      cmocka_unit_test(one_of_a_kind_is_not_many),
      cmocka_unit_test(json_is_that_of_the_results),
      cmocka_unit_test(an_empty_run_has_a_report),
      cmocka_unit_test(lines_of_an_error_stay_lines),
      cmocka_unit_test(top_k_is_what_a_token_selects),
      cmocka_unit_test(top_k_is_no_more_than_there_are_experts),
      cmocka_unit_test(a_report_that_cannot_be_written_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
