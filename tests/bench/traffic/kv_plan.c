// Plans of KV caches against numbers worked out by hand.
#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "bench/kv/kv.h"
#include "cmocka_all.h"

static const struct kv_settings plain = {.tp = 1, .pp = 1, .page_size = 16, .tokens = 4096, .requests = 1};

static void make(struct kv_plan *plan, const char *name, struct kv_settings settings) {
  struct kv_model model;
  if (kv_model_find(&model, name) != 0 || kv_plan_make(plan, &model, &settings) != 0)
    fail_msg("%s: %s", name, weft_last_error());
}

// Bytes of a token: layers x 2 x KV heads x dimension x 2, or layers x (512 + 64) x 2.
static void bytes_of_a_token(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint64_t bytes;
  } known[] = {{"deepseek-r1", 61 * 576 * 2},  {"llama-3.1-8b", 32 * 4096},    {"llama-3.1-70b", 80 * 4096},
               {"Llama-3.1-405B", 126 * 4096}, {"qwen3-0.6b", 28 * 4096},      {"qwen3-32b", 64 * 4096},
               {"qwen3-30b-a3b", 48 * 2048},   {"qwen3-235b-a22b", 94 * 2048}, {"gpt-oss-20b", 24 * 2048},
               {"gpt-oss-120b", 36 * 2048}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct kv_plan plan;
    make(&plan, known[i].name, plain);
    assert_int_equal(plan.token_bytes, known[i].bytes);
    kv_plan_free(&plan);
  }
}

static void assert_pair(const struct kv_plan *plan, uint32_t index, uint32_t from, uint32_t to, uint32_t blocks,
                        uint64_t block) {
  const struct traffic_pair *pair = &plan->pattern.pairs[index];
  assert_int_equal(pair->from, from);
  assert_int_equal(pair->to, to);
  assert_int_equal(pair->kinds[0].count, blocks);
  assert_int_equal(pair->kinds[0].bytes, block);
  assert_int_equal(pair->bytes, blocks * block);
}

// 8 KV heads on 2 workers, then on 4: each of the first sends 2 of its 4 heads to each of two of the second.
static void heads_are_divided(void **state) {
  (void)state;
  struct kv_settings settings = plain;
  struct kv_plan plan;
  settings.tp = 2;
  settings.decode_tp = 4;
  make(&plan, "llama-3.1-70b", settings);
  assert_int_equal(plan.kinds[KV_FULL].blocks, 256);
  assert_int_equal(plan.block_bytes[KV_FULL], 16 * 80 * 4 * 512); // tokens x layers x heads x 2 x 128 x 2
  assert_int_equal(plan.pattern.num_pairs, 4);
  for (uint32_t i = 0; i < 4; i++)
    assert_pair(&plan, i, i / 2, 2 + i, 256, 16 * 80 * 2 * 512);
  assert_int_equal(traffic_pattern_bytes(&plan.pattern), 4096 * 80 * 4096);
  kv_plan_free(&plan);
}

// 4 KV heads on 8 workers stand twice; each of 8 receivers takes its head from one of the two, by turns.
static void more_workers_than_heads(void **state) {
  (void)state;
  struct kv_settings settings = plain;
  struct kv_plan plan;
  settings.tp = 8;
  make(&plan, "qwen3-30b-a3b", settings);
  assert_int_equal(plan.pattern.num_pairs, 8);
  for (uint32_t i = 0; i < 8; i++)
    assert_pair(&plan, i, i, 8 + i, 256, 16 * 48 * 512);
  kv_plan_free(&plan);
}

