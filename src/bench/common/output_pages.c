// The page and the text for Prometheus.
#include "base/fail.h"
#include "bench/common/output_files.h"

int bench_output_check_pages(const struct bench_output *output) {
  if (output->html || output->prometheus)
    return fail(WEFT_ERR_UNSUPPORTED, "--%s is not in this build: want --json FILE",
                output->html ? "html" : "prometheus");
  return 0;
}

int bench_output_write_pages(const struct bench_output *output, const struct figures *figures) {
  (void)figures;
  return bench_output_check_pages(output);
}
