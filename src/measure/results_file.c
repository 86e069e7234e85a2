// results.json on disk.
#include "base/fail.h"
#include "measure/json_file.h"
#include "measure/results.h"

int results_save(const struct results *results, int directory, const char *name) {
  json_t *json = results_to_json(results);
  if (!json)
    return fail_context(WEFT_ERR_INVALID, "%s", name);
  int err = json_file_save(json, directory, name);
  json_decref(json);
  return err;
}

int results_load(struct results *results, const char *path) {
  json_t *json = NULL;
  int err = json_file_load(path, "the results.json of a run", &json);
  if (err)
    return err;
  err = results_from_json(results, json);
  json_decref(json);
  return err ? fail_context(err, "%s", path) : 0;
}
