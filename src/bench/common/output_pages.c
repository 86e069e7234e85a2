// Writes the HTML page and the text for Prometheus.
#include "base/fail.h"
#include "bench/common/output_files.h"
#include "measure/prometheus.h"
#include "page/page.h"

int bench_output_check_pages(const struct bench_output *output) {
  return page_check_files(output->html, output->prometheus);
}

int bench_output_write_pages(const struct bench_output *output, const struct figures *figures) {
  const char *const label = figures->kind;
  int err = output->html ? page_save_figures(output->html, &figures, &label, 1) : 0;
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  int other = output->prometheus ? figures_save_prometheus(output->prometheus, figures) : 0;
  return err ? fail(err, "%s", why) : other;
}
