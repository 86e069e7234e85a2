// The plan: which layers and heads each worker holds, and which sender sends which part to a decode worker.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "bench/kv/kv.h"

const char *const kv_access_names[] = {"block", "layer", NULL};
const char *const kv_dtype_names[] = {"bf16", "fp16", "fp32", "fp8", "int8", NULL};
static const uint32_t dtype_bytes[] = {2, 2, 4, 1, 1};

// A range of layers, or of KV heads.
struct range {
  uint32_t first, count;
};

// The layers of a pipeline stage. Stages are as equal as possible; the first ones may have one layer more.
static struct range stage_layers(uint32_t layers, uint32_t stages, uint32_t stage) {
  uint32_t each = layers / stages, more = layers % stages;
  return (struct range){.first = stage * each + (stage < more ? stage : more), .count = each + (stage < more)};
}

// The KV heads of one of `tp` workers. The latent vector counts as one head, which cannot be divided.
static struct range place_heads(uint32_t heads, uint32_t tp, uint32_t place) {
  if (tp <= heads)
    return (struct range){.first = place * (heads / tp), .count = heads / tp};
  return (struct range){.first = place / (tp / heads), .count = 1};
}

static struct range both(struct range a, struct range b) {
  uint32_t first = a.first > b.first ? a.first : b.first;
  uint32_t end_a = a.first + a.count, end_b = b.first + b.count, end = end_a < end_b ? end_a : end_b;
  return (struct range){.first = first, .count = end > first ? end - first : 0};
}

static uint32_t heads_of(const struct kv_model *model) {
  return model->latent ? 1 : model->heads_kv;
}

// Bytes of one token in one layer, for one head.
static uint64_t head_bytes(const struct kv_model *model, enum kv_dtype dtype) {
  uint64_t numbers = model->latent ? model->latent + model->rope : 2 * model->head_dim;
  return numbers * dtype_bytes[dtype];
}

// How many of the layers are of this kind.
static uint32_t count_layers(const struct kv_plan *plan, struct range layers, int kind) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < layers.count; i++) {
    bool slides = plan->model.sliding[layers.first + i] && !plan->settings.whole_window;
    count += slides == (kind == KV_SLIDING);
  }
  return count;
}

static int check_side(const struct kv_model *model, uint32_t tp, uint32_t pp, const char *side) {
  uint32_t heads = heads_of(model);
  if (pp > model->layers)
    return fail(WEFT_ERR_INVALID, "%spp %u: %s has %u layers: want at most as many stages as layers", side, pp,
                model->name, model->layers);
  if (tp <= heads ? heads % tp != 0 : tp % heads != 0)
    return fail(WEFT_ERR_INVALID, "%stp %u: %s has %u KV heads: want a number that divides them, or a multiple", side,
                tp, model->name, heads);
  return 0;
}

static int check(const struct kv_plan *plan) {
  const struct kv_settings *settings = &plan->settings;
  if (!settings->tp || !settings->pp || !settings->page_size || !settings->tokens || !settings->requests)
    return fail(WEFT_ERR_INVALID, "tp, pp, page-size, tokens and requests: want at least 1 of each");
  if (settings->page_size > KV_MAX_PAGE || settings->tokens > KV_MAX_TOKENS || settings->requests > KV_MAX_REQUESTS)
    return fail(WEFT_ERR_INVALID, "page-size, tokens or requests: want at most %d, %" PRIu64 " and %d", KV_MAX_PAGE,
                KV_MAX_TOKENS, KV_MAX_REQUESTS);
  uint64_t workers = (uint64_t)settings->tp * settings->pp + (uint64_t)settings->decode_tp * settings->decode_pp;
  if (workers > TRAFFIC_MAX_RANKS)
    return fail(WEFT_ERR_INVALID,
                "--tp %u x --pp %u and --decode-tp %u x --decode-pp %u make %" PRIu64 " workers: want at most %d",
                settings->tp, settings->pp, settings->decode_tp, settings->decode_pp, workers, TRAFFIC_MAX_RANKS);
  int rc = check_side(&plan->model, settings->tp, settings->pp, "--");
  return rc == 0 ? check_side(&plan->model, settings->decode_tp, settings->decode_pp, "--decode-") : rc;
}

// Layers of one kind keep all tokens, those of the other only the tokens within their window.
static void size_kinds(struct kv_plan *plan) {
  const struct kv_model *model = &plan->model;
  const struct range all = {.count = model->layers};
  for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
    uint64_t tokens = plan->settings.tokens, page = plan->settings.page_size;
    if (kind == KV_SLIDING && model->window < tokens)
      tokens = model->window;
    uint32_t layers = count_layers(plan, all, kind);
    plan->kinds[kind] = (struct kv_kind){.layers = layers};
    uint64_t first = (plan->settings.tokens - tokens) / page; // the page of the first token that is kept
    uint64_t end = (plan->settings.tokens + page - 1) / page;
    if (layers > 0)
      plan->kinds[kind] = (struct kv_kind){.layers = layers, .tokens = tokens, .blocks = end - first};
  }
}

