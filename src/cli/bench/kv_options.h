// The options of `weft bench kv` and `weft bench traffic` that describe a KV cache and its division.
#ifndef CLI_BENCH_KV_OPTIONS_H
#define CLI_BENCH_KV_OPTIONS_H

#include "bench/kv/kv.h"
#include "cli/option/option.h"

struct cli_kv {
  const char *model, *config;
  struct kv_settings settings;
};

#define CLI_KV_FIELD(target, kv_member, path)                                                                          \
  .offset = offsetof(target, kv_member.path), .size = sizeof(((target *)NULL)->kv_member.path)

// The rows of a table of options, for a struct `target` with a struct cli_kv `kv_member`.
// clang-format off
#define CLI_KV_ROWS(target, kv_member)                                                                                 \
  {.section = "KV cache", .name = "model", .alias = "kv", .type = OPTION_STRING, .metavar = "NAME",                    \
   CLI_KV_FIELD(target, kv_member, model), .help = "model whose cache it is: deepseek-r1, llama-3.1-8b, -70b, -405b, " \
   "qwen3-0.6b, -1.7b, -4b, -8b, -14b, -32b, -30b-a3b, -235b-a22b, gpt-oss-20b, -120b"},                               \
  {.name = "model-config", .type = OPTION_PATH, .metavar = "FILE", CLI_KV_FIELD(target, kv_member, config),            \
   .help = "config.json of another model, as Hugging Face has it"},                                                    \
  {.name = "tp", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = TRAFFIC_MAX_RANKS, .preset = "1",               \
   CLI_KV_FIELD(target, kv_member, settings.tp), .help = "tensor parallelism of the prefill workers, which divides "   \
   "the KV heads; if there are more workers than heads, several workers hold the same head"},                          \
  {.name = "pp", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = TRAFFIC_MAX_RANKS, .preset = "1",               \
   CLI_KV_FIELD(target, kv_member, settings.pp), .help = "pipeline parallelism of the prefill workers, which divides " \
   "layers"},                                                                                                          \
  {.name = "decode-tp", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = TRAFFIC_MAX_RANKS,                       \
   .preset_note = "that of --tp", CLI_KV_FIELD(target, kv_member, settings.decode_tp), .help = "the same for the "     \
   "decode workers"},                                                                                                  \
  {.name = "decode-pp", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = TRAFFIC_MAX_RANKS,                       \
   .preset_note = "that of --pp", CLI_KV_FIELD(target, kv_member, settings.decode_pp), .help = "the same for the "     \
   "decode workers"},                                                                                                  \
  {.name = "page-size", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = KV_MAX_PAGE, .unit = "tokens",           \
   .preset = "16", CLI_KV_FIELD(target, kv_member, settings.page_size), .help = "tokens of a block of the cache"},     \
  {.name = "tokens", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = KV_MAX_TOKENS, .unit = "tokens",            \
   .preset = "4096", CLI_KV_FIELD(target, kv_member, settings.tokens), .help = "tokens of a request"},                 \
  {.name = "requests", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = KV_MAX_REQUESTS, .preset = "1",           \
   CLI_KV_FIELD(target, kv_member, settings.requests), .help = "requests whose caches are sent together"},             \
  {.name = "access", .type = OPTION_ENUM, .metavar = "KIND", .choices = kv_access_names, .preset = "block",            \
   CLI_KV_FIELD(target, kv_member, settings.access), .help = "block: a piece holds the page of all layers of a stage; "\
   "layer: a piece holds the page of one layer"},                                                                      \
  {.name = "dtype", .type = OPTION_ENUM, .metavar = "TYPE", .choices = kv_dtype_names, .preset = "bf16",               \
   CLI_KV_FIELD(target, kv_member, settings.dtype), .help = "numbers of the cache"},                                   \
  {.name = "whole-window", .type = OPTION_FLAG, CLI_KV_FIELD(target, kv_member, settings.whole_window),                \
   .help = "layers with a sliding window keep all tokens, not only those of the window"}
// clang-format on

// Makes the plan that the options describe. INVALID: no model is given, or two are; other errors as of kv_plan_make().
int cli_kv_plan(const struct cli_kv *options, struct kv_plan *plan);

#endif
