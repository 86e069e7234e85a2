// The facts of models: built in for known models, or read from a config.json.
#include "bench/kv/kv.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "measure/json_file.h"

// The numbers are from the config.json that the authors publish with the weights: num_hidden_layers,
// num_key_value_heads, head_dim (or hidden_size / num_attention_heads); kv_lora_rank and qk_rope_head_dim;
// sliding_window and layer_types. In gpt-oss every second layer, beginning with the first, has a sliding window.
static const struct {
  const char *name;
  uint32_t layers, heads_kv, head_dim, latent, rope, window;
} known[] = {
    {"deepseek-r1", 61, 0, 0, 512, 64, 0},  {"llama-3.1-8b", 32, 8, 128, 0, 0, 0},
    {"llama-3.1-70b", 80, 8, 128, 0, 0, 0}, {"llama-3.1-405b", 126, 8, 128, 0, 0, 0},
    {"qwen3-0.6b", 28, 8, 128, 0, 0, 0},    {"qwen3-1.7b", 28, 8, 128, 0, 0, 0},
    {"qwen3-4b", 36, 8, 128, 0, 0, 0},      {"qwen3-8b", 36, 8, 128, 0, 0, 0},
    {"qwen3-14b", 40, 8, 128, 0, 0, 0},     {"qwen3-32b", 64, 8, 128, 0, 0, 0},
    {"qwen3-30b-a3b", 48, 4, 128, 0, 0, 0}, {"qwen3-235b-a22b", 94, 4, 128, 0, 0, 0},
    {"gpt-oss-20b", 24, 8, 64, 0, 0, 128},  {"gpt-oss-120b", 36, 8, 64, 0, 0, 128},
};
enum { KNOWN = sizeof known / sizeof *known };

int kv_model_find(struct kv_model *model, const char *name) {
  struct text names = {0};
  for (size_t i = 0; i < KNOWN; i++) {
    if (strcasecmp(known[i].name, name) != 0) {
      text_add(&names, "%s%s", names.size ? ", " : "", known[i].name);
      continue;
    }
    *model = (struct kv_model){.layers = known[i].layers,
                               .heads_kv = known[i].heads_kv,
                               .head_dim = known[i].head_dim,
                               .latent = known[i].latent,
                               .rope = known[i].rope,
                               .window = known[i].window};
    for (uint32_t layer = 0; known[i].window && layer < model->layers; layer += 2)
      model->sliding[layer] = true;
    memcpy(model->name, known[i].name, strlen(known[i].name) + 1);
    text_free(&names);
    return 0;
  }
  int rc = fail(WEFT_ERR_INVALID, "no model \"%.40s\" is known: want one of %s, or the config.json of another one (%s)",
                name, names.data ? names.data : "", "--model-config FILE");
  text_free(&names);
  return rc;
}

// Reads a number of the configuration. An `optional` number that is missing or null is 0.
static int take(const json_t *config, const char *name, uint32_t most, bool optional, uint32_t *value) {
  const json_t *member = json_object_get(config, name);
  if (optional && (!member || json_is_null(member))) {
    *value = 0;
    return 0;
  }
  json_int_t number = json_integer_value(member);
  if (!member)
    return fail(WEFT_ERR_INVALID, "\"%s\" is missing: want the config.json of a decoder", name);
  if (!json_is_integer(member) || number < 1 || number > most)
    return fail(WEFT_ERR_INVALID, "\"%s\" is wrong: want an integer from 1 to %u", name, most);
  *value = (uint32_t)number;
  return 0;
}

static int take_heads(struct kv_model *model, const json_t *config) {
  uint32_t heads = 0, hidden = 0;
  int rc = take(config, "num_attention_heads", KV_MAX_HEADS, false, &heads);
  if (rc == 0)
    rc = take(config, "num_key_value_heads", KV_MAX_HEADS, true, &model->heads_kv);
  if (rc == 0)
    rc = take(config, "head_dim", KV_MAX_DIM, true, &model->head_dim);
  if (rc == 0 && model->head_dim == 0) {
    rc = take(config, "hidden_size", UINT32_MAX / 2, false, &hidden);
    if (rc == 0 && (hidden % heads != 0 || hidden / heads > KV_MAX_DIM))
      rc = fail(WEFT_ERR_INVALID,
                "\"hidden_size\" %u is not num_attention_heads %u times a dimension up to %d: want \"head_dim\" in the "
                "file, too",
                hidden, heads, KV_MAX_DIM);
    if (rc == 0)
      model->head_dim = hidden / heads;
  }
  if (rc == 0 && model->heads_kv == 0)
    model->heads_kv = heads; // multi-head attention
  return rc;
}

