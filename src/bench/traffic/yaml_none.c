// Takes the place of yaml.c if there is no libyaml.
#include "base/fail.h"
#include "bench/traffic/pattern.h"

int traffic_yaml_parse(struct traffic_plan *plan, const char *text, size_t size, const char *source, uint32_t workers) {
  (void)plan;
  (void)text;
  (void)size;
  (void)workers;
  return fail(WEFT_ERR_UNSUPPORTED,
              "%s: this weft was built without libyaml, which reads YAML: give one matrix (--matrix FILE), or build "
              "again where libyaml-dev is installed",
              source);
}

int traffic_yaml_load(struct traffic_plan *plan, const char *path, uint32_t workers) {
  return traffic_yaml_parse(plan, "", 0, path, workers);
}