// A latent cache is whole on each worker, and goes to each: 2 senders take turns for 4 receivers.
static void latents_are_replicated(void **state) {
  (void)state;
  struct kv_settings settings = plain;
  struct kv_plan plan;
  settings.tp = 2;
  settings.decode_tp = 4;
  settings.access = KV_LAYER;
  settings.dtype = KV_FP8;
  make(&plan, "deepseek-r1", settings);
  assert_int_equal(plan.block_bytes[KV_FULL], 16 * 576);
  assert_int_equal(plan.pattern.num_pairs, 4);
  assert_pair(&plan, 0, 0, 2, 256 * 61, 16 * 576);
  assert_pair(&plan, 1, 0, 4, 256 * 61, 16 * 576);
  assert_pair(&plan, 2, 1, 3, 256 * 61, 16 * 576);
  assert_pair(&plan, 3, 1, 5, 256 * 61, 16 * 576);
  kv_plan_free(&plan);
}

// 61 layers in stages of 31 and 30, then in 21, 20 and 20: what two stages have in common goes from one to the other.
static void layers_are_divided(void **state) {
  (void)state;
  static const struct { uint32_t from, to, layers; } common[] = {{0, 2, 21}, {0, 3, 10}, {1, 3, 10}, {1, 4, 20}};
  struct kv_settings settings = plain;
  struct kv_plan plan;
  settings.pp = 2;
  settings.decode_pp = 3;
  make(&plan, "deepseek-r1", settings);
  assert_int_equal(plan.block_bytes[KV_FULL], 16 * 31 * 576 * 2);
  assert_int_equal(plan.pattern.num_pairs, 4);
  for (uint32_t i = 0; i < 4; i++)
    assert_pair(&plan, i, common[i].from, common[i].to, 256, UINT64_C(16) * common[i].layers * 576 * 2);
  kv_plan_free(&plan);
}

// Every second layer of gpt-oss keeps the last 128 tokens: 8 pages, or 9 where they begin in the middle of one.
static void a_sliding_window_keeps_its_tokens(void **state) {
  (void)state;
  struct kv_settings settings = plain;
  struct kv_plan plan;
  make(&plan, "gpt-oss-120b", settings);
  assert_int_equal(plan.kinds[KV_FULL].layers, 18);
  assert_int_equal(plan.kinds[KV_FULL].blocks, 256);
  assert_int_equal(plan.kinds[KV_SLIDING].layers, 18);
  assert_int_equal(plan.kinds[KV_SLIDING].tokens, 128);
  assert_int_equal(plan.kinds[KV_SLIDING].blocks, 8);
  assert_int_equal(plan.pattern.pairs[0].kinds[KV_SLIDING].count, 8);
  assert_int_equal(plan.pattern.pairs[0].bytes, (256 + 8) * 16 * 18 * 2048);
  kv_plan_free(&plan);
  settings.tokens = 4090; // 255.6 pages; the window begins in page 247
  make(&plan, "gpt-oss-120b", settings);
  assert_int_equal(plan.kinds[KV_SLIDING].blocks, 9);
  kv_plan_free(&plan);
  settings.tokens = 100;
  make(&plan, "gpt-oss-120b", settings);
  assert_int_equal(plan.kinds[KV_SLIDING].tokens, 100);
  kv_plan_free(&plan);
  settings.whole_window = true;
  settings.tokens = 4096;
  make(&plan, "gpt-oss-120b", settings);
  assert_int_equal(plan.kinds[KV_SLIDING].layers, 0);
  assert_int_equal(plan.pattern.pairs[0].bytes, UINT64_C(256) * 16 * 36 * 2048);
  kv_plan_free(&plan);
}

static void requests_and_broken_pages(void **state) {
  (void)state;
  struct kv_settings settings = plain;
  struct kv_plan plan;
  settings.tokens = 17; // two pages, the second one sent whole
  settings.requests = 3;
  make(&plan, "llama-3.1-8b", settings);
  assert_pair(&plan, 0, 0, 1, 6, 16 * 32 * 4096);
  kv_plan_free(&plan);
}

static void assert_refused(int rc, int expected, const char *says) {
  if (rc != expected || !strstr(weft_last_error(), says))
    fail_msg("%d \"%s\" instead of \"%s\"", rc, weft_last_error(), says);
}