static int take_layer_types(struct kv_model *model, const json_t *types) {
  if (!json_is_array(types) || json_array_size(types) != model->layers)
    return fail(WEFT_ERR_INVALID, "\"layer_types\" is wrong: want a list with a name for each of %u layers",
                model->layers);
  for (uint32_t i = 0; i < model->layers; i++) {
    const char *type = json_string_value(json_array_get(types, i));
    bool full = type && strcmp(type, "full_attention") == 0;
    model->sliding[i] = type && strcmp(type, "sliding_attention") == 0;
    if (!full && !model->sliding[i])
      return fail(WEFT_ERR_INVALID,
                  "\"layer_types\" has \"%.40s\" for layer %u: want full_attention or sliding_attention, the kinds "
                  "whose cache grows with tokens",
                  type ? type : "no text", i);
  }
  return 0;
}

// Models whose config.json may leave out which layers have the window: one of every so many layers, the last of them,
// has full attention.
static uint32_t usual_pattern(const char *model_type) {
  static const struct {
    const char *type;
    uint32_t pattern;
  } usual[] = {{"cohere2", 4}, {"gemma2", 2}, {"gemma3", 6}, {"gemma3_text", 6}};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (strcmp(usual[i].type, model_type) == 0)
      return usual[i].pattern;
  return 0;
}

// Without layer_types and without a pattern all layers have the window (Mistral), or those from max_window_layers on
// (Qwen).
static int take_pattern(struct kv_model *model, const json_t *config) {
  uint32_t first = 0, pattern = 0;
  const json_t *given = json_object_get(config, "max_window_layers");
  bool none = json_is_integer(given) && json_integer_value(given) == 0; // no layer is without the window
  int rc = none ? 0 : take(config, "max_window_layers", KV_MAX_LAYERS, true, &first);
  if (rc == 0)
    rc = take(config, "sliding_window_pattern", KV_MAX_LAYERS, true, &pattern);
  pattern = pattern ? pattern : usual_pattern(model->name);
  for (uint32_t i = first; i < model->layers && rc == 0; i++)
    model->sliding[i] = pattern == 0 || (i + 1) % pattern != 0;
  return rc;
}

// No layer has the window if use_sliding_window says so (Qwen).
static int take_window(struct kv_model *model, const json_t *config) {
  const json_t *types = json_object_get(config, "layer_types");
  uint32_t window = 0;
  int rc = take(config, "sliding_window", UINT32_MAX, true, &window);
  if (rc != 0 || window == 0 || json_is_false(json_object_get(config, "use_sliding_window")))
    return rc;
  rc = types && !json_is_null(types) ? take_layer_types(model, types) : take_pattern(model, config);
  for (uint32_t i = 0; i < model->layers; i++)
    model->window = model->sliding[i] ? window : model->window;
  return rc;
}

int kv_model_from_config(struct kv_model *model, const json_t *config) {
  const json_t *text = json_object_get(config, "text_config");
  config = json_is_object(text) ? text : config;
  if (!json_is_object(config))
    return fail(WEFT_ERR_INVALID, "this is not a JSON object: want the config.json of a model");
  *model = (struct kv_model){0};
  const char *type = json_string_value(json_object_get(config, "model_type"));
  for (size_t i = 0; type && type[i] && i < sizeof model->name - 1; i++)
    model->name[i] = type[i] > ' ' && type[i] < 0x7f ? type[i] : '?';
  if (!*model->name)
    memcpy(model->name, "model", sizeof "model");
  int rc = take(config, "num_hidden_layers", KV_MAX_LAYERS, false, &model->layers);
  if (rc == 0)
    rc = take(config, "kv_lora_rank", KV_MAX_DIM, true, &model->latent);
  if (rc == 0 && model->latent)
    rc = take(config, "qk_rope_head_dim", KV_MAX_DIM, false, &model->rope);
  else if (rc == 0)
    rc = take_heads(model, config);
  return rc == 0 ? take_window(model, config) : rc;
}

int kv_model_load(struct kv_model *model, const char *path) {
  json_t *config = NULL;
  int rc = json_file_load(path, "the config.json of a model", &config);
  if (rc != 0)
    return rc == WEFT_ERR_PROTOCOL ? WEFT_ERR_INVALID : rc; // the user gave the file as an option
  rc = kv_model_from_config(model, config);
  json_decref(config);
  return rc == 0 ? 0 : fail_context(rc, "%s", path);
}
