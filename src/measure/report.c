// What the formats of the report have in common.
#include "measure/report.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/printable.h"

int report_json(FILE *out, const struct results *results) {
  json_t *json = results_to_json(results);
  if (!json)
    return WEFT_ERR_INVALID;
  char *text = json_dumps(json, REPORT_JSON_FLAGS);
  json_decref(json);
  if (!text)
    return fail(WEFT_ERR_NOMEM, "no memory for the report");
  printable_text(text); // replaces C1 characters, which JSON leaves as they are
  fputs(text, out);
  fputc('\n', out);
  free(text);
  return 0;
}

int report_write(FILE *out, const struct results *results, const struct report_options *options) {
  int err = 0;
  switch (options->format) {
  case REPORT_TEXT:
    err = report_text(out, results, options);
    break;
  case REPORT_JSON:
    err = report_json(out, results);
    break;
  case REPORT_CSV:
    report_csv(out, results);
    break;
  }
  if (!err && (fflush(out) || ferror(out)))
    err = fail_errno(errno, "cannot write the report");
  return err;
}
