// A model's configuration or a saved plan is refused with a reason, or makes a plan that is read back from JSON
// unchanged.
#include "bench/kv/kv.h"

#include <weft/err.h>

#include "fuzz/support/fuzz.h"

static void check(struct kv_plan *plan) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < plan->pattern.num_pairs; i++) {
    const struct traffic_pair *pair = &plan->pattern.pairs[i];
    FUZZ_CHECK(pair->from < plan->pattern.ranks && pair->to < plan->pattern.ranks && pair->bytes > 0);
    bytes += pair->bytes;
  }
  FUZZ_CHECK(bytes == traffic_pattern_bytes(&plan->pattern) && bytes > 0);
  struct kv_plan again;
  json_t *first = kv_plan_to_json(plan);
  FUZZ_CHECK(first && kv_plan_from_json(&again, first) == 0);
  json_t *second = kv_plan_to_json(&again);
  FUZZ_CHECK(json_equal(first, second));
  json_decref(first);
  json_decref(second);
  kv_plan_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const struct kv_settings settings = {.tp = 2, .pp = 1, .decode_tp = 1, .page_size = 16, .tokens = 100, .requests = 1};
  struct kv_model model;
  struct kv_plan plan;
  json_t *json = json_loadb((const char *)data, size, 0, NULL);
  if (json && kv_model_from_config(&model, json) == 0 && kv_plan_make(&plan, &model, &settings) == 0) {
    check(&plan);
    kv_plan_free(&plan);
  }
  if (json && kv_plan_from_json(&plan, json) == 0) {
    check(&plan);
    kv_plan_free(&plan);
  }
  json_decref(json);
  return 0;
}