static void what_cannot_be_divided_is_refused(void **state) {
  (void)state;
  struct kv_model model;
  struct kv_plan plan;
  struct kv_settings settings = plain;
  assert_refused(kv_model_find(&model, "gpt-5"), WEFT_ERR_INVALID, "want one of deepseek-r1, llama-3.1-8b");
  assert_int_equal(kv_model_find(&model, "qwen3-8b"), 0);
  settings.tp = 3;
  assert_refused(kv_plan_make(&plan, &model, &settings), WEFT_ERR_INVALID, "--tp 3: qwen3-8b has 8 KV heads");
  settings.tp = 12;
  assert_refused(kv_plan_make(&plan, &model, &settings), WEFT_ERR_INVALID, "a number that divides them, or a multiple");
  settings.tp = 1;
  settings.decode_tp = 5;
  assert_refused(kv_plan_make(&plan, &model, &settings), WEFT_ERR_INVALID, "--decode-tp 5");
  settings.decode_tp = 1;
  settings.pp = 37;
  assert_refused(kv_plan_make(&plan, &model, &settings), WEFT_ERR_INVALID, "--pp 37: qwen3-8b has 36 layers");
  settings = plain;
  settings.tokens = UINT64_C(1) << 31;
  assert_refused(kv_plan_make(&plan, &model, &settings), WEFT_ERR_INVALID, "a larger --page-size");
  settings = plain;
  settings.tp = 1000;
  settings.decode_tp = 1000;
  assert_refused(kv_plan_make(&plan, &model, &settings), WEFT_ERR_INVALID,
                 "--tp 1000 x --pp 1 and --decode-tp 1000 x --decode-pp 1 make 2000 workers: want at most 1024");
}

static int read_config(struct kv_model *model, const char *text) {
  json_t *json = json_loads(text, 0, NULL);
  assert_non_null(json);
  int rc = kv_model_from_config(model, json);
  json_decref(json);
  return rc;
}

static void a_config_is_read(void **state) {
  (void)state;
  struct kv_model model;
  assert_int_equal(read_config(&model, "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": "
                                       "32, \"num_key_value_heads\": 4, \"hidden_size\": 2048}"),
                   0);
  assert_string_equal(model.name, "llama");
  assert_int_equal(model.heads_kv, 4);
  assert_int_equal(model.head_dim, 64);
  assert_int_equal(read_config(&model, "{\"num_hidden_layers\": 3, \"num_attention_heads\": 128, \"kv_lora_rank\": 512,"
                                       "\"qk_rope_head_dim\": 64}"),
                   0);
  assert_int_equal(model.latent, 512);
  assert_int_equal(model.rope, 64);
  assert_int_equal(read_config(&model, "{\"text_config\": {\"num_hidden_layers\": 2, \"num_attention_heads\": 8, "
                                       "\"head_dim\": 64, \"sliding_window\": 128, \"layer_types\": "
                                       "[\"sliding_attention\", \"full_attention\"]}}"),
                   0);
  assert_int_equal(model.heads_kv, 8); // as many as heads
  assert_int_equal(model.window, 128);
  assert_true(model.sliding[0] && !model.sliding[1]);
  assert_int_equal(read_config(&model, "{\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"head_dim\": 64, "
                                       "\"sliding_window\": 4096, \"use_sliding_window\": false}"),
                   0);
  assert_int_equal(model.window, 0);
}

// As transformers counts them: of every so many layers the last one has full attention; or the first max_window_layers.
static void a_pattern_says_which_layers_slide(void **state) {
  (void)state;
  static const struct {
    const char *more;
    uint32_t sliding, first_full; // of 12 layers
  } configs[] = {{"\"model_type\": \"mistral\"", 12, 12},
                 {"\"model_type\": \"gemma2\"", 6, 1},
                 {"\"model_type\": \"gemma3_text\"", 10, 5},
                 {"\"model_type\": \"cohere2\"", 9, 3},
                 {"\"model_type\": \"gemma3_text\", \"sliding_window_pattern\": 3", 8, 2},
                 {"\"sliding_window_pattern\": 1", 0, 0},
                 {"\"model_type\": \"qwen2\", \"use_sliding_window\": true, \"max_window_layers\": 0", 12, 12}};
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
    struct kv_model model;
    char text[256];
    uint32_t sliding = 0, first_full = 0;
    snprintf(text, sizeof text,
             "{\"num_hidden_layers\": 12, \"num_attention_heads\": 8, \"head_dim\": 64, \"sliding_window\": 128, %s}",
             configs[i].more);
    assert_int_equal(read_config(&model, text), 0);
    for (uint32_t layer = 0; layer < model.layers; layer++)
      sliding += model.sliding[layer];
    while (first_full < model.layers && model.sliding[first_full])
      first_full++;
    assert_int_equal(sliding, configs[i].sliding);
    assert_int_equal(first_full, configs[i].first_full);
    assert_int_equal(model.window, sliding > 0 ? 128 : 0);
  }
}

