// Converts a plan to a JSON document and back.
#include <string.h>

#include "base/fail.h"
#include "bench/kv/kv.h"
#include "measure/json_file.h"

enum { FORMAT = 1 };

static json_t *sliding_layers(const struct kv_model *model) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < model->layers; i++)
    if (model->sliding[i])
      json_array_append_new(list, json_integer(i));
  return list;
}

static json_t *model_to_json(const struct kv_model *model) {
  return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "name", model->name, "layers", (json_int_t)model->layers,
                   "heads_kv", (json_int_t)model->heads_kv, "head_dim", (json_int_t)model->head_dim, "latent",
                   (json_int_t)model->latent, "rope", (json_int_t)model->rope, "window", (json_int_t)model->window,
                   "sliding_layers", sliding_layers(model));
}

static json_t *settings_to_json(const struct kv_settings *s) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:b}", "tp", (json_int_t)s->tp, "pp",
                   (json_int_t)s->pp, "decode_tp", (json_int_t)s->decode_tp, "decode_pp", (json_int_t)s->decode_pp,
                   "page_size", (json_int_t)s->page_size, "tokens", (json_int_t)s->tokens, "requests",
                   (json_int_t)s->requests, "access", kv_access_names[s->access], "dtype", kv_dtype_names[s->dtype],
                   "whole_window", s->whole_window);
}

static json_t *kinds_to_json(const struct kv_plan *plan) {
  static const char *const names[] = {"full", "sliding"};
  json_t *list = json_array();
  for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
    if (plan->kinds[kind].layers > 0)
      json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:I}", "attention", names[kind], "layers",
                                            (json_int_t)plan->kinds[kind].layers, "tokens",
                                            (json_int_t)plan->kinds[kind].tokens, "blocks",
                                            (json_int_t)plan->kinds[kind].blocks, "block_bytes",
                                            (json_int_t)plan->block_bytes[kind]));
  return list;
}

static json_t *pairs_to_json(const struct traffic_pattern *pattern) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < pattern->num_pairs; i++) {
    const struct traffic_pair *pair = &pattern->pairs[i];
    json_t *batches = json_array();
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
      if (pair->kinds[kind].count > 0)
        json_array_append_new(batches, json_pack("{s:I, s:I}", "block_bytes", (json_int_t)pair->kinds[kind].bytes,
                                                 "blocks", (json_int_t)pair->kinds[kind].count));
    json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:o}", "from", (json_int_t)pair->from, "to",
                                          (json_int_t)pair->to, "bytes", (json_int_t)pair->bytes, "batches", batches));
  }
  return list;
}

json_t *kv_plan_to_json(const struct kv_plan *plan) {
  json_t *json =
      json_pack("{s:i, s:o, s:o, s:I, s:I, s:o, s:I, s:I, s:I, s:o}", "weft_kv_plan", FORMAT, "model",
                model_to_json(&plan->model), "settings", settings_to_json(&plan->settings), "token_layer_bytes",
                (json_int_t)plan->token_layer_bytes, "token_bytes", (json_int_t)plan->token_bytes, "kinds",
                kinds_to_json(plan), "prefill_workers", (json_int_t)plan->settings.tp * plan->settings.pp,
                "decode_workers", (json_int_t)plan->settings.decode_tp * plan->settings.decode_pp, "total_bytes",
                (json_int_t)traffic_pattern_bytes(&plan->pattern), "pairs", pairs_to_json(&plan->pattern));
  if (!json)
    fail(WEFT_ERR_NOMEM, "no memory for a plan");
  return json;
}

// --- from JSON ---

static int take(const json_t *object, const char *name, uint64_t least, uint64_t most, uint64_t *value) {
  const json_t *member = json_object_get(object, name);
  json_int_t number = json_integer_value(member);
  if (!json_is_integer(member) || number < 0 || (uint64_t)number < least || (uint64_t)number > most)
    return fail(WEFT_ERR_INVALID, "\"%s\" is missing or wrong: want an integer from %llu to %llu", name,
                (unsigned long long)least, (unsigned long long)most);
  *value = (uint64_t)number;
  return 0;
}

static int take32(const json_t *object, const char *name, uint32_t least, uint32_t most, uint32_t *value) {
  uint64_t wide = 0;
  int rc = take(object, name, least, most, &wide);
  *value = rc == 0 ? (uint32_t)wide : 0;
  return rc;
}

static int take_name(const json_t *object, const char *name, const char *const *names, unsigned *value) {
  const char *text = json_string_value(json_object_get(object, name));
  for (unsigned i = 0; text && names[i]; i++)
    if (strcmp(names[i], text) == 0) {
      *value = i;
      return 0;
    }
  return fail(WEFT_ERR_INVALID, "\"%s\" is missing or wrong: want a name that weft bench kv --%s takes", name, name);
}

