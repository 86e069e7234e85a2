// weft bench kv: computes the sizes of the blocks of a KV cache, and which worker sends which blocks to which other.
#include <stdio.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/table.h"
#include "cli/bench/kv_options.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"

struct options {
  struct cli_kv kv;
  bool json;
  enum cli_terminal_color color;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

// clang-format off
static const struct cli_option rows[] = {
  CLI_KV_ROWS(struct options, kv),
  {.section = "Output", .name = "json", .type = OPTION_FLAG, FIELD(json),
   .help = "print JSON, which 'weft bench traffic --plan' takes"},
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto",
   FIELD(color), .help = "colours in the tables"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft bench kv --model llama-3.1-70b --tp 8 --tokens 8192", "blocks of a token's page on each of 8 workers"},
    {"weft bench kv --model deepseek-r1 --tp 8 --decode-tp 4 --access layer", "a latent cache, a layer at a time"},
    {"weft bench kv --model-config config.json --json > plan.json",
     "the same for another model, as a file for 'weft bench traffic --plan'"},
    {NULL, NULL},
};

int cli_kv_plan(const struct cli_kv *options, struct kv_plan *plan) {
  struct kv_model model;
  if (!options->model == !options->config)
    return fail(WEFT_ERR_INVALID, "%s: want --model NAME or --model-config FILE",
                options->model ? "--model and --model-config are both given" : "no model is given");
  int rc = options->model ? kv_model_find(&model, options->model) : kv_model_load(&model, options->config);
  return rc == 0 ? kv_plan_make(plan, &model, &options->settings) : rc;
}

static int print(const struct options *options, const struct kv_plan *plan) {
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, options->color);
  struct table_look look = {.color = terminal.color, .unicode = terminal.unicode, .width = terminal.width};
  if (!options->json)
    return kv_plan_print(stdout, plan, &look);
  json_t *json = kv_plan_to_json(plan);
  int rc = json ? 0 : WEFT_ERR_NOMEM;
  if (rc == 0 && (json_dumpf(json, stdout, JSON_INDENT(1)) != 0 || putchar('\n') < 0))
    rc = fail(WEFT_ERR_SYSTEM, "cannot write the plan to standard output");
  json_decref(json);
  return rc;
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  struct kv_plan plan;
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  int err = cli_kv_plan(&options.kv, &plan);
  if (err)
    return cli_command_failed(call, err);
  err = print(&options, &plan);
  kv_plan_free(&plan);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_bench_kv = {
    .name = "bench kv",
    .summary = "compute the blocks of a KV cache, and which worker sends them",
    .description =
        "A request's keys and values (its KV cache) are computed by prefill workers and then sent to decode workers, "
        "each side of which has its own tensor and pipeline parallelism. From these numbers and the model's dimensions "
        "the command computes how many bytes a token takes, how large a block of the cache is on a worker, how many "
        "blocks there are, and which prefill worker sends how many blocks to which decode worker. It transfers "
        "nothing: 'weft bench traffic' does, with the same options or with --plan.\n"
        "A latent cache (deepseek-r1) is the same on all workers of a tensor parallel group, so any of them can send "
        "it: they send it in turn. The last page of a request is sent whole. Layers with a sliding window (every "
        "second one of gpt-oss) keep the tokens of their window.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