static void a_wrong_config_is_refused_by_member(void **state) {
  (void)state;
  static const char *const wrong[][2] = {
      {"[]", "not a JSON object"},
      {"{}", "\"num_hidden_layers\" is missing"},
      {"{\"num_hidden_layers\": \"2\"}", "\"num_hidden_layers\" is wrong"},
      {"{\"num_hidden_layers\": 2}", "\"num_attention_heads\" is missing"},
      {"{\"num_hidden_layers\": 2, \"num_attention_heads\": 3, \"hidden_size\": 100}", "\"hidden_size\" 100"},
      {"{\"num_hidden_layers\": 2, \"kv_lora_rank\": 512}", "\"qk_rope_head_dim\" is missing"},
      {"{\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"head_dim\": 64, \"sliding_window\": 8, "
       "\"layer_types\": [\"mamba\", \"full_attention\"]}",
       "\"mamba\" for layer 0"},
      {"{\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"head_dim\": 64, \"sliding_window\": 8, "
       "\"layer_types\": []}",
       "a name for each of 2 layers"},
      {"{\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"head_dim\": 64, \"sliding_window\": 8, "
       "\"sliding_window_pattern\": \"LLLG\"}",
       "\"sliding_window_pattern\" is wrong"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct kv_model model;
    assert_refused(read_config(&model, wrong[i][0]), WEFT_ERR_INVALID, wrong[i][1]);
  }
}

static void a_plan_comes_back_from_json(void **state) {
  (void)state;
  struct kv_settings settings = plain;
  struct kv_plan plan, again;
  settings.tp = 2;
  settings.access = KV_LAYER;
  make(&plan, "gpt-oss-20b", settings);
  json_t *json = kv_plan_to_json(&plan);
  assert_int_equal(kv_plan_from_json(&again, json), 0);
  json_t *second = kv_plan_to_json(&again);
  assert_true(json_equal(json, second));
  kv_plan_free(&again);
  json_object_set_new(json_object_get(json, "settings"), "tp", json_integer(0));
  assert_refused(kv_plan_from_json(&again, json), WEFT_ERR_INVALID, "settings: \"tp\" is missing or wrong");
  json_object_set_new(json, "weft_kv_plan", json_integer(9));
  assert_refused(kv_plan_from_json(&again, json), WEFT_ERR_VERSION, "format 9");
  json_object_clear(json);
  assert_refused(kv_plan_from_json(&again, json), WEFT_ERR_INVALID, "weft bench kv --json");
  json_decref(json);
  json_decref(second);
  kv_plan_free(&plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_of_a_token),
      cmocka_unit_test(heads_are_divided),
      cmocka_unit_test(more_workers_than_heads),
      cmocka_unit_test(latents_are_replicated),
      cmocka_unit_test(layers_are_divided),
      cmocka_unit_test(a_sliding_window_keeps_its_tokens),
      cmocka_unit_test(requests_and_broken_pages),
      cmocka_unit_test(what_cannot_be_divided_is_refused),
      cmocka_unit_test(a_config_is_read),
      cmocka_unit_test(a_pattern_says_which_layers_slide),
      cmocka_unit_test(a_wrong_config_is_refused_by_member),
      cmocka_unit_test(a_plan_comes_back_from_json),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