static void size_blocks(struct kv_plan *plan) {
  const struct kv_model *model = &plan->model;
  const struct kv_settings *settings = &plan->settings;
  uint64_t head = head_bytes(model, settings->dtype);
  uint32_t heads = place_heads(heads_of(model), settings->tp, 0).count; // equal for each place
  plan->token_layer_bytes = head * heads_of(model);
  plan->token_bytes = plan->token_layer_bytes * model->layers;
  for (uint32_t stage = 0; stage < settings->pp; stage++)
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
      uint32_t layers = count_layers(plan, stage_layers(model->layers, settings->pp, stage), kind);
      layers = settings->access == KV_LAYER && layers > 0 ? 1 : layers;
      uint64_t bytes = head * heads * layers * settings->page_size;
      plan->block_bytes[kind] = bytes > plan->block_bytes[kind] ? bytes : plan->block_bytes[kind];
    }
}

// Adds the pair for what one stage and place of the senders holds for one stage and place of the receivers.
static int join(struct kv_plan *plan, uint32_t from, uint32_t to, struct range layers, uint32_t heads) {
  struct traffic_pair pair = {.from = from, .to = to};
  const struct kv_settings *settings = &plan->settings;
  uint64_t unit = head_bytes(&plan->model, settings->dtype) * heads * settings->page_size; // bytes of one layer
  for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
    uint64_t count = count_layers(plan, layers, kind);
    uint64_t blocks = plan->kinds[kind].blocks * settings->requests;
    uint64_t bytes = settings->access == KV_BLOCK ? unit * count : unit;
    uint64_t pieces = settings->access == KV_BLOCK ? blocks * (count > 0) : blocks * count;
    if (pieces > WEFT_AGENT_MAX_DESCRIPTORS || (pieces > 0 && bytes > TRAFFIC_MAX_PAIR / pieces))
      return fail(WEFT_ERR_INVALID,
                  "worker %u would send %" PRIu64 " blocks of %" PRIu64 " bytes to worker %u: want at most %d, and 1 "
                  "TiB: a smaller --tokens or --requests, or a larger --page-size",
                  from, pieces, bytes, to, WEFT_AGENT_MAX_DESCRIPTORS);
    if (pieces > 0)
      pair.kinds[kind] = (struct traffic_pieces){.bytes = bytes, .count = (uint32_t)pieces};
    pair.bytes += bytes * pieces;
  }
  return pair.bytes > 0 ? traffic_pattern_add(&plan->pattern, &pair) : 0;
}

// Several senders may hold the same heads, and serve the receivers in turn. Whether the sender at `place` serves this
// one.
static bool serves(const struct kv_plan *plan, uint32_t place, uint32_t receiver) {
  uint32_t heads = heads_of(&plan->model), copies = plan->settings.tp > heads ? plan->settings.tp / heads : 1;
  return place % copies == receiver % copies;
}

static int join_all(struct kv_plan *plan) {
  const struct kv_settings *s = &plan->settings;
  uint32_t layers = plan->model.layers, heads = heads_of(&plan->model), senders = s->tp * s->pp;
  for (uint32_t from = 0; from < senders; from++)
    for (uint32_t to = 0; to < s->decode_tp * s->decode_pp; to++) {
      struct range common_layers =
          both(stage_layers(layers, s->pp, from / s->tp), stage_layers(layers, s->decode_pp, to / s->decode_tp));
      struct range common_heads =
          both(place_heads(heads, s->tp, from % s->tp), place_heads(heads, s->decode_tp, to % s->decode_tp));
      if (common_layers.count == 0 || common_heads.count == 0 || !serves(plan, from % s->tp, to % s->decode_tp))
        continue;
      int rc = join(plan, from, senders + to, common_layers, common_heads.count);
      if (rc != 0)
        return rc;
    }
  return 0;
}

int kv_plan_make(struct kv_plan *out, const struct kv_model *model, const struct kv_settings *settings) {
  struct kv_plan plan = {.model = *model, .settings = *settings};
  struct kv_settings *s = &plan.settings;
  s->decode_tp = s->decode_tp ? s->decode_tp : s->tp;
  s->decode_pp = s->decode_pp ? s->decode_pp : s->pp;
  plan.pattern = (struct traffic_pattern){.op = WEFT_TRANSFER_WRITE, .shards = 1};
  int rc = check(&plan);
  if (rc != 0)
    return rc;
  memcpy(plan.pattern.name, model->name, strlen(model->name) + 1);
  plan.pattern.ranks = s->tp * s->pp + s->decode_tp * s->decode_pp;
  size_kinds(&plan);
  size_blocks(&plan);
  rc = join_all(&plan);
  if (rc != 0)
    kv_plan_free(&plan);
  else
    *out = plan;
  return rc;
}

void kv_plan_free(struct kv_plan *plan) {
  free(plan->pattern.pairs);
  plan->pattern.pairs = NULL;
  plan->pattern.num_pairs = 0;
}
