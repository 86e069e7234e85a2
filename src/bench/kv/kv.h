// Plans of KV caches: how many bytes a model stores for its tokens, in which blocks, and which blocks each prefill
// worker, which has computed them, sends to which decode worker, which continues with them.
//
// Bytes of a token in a layer, from the published definitions of attention:
//  - Grouped-query attention (Ainslie et al. 2023, "GQA", section 2; with as many groups as heads it is multi-head,
//    with one it is multi-query): a key and a value for each KV head, 2 x heads_kv x head_dim numbers.
//  - Multi-head latent attention (DeepSeek-V2 technical report, 2024, section 2.1 and table 1): one compressed vector
//    for key and value, and one key with the rotary embedding, both shared by all heads: latent + rope numbers.
// Tensor parallelism divides KV heads. If it is larger than the number of heads, each head is on several workers. The
// latent vector, which all heads need, is on every worker.
#ifndef BENCH_KV_KV_H
#define BENCH_KV_KV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "bench/traffic/pattern.h"

enum {
  KV_MAX_LAYERS = 1024,
  KV_NAME = 64,
  KV_MAX_HEADS = 65536,
  KV_MAX_DIM = 65536,
  KV_MAX_PAGE = 65536,
  KV_MAX_REQUESTS = 65536
};
#define KV_MAX_TOKENS (UINT64_C(1) << 32)

struct kv_model {
  char name[KV_NAME];
  uint32_t layers;
  uint32_t heads_kv, head_dim; // grouped-query attention
  uint32_t latent, rope;       // multi-head latent attention; 0: not used
  uint32_t window;             // tokens that a sliding-window layer uses; 0: there are no such layers
  bool sliding[KV_MAX_LAYERS]; // whether each layer is a sliding-window layer
};

enum kv_access { KV_BLOCK, KV_LAYER }; // a block contains all layers of a stage, or one layer
enum kv_dtype { KV_BF16, KV_FP16, KV_FP32, KV_FP8, KV_INT8 };
extern const char *const kv_access_names[], *const kv_dtype_names[]; // end with NULL

struct kv_settings {
  uint32_t tp, pp;               // of the prefill workers: tensor and pipeline parallelism
  uint32_t decode_tp, decode_pp; // of the decode workers; 0: the same
  uint32_t page_size;            // tokens of a block
  uint64_t tokens;               // of a request
  uint32_t requests;             // requests whose caches are sent together
  enum kv_access access;
  enum kv_dtype dtype;
  bool whole_window; // sliding-window layers keep all tokens, as in engines with one kind of block
};

// Layers of one kind: full attention, or a sliding window.
struct kv_kind {
  uint32_t layers;
  uint64_t tokens; // tokens kept of a request
  uint64_t blocks; // pages of a request that contain these tokens; pages are sent as a whole
};
enum { KV_FULL, KV_SLIDING };

struct kv_plan {
  struct kv_model model;
  struct kv_settings settings; // complete
  uint64_t token_layer_bytes;  // of one token in one layer, all heads
  uint64_t token_bytes;        // in all layers
  struct kv_kind kinds[TRAFFIC_KINDS];
  uint64_t block_bytes[TRAFFIC_KINDS]; // the largest on a prefill worker
  // prefill workers are the first ranks (stage x tp + place), followed by decode workers
  struct traffic_pattern pattern;
};

// Finds a known model by its name. INVALID names the known models.
int kv_model_find(struct kv_model *model, const char *name);
// Reads a model from a config.json of Hugging Face, also if its text model is in "text_config". INVALID names the
// member that is missing or wrong.
int kv_model_from_config(struct kv_model *model, const json_t *config);
int kv_model_load(struct kv_model *model, const char *path);

// Computes the plan. INVALID: the parallelism does not divide the model, or there are too many workers or blocks. Free
// it with kv_plan_free().
int kv_plan_make(struct kv_plan *plan, const struct kv_model *model, const struct kv_settings *settings);
void kv_plan_free(struct kv_plan *plan);

// As a document {"weft_kv_plan": 1, ...} for a program, and for kv_plan_load().
json_t *kv_plan_to_json(const struct kv_plan *plan);
// Computes a saved plan again, from its model and settings. INVALID names the member that is wrong; VERSION.
int kv_plan_from_json(struct kv_plan *plan, const json_t *json);
// Errors name the path.
int kv_plan_load(struct kv_plan *plan, const char *path);

struct table_look;
// The table for people. 0, or NOMEM.
int kv_plan_print(FILE *out, const struct kv_plan *plan, const struct table_look *look);

#endif
