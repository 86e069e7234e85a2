// results.json may have been written by another version, or by hand: it is refused with a reason, or it stays the same
// when it is written again, and can be reported.
#include "measure/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/support/fuzz.h"
#include "measure/report.h"

static void check_report(const struct results *results, enum report_format format) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  struct report_options options = {.format = format, .color = true, .unicode = true};
  FUZZ_CHECK(out && report_write(out, results, &options) == 0 && fclose(out) == 0);
  FUZZ_CHECK(size > 0 && strlen(text) == size);
  free(text);
}

static void check_results(const struct results *results) {
  json_t *json = results_to_json(results);
  struct results again;
  FUZZ_CHECK(json && results_from_json(&again, json) == 0);
  json_t *json_again = results_to_json(&again);
  FUZZ_CHECK(json_equal(json, json_again));
  json_decref(json);
  json_decref(json_again);
  results_free(&again);
  check_report(results, REPORT_TEXT);
  check_report(results, REPORT_JSON);
  check_report(results, REPORT_CSV);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  json_t *json = json_loadb((const char *)data, size, 0, NULL);
  struct results results;
  memset(&results, 0xA5, sizeof results);
  if (json && results_from_json(&results, json) == 0) {
    check_results(&results);
    results_free(&results);
  } else {
    FUZZ_CHECK(fuzz_untouched(&results, 0xA5, sizeof results));
  }
  json_decref(json);
  return 0;
}
