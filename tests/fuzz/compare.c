// Files to compare come from other programs, other versions and other hosts: each is refused with a reason, or equals
// itself in a comparison, in every report. Data behind a line CUT is a second file, which is compared with the first.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare.h"
#include "compare/input.h"
#include "compare/read/baseline.h"
#include "fuzz/support/fuzz.h"

static void check_reports(const struct comparison *comparison) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  struct compare_look look = {.color = true, .unicode = true, .width = 80};
  FUZZ_CHECK(out && compare_write_table(out, comparison, &look) == 0 && compare_write_markdown(out, comparison) == 0);
  FUZZ_CHECK(compare_write_csv(out, comparison) == 0 && fclose(out) == 0 && strlen(text) == size);
  free(text);
  json_t *json = compare_to_json(comparison);
  FUZZ_CHECK(json);
  free(fuzz_dump(json));
}

static const char cut[] = "\nCUT\n";

static void check_comparison(const struct compare_run runs[2], bool same) {
  struct compare_options options = {.limit = 0, .resamples = 20, .seed = 1, .percentiles = true};
  struct comparison comparison;
  memset(&comparison, 0xA5, sizeof comparison);
  if (compare_runs(runs, 2, &options, &comparison)) {
    FUZZ_CHECK(fuzz_untouched(&comparison, 0xA5, sizeof comparison));
    return;
  }
  for (size_t i = 0; i < comparison.num_lines; i++) {
    const struct change *change = &comparison.lines[i].change;
    FUZZ_CHECK(isfinite(change->ratio) && isfinite(change->low) && isfinite(change->high));
    FUZZ_CHECK(change->low <= change->high && change->chance >= 0 && change->chance <= 1);
    FUZZ_CHECK(!same || (fabs(change->ratio) < 1e-9 && change->low <= 1e-9 && change->high >= -1e-9));
  }
  FUZZ_CHECK(!same || comparison.beyond == 0);
  check_reports(&comparison);
  compare_free(&comparison);
}

// What is kept of a run can be read again.
static void check_baseline(const struct compare_run *run) {
  struct compare_run again = {0};
  json_t *json = compare_baseline_json(run);
  FUZZ_CHECK(json);
  char *text = fuzz_dump(json);
  FUZZ_CHECK(input_add_text(&again, "baseline", text, strlen(text)) == 0);
  FUZZ_CHECK(again.num_rows == run->num_rows && again.num_repeats == run->num_repeats);
  free(text);
  compare_run_free(&again);
}

// A copy with a NUL behind it.
static int add(struct compare_run *run, const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  FUZZ_CHECK(text);
  memcpy(text, data, size);
  text[size] = '\0';
  int err = input_add_text(run, run->label, text, size);
  free(text);
  return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct compare_run runs[2] = {{.label = "a"}, {.label = "b"}};
  const uint8_t *second = size > 0 ? memmem(data, size, cut, sizeof cut - 1) : NULL;
  size_t first = second ? (size_t)(second - data) : size, skip = first + sizeof cut - 1;
  int err = add(&runs[0], data, first),
      other = second ? add(&runs[1], data + skip, size - skip) : add(&runs[1], data, size);
  FUZZ_CHECK(second || err == other);
  if (!err && !other)
    check_comparison(runs, !second);
  if (!err)
    check_baseline(&runs[0]);
  compare_run_free(&runs[0]);
  compare_run_free(&runs[1]);
  return 0;
}
