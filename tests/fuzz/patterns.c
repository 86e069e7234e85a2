// Users write lists of patterns: a list is refused with a reason, or each of its patterns has a matrix.
#include "bench/traffic/pattern.h"

#include <string.h>
#include <weft/err.h>

#include "fuzz/support/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct traffic_plan plan;
  if (traffic_yaml_parse(&plan, (const char *)data, size, "p.yaml", 0) != 0) {
    FUZZ_CHECK(*weft_last_error() && plan.num_patterns == 0 && !plan.patterns);
    return 0;
  }
  FUZZ_CHECK(plan.num_patterns > 0 && plan.num_patterns <= TRAFFIC_MAX_PATTERNS && plan.ranks > 0);
  for (uint32_t i = 0; i < plan.num_patterns; i++) {
    const struct traffic_pattern *pattern = &plan.patterns[i];
    FUZZ_CHECK(pattern->num_pairs > 0 && pattern->ranks <= plan.ranks && memchr(pattern->name, 0, TRAFFIC_NAME));
    FUZZ_CHECK(pattern->before_s >= 0 && pattern->before_s <= TRAFFIC_MAX_SLEEP_S);
    FUZZ_CHECK(pattern->after_s >= 0 && pattern->after_s <= TRAFFIC_MAX_SLEEP_S);
  }
  traffic_plan_free(&plan);
  return 0;
}