static int take_sliding(const json_t *object, struct kv_model *model) {
  const json_t *list = json_object_get(object, "sliding_layers");
  if (!json_is_array(list))
    return fail(WEFT_ERR_INVALID, "\"sliding_layers\" is missing or wrong: want a list of layers");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *layer = json_array_get(list, i);
    json_int_t number = json_integer_value(layer);
    if (!json_is_integer(layer) || number < 0 || number >= (json_int_t)model->layers || model->window == 0)
      return fail(WEFT_ERR_INVALID, "\"sliding_layers\" is wrong at %zu: want layers below %u, and a window", i,
                  model->layers);
    model->sliding[number] = true;
  }
  return 0;
}

static int model_from_json(const json_t *object, struct kv_model *model) {
  const char *name = json_string_value(json_object_get(object, "name"));
  if (!name || !*name || strlen(name) >= sizeof model->name)
    return fail(WEFT_ERR_INVALID, "\"name\" is missing or wrong: want that of a model, at most %zu bytes",
                sizeof model->name - 1);
  memcpy(model->name, name, strlen(name) + 1);
  int rc = take32(object, "layers", 1, KV_MAX_LAYERS, &model->layers);
  if (rc == 0)
    rc = take32(object, "latent", 0, KV_MAX_DIM, &model->latent);
  uint32_t gqa = rc == 0 && model->latent == 0; // latent attention needs no KV heads; other models need at least 1
  if (rc == 0)
    rc = take32(object, "rope", 0, KV_MAX_DIM, &model->rope);
  if (rc == 0)
    rc = take32(object, "heads_kv", gqa, KV_MAX_HEADS, &model->heads_kv);
  if (rc == 0)
    rc = take32(object, "head_dim", gqa, KV_MAX_DIM, &model->head_dim);
  if (rc == 0)
    rc = take32(object, "window", 0, UINT32_MAX, &model->window);
  return rc == 0 ? take_sliding(object, model) : rc;
}

static int settings_from_json(const json_t *object, struct kv_settings *s) {
  unsigned access = 0, dtype = 0;
  int rc = take32(object, "tp", 1, TRAFFIC_MAX_RANKS, &s->tp);
  if (rc == 0)
    rc = take32(object, "pp", 1, TRAFFIC_MAX_RANKS, &s->pp);
  if (rc == 0)
    rc = take32(object, "decode_tp", 1, TRAFFIC_MAX_RANKS, &s->decode_tp);
  if (rc == 0)
    rc = take32(object, "decode_pp", 1, TRAFFIC_MAX_RANKS, &s->decode_pp);
  if (rc == 0)
    rc = take32(object, "page_size", 1, KV_MAX_PAGE, &s->page_size);
  if (rc == 0)
    rc = take(object, "tokens", 1, KV_MAX_TOKENS, &s->tokens);
  if (rc == 0)
    rc = take32(object, "requests", 1, KV_MAX_REQUESTS, &s->requests);
  if (rc == 0)
    rc = take_name(object, "access", kv_access_names, &access);
  if (rc == 0)
    rc = take_name(object, "dtype", kv_dtype_names, &dtype);
  s->access = (enum kv_access)access;
  s->dtype = (enum kv_dtype)dtype;
  s->whole_window = json_is_true(json_object_get(object, "whole_window"));
  return rc;
}

int kv_plan_from_json(struct kv_plan *plan, const json_t *json) {
  struct kv_model model = {0};
  struct kv_settings settings = {0};
  const json_t *format = json_object_get(json, "weft_kv_plan");
  if (!json_is_integer(format))
    return fail(WEFT_ERR_INVALID, "this is not a plan of a KV cache: want the output of 'weft bench kv --json'");
  if (json_integer_value(format) != FORMAT)
    return fail(WEFT_ERR_VERSION, "a plan of format %" JSON_INTEGER_FORMAT ": this weft reads format %d",
                json_integer_value(format), FORMAT);
  int rc = model_from_json(json_object_get(json, "model"), &model);
  if (rc != 0)
    return fail_context(rc, "model");
  rc = settings_from_json(json_object_get(json, "settings"), &settings);
  if (rc != 0)
    return fail_context(rc, "settings");
  return kv_plan_make(plan, &model, &settings);
}

int kv_plan_load(struct kv_plan *plan, const char *path) {
  json_t *json = NULL;
  int rc = json_file_load(path, "a plan of 'weft bench kv --json'", &json);
  if (rc != 0)
    return rc == WEFT_ERR_PROTOCOL ? WEFT_ERR_INVALID : rc; // the user gave the document as an option
  rc = kv_plan_from_json(plan, json);
  json_decref(json);
  return rc == 0 ? 0 : fail_context(rc, "%s", path);
}
