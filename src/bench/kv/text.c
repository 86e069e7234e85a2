// A plan as tables for people.
#include <inttypes.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "bench/kv/kv.h"

enum { MOST_PAIRS = 32, WORD = 48 };

static const char *size_text(uint64_t bytes, char out[WORD]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  size_t unit = 0;
  for (; unit < 4 && value >= 1024; unit++)
    value /= 1024;
  snprintf(out, WORD, unit == 0 ? "%.0f %s" : "%.4g %s", value, units[unit]);
  return out;
}

static void print_head(FILE *out, const struct kv_plan *plan) {
  const struct kv_model *model = &plan->model;
  const struct kv_settings *s = &plan->settings;
  char token[WORD], layer[WORD];
  fprintf(out, "%s: %u layers, ", model->name, model->layers);
  if (model->latent)
    fprintf(out, "latent attention, (%u + %u rotary) numbers", model->latent, model->rope);
  else
    fprintf(out, "%u KV head%s, 2 x %u numbers each", model->heads_kv, text_s(model->heads_kv), model->head_dim);
  fprintf(out, " in %s\n", kv_dtype_names[s->dtype]);
  fprintf(out, "a token takes %s in a layer, %s in all (%" PRIu64 " bytes)\n",
          size_text(plan->token_layer_bytes, layer), size_text(plan->token_bytes, token), plan->token_bytes);
  uint32_t sliding = 0;
  for (uint32_t i = 0; i < model->layers; i++)
    sliding += model->sliding[i];
  if (sliding > 0)
    fprintf(out, "%u of %u layers have a sliding window of %u tokens%s\n", sliding, model->layers, model->window,
            s->whole_window ? ", and keep all tokens even so" : "");
  fprintf(out, "%u request%s of %" PRIu64 " tokens, pages of %u, tp %u x pp %u sends to tp %u x pp %u\n\n", s->requests,
          text_s(s->requests), s->tokens, s->page_size, s->tp, s->pp, s->decode_tp, s->decode_pp);
}

static int print_kinds(FILE *out, const struct kv_plan *plan, const struct table_look *look) {
  static const struct table_column columns[] = {{.heading = "attention"},
                                                {.heading = "layers", .right = true},
                                                {.heading = "tokens kept", .right = true},
                                                {.heading = "blocks", .right = true},
                                                {.heading = "a block", .right = true},
                                                {.heading = "has"}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof *columns};
  for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
    const struct kv_kind *k = &plan->kinds[kind];
    char bytes[WORD];
    if (k->layers == 0)
      continue;
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%s", kind == KV_SLIDING ? "sliding window" : "full");
    table_add(&table, TABLE_PLAIN, "%u", k->layers);
    table_add(&table, TABLE_PLAIN, "%" PRIu64, k->tokens);
    table_add(&table, TABLE_PLAIN, "%" PRIu64, k->blocks);
    table_add(&table, TABLE_PLAIN, "%s", size_text(plan->block_bytes[kind], bytes));
    table_add(&table, TABLE_PLAIN, "%s", plan->settings.access == KV_LAYER ? "one layer" : "the layers of a stage");
  }
  table_print(out, &table, look);
  bool failed = table.failed;
  table_free(&table);
  return failed ? fail(WEFT_ERR_NOMEM, "no memory for a table") : 0;
}

static void add_pair(struct table *table, const struct traffic_pair *pair) {
  char bytes[WORD], word[WORD];
  table_row(table);
  table_add(table, TABLE_PLAIN, "%u", pair->from);
  table_add(table, TABLE_PLAIN, "%u", pair->to);
  table_add(table, TABLE_PLAIN, "%u", traffic_pair_pieces(pair));
  if (pair->kinds[0].count && pair->kinds[1].count && pair->kinds[0].bytes != pair->kinds[1].bytes)
    table_add(table, TABLE_PLAIN, "%s, %s", size_text(pair->kinds[0].bytes, word),
              size_text(pair->kinds[1].bytes, bytes));
  else
    table_add(table, TABLE_PLAIN, "%s", size_text(pair->kinds[pair->kinds[0].count == 0].bytes, word));
  table_add(table, TABLE_PLAIN, "%s", size_text(pair->bytes, bytes));
}

static int print_pairs(FILE *out, const struct kv_plan *plan, const struct table_look *look) {
  static const struct table_column columns[] = {{.heading = "prefill", .right = true},
                                                {.heading = "decode", .right = true},
                                                {.heading = "blocks", .right = true},
                                                {.heading = "a block", .right = true},
                                                {.heading = "bytes", .right = true}};
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof *columns};
  const struct traffic_pattern *pattern = &plan->pattern;
  for (uint32_t i = 0; i < pattern->num_pairs && i < MOST_PAIRS; i++)
    add_pair(&table, &pattern->pairs[i]);
  table_print(out, &table, look);
  if (pattern->num_pairs > MOST_PAIRS)
    fprintf(out, "and %u more pairs, which --json prints\n", pattern->num_pairs - MOST_PAIRS);
  bool failed = table.failed;
  table_free(&table);
  return failed ? fail(WEFT_ERR_NOMEM, "no memory for a table") : 0;
}

int kv_plan_print(FILE *out, const struct kv_plan *plan, const struct table_look *look) {
  char bytes[WORD];
  print_head(out, plan);
  int rc = print_kinds(out, plan, look);
  if (rc == 0) {
    fprintf(out, "\n");
    rc = print_pairs(out, plan, look);
  }
  fprintf(out, "\nall: %s (%" PRIu64 " bytes), %u workers\n", size_text(traffic_pattern_bytes(&plan->pattern), bytes),
          traffic_pattern_bytes(&plan->pattern), plan->pattern.ranks);
  return rc;
}
