// weft bench traffic: runs patterns of traffic between workers, and the plans of KV caches.
#include "bench/traffic/traffic.h"

#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/signal/stop.h"
#include "cli/bench/kv_options.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"

struct options {
  struct bench_options bench;
  struct cli_kv kv;
  struct traffic_config config;
  const char *patterns, *matrix, *plan;
  uint32_t local, workers, shards;
  unsigned op;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

static const char *const op_names[] = {"write", "read", NULL};

// clang-format off
static const struct cli_option rows[] = {
  {.section = "Patterns", .name = "patterns", .operand = true, .type = OPTION_PATH, .metavar = "FILE", FIELD(patterns),
   .help = "YAML with a list traffic_patterns; each has a matrix_file"},
  {.name = "matrix", .type = OPTION_PATH, .metavar = "FILE", FIELD(matrix),
   .help = "a file with one pattern instead: a matrix of sizes (K, M, G), row = sender, column = receiver"},
  {.name = "plan", .type = OPTION_PATH, .metavar = "FILE", FIELD(plan),
   .help = "the plan of a KV cache instead, from 'weft bench kv --json'"},
  {.name = "op", .type = OPTION_ENUM, .metavar = "OP", .choices = op_names, .preset = "write", FIELD(op),
   .help = "for --matrix, --plan and --model: write: senders start the transfers; read: receivers start them"},
  {.name = "shards", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = TRAFFIC_MAX_SHARDS, .preset = "1",
   FIELD(shards), .help = "for --matrix: number of separate pieces into which the bytes of a pair are divided"},
  CLI_KV_ROWS(struct options, kv),

  {.section = "Workers", .name = "workers", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = TRAFFIC_MAX_RANKS,
   .preset_note = "as many as the largest matrix has rows", FIELD(workers),
   .help = "workers of all hosts together; a matrix for more workers is an error"},
  {.name = "local", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = TRAFFIC_MAX_RANKS,
   .preset_note = "all; with --store or --rank-server 1", FIELD(local),
   .help = "workers that this command starts on this host; the same command starts the others on other hosts"},
  {.name = "memory", .type = OPTION_ENUM, .metavar = "KIND", .choices = traffic_memory_names, .preset = "host",
   FIELD(config.memory), .help = "memory of patterns without mem_type. cuda: the workers of a host use its GPUs in "
   "turn"},
  {.name = "transport", .type = OPTION_STRING, .metavar = "NAME", .preset_note = "the cheapest that works",
   .variable = "WEFT_TRANSPORTS", FIELD(config.transport), .help = "shm, cuda, ucx or ofi, or several with commas"},

  {.section = "Measurements", .name = "iterations", .letter = 'n', .type = OPTION_UINT, .metavar = "N", .min = 1,
   .max = 10000000, .preset = "100", FIELD(config.iterations), .help = "how often the whole sequence runs"},
  {.name = "warmup", .type = OPTION_UINT, .metavar = "N", .max = 1000000, .preset = "10", FIELD(config.warmup),
   .help = "untimed runs of each pattern, before everything else"},
  {.name = "alone", .type = OPTION_UINT, .metavar = "N", .max = 10000000, .preset = "100", FIELD(config.alone),
   .help = "timed runs of each pattern by itself, without gaps, for comparison"},
  {.name = "isolate-pairs", .type = OPTION_FLAG, FIELD(config.isolate_pairs),
   .help = "run each pair of each pattern by itself, too"},
  {.name = "check", .type = OPTION_FLAG, FIELD(config.check),
   .help = "check every byte after each run; its value depends on the run, the pattern, the pair and its place"},
  {.name = "seed", .type = OPTION_UINT, .metavar = "N", .max = INT64_MAX, .preset = "0", FIELD(config.seed),
   .help = "of these bytes"},
  {.name = "show-workers", .type = OPTION_FLAG, FIELD(config.show_workers),
   .help = "also print a row for each worker of a pattern; JSON always has these rows"},
  {.name = "show-pairs", .type = OPTION_FLAG, FIELD(config.show_pairs), .help = "also print a row for each pair; JSON "
   "always has these rows"},

  BENCH_OPTION_ROWS_STORE(struct options, bench),
  BENCH_OPTION_ROWS_OUTPUT(struct options, bench),
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft bench traffic patterns.yaml", "its patterns between processes of this host, in sequence and each alone"},
    {"weft bench traffic --matrix all-to-all.txt --shards 16 --check", "one matrix, and every byte is checked"},
    {"weft bench traffic --model llama-3.1-8b --tp 2 --tokens 2048", "a KV cache from two workers to two others"},
    {"weft bench traffic patterns.yaml --local 8 --store http://10.0.0.1:2379", "on each of several hosts"},
    {NULL, NULL},
};

// --- the patterns ---

static int from_kv(struct options *options, struct traffic_plan *plan) {
  struct kv_plan kv;
  int rc = options->plan ? kv_plan_load(&kv, options->plan) : cli_kv_plan(&options->kv, &kv);
  if (rc != 0)
    return rc;
  struct traffic_pattern *pattern = traffic_plan_add(plan);
  if (!pattern) {
    kv_plan_free(&kv);
    return WEFT_ERR_NOMEM;
  }
  *pattern = kv.pattern; // with its pairs
  pattern->metadata = kv_plan_to_json(&kv);
  json_object_del(pattern->metadata, "pairs"); // the results have separate rows for them
  pattern->op = options->op ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE;
  plan->ranks = pattern->ranks;
  if (options->workers && options->workers < plan->ranks)
    return fail(WEFT_ERR_INVALID, "--workers %u: the plan takes %u", options->workers, plan->ranks);
  return 0;
}

static int from_matrix(struct options *options, struct traffic_plan *plan) {
  struct traffic_pattern *pattern = traffic_plan_add(plan);
  if (!pattern)
    return WEFT_ERR_NOMEM;
  pattern->op = options->op ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE;
  pattern->shards = options->shards;
  int rc = traffic_matrix_load(pattern, options->matrix, options->workers);
  plan->ranks = pattern->ranks;
  return rc;
}

// Refuses options that the given source of patterns does not take.
static int check_source(const struct options *options, const bool *given) {
  const size_t kv = offsetof(struct options, kv.settings), kv_end = kv + sizeof options->kv.settings;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!given[i])
      continue;
    if (strcmp(rows[i].name, "shards") == 0 && !options->matrix)
      return fail(WEFT_ERR_INVALID, "--shards is given without --matrix: %s",
                  options->patterns ? "each pattern of a file has its own shards"
                                    : "the blocks of a KV cache are its pieces");
    if (strcmp(rows[i].name, "op") == 0 && options->patterns)
      return fail(WEFT_ERR_INVALID, "--op is given with a file of patterns, each of which has its own xfer_op");
    if (rows[i].offset >= kv && rows[i].offset < kv_end && !options->kv.model && !options->kv.config)
      return fail(WEFT_ERR_INVALID, "--%s is given without --model or --model-config: %s", rows[i].name,
                  options->plan ? "the plan has it already" : "it describes a KV cache");
  }
  return 0;
}

static int read_plan(struct options *options, const bool *given, struct traffic_plan *plan) {
  bool kv = options->plan || options->kv.model || options->kv.config;
  int sources = !!options->patterns + !!options->matrix + !!options->plan + (options->kv.model || options->kv.config);
  if (sources != 1)
    return fail(WEFT_ERR_INVALID, "%s: want a file of patterns, --matrix, --plan, or --model",
                sources ? "more than one source of patterns is given" : "there is nothing to run");
  const char *const inputs[] = {options->patterns, options->matrix, options->plan, options->kv.config};
  int err = check_source(options, given);
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs && !err; i++)
    err = bench_options_check_input(&options->bench, inputs[i]);
  if (err)
    return err;
  if (options->patterns)
    return traffic_yaml_load(plan, options->patterns, options->workers);
  return kv ? from_kv(options, plan) : from_matrix(options, plan);
}

static int settle(struct options *options, const struct traffic_plan *plan) {
  struct traffic_config *config = &options->config;
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, options->bench.color);
  bool elsewhere = options->bench.store || options->bench.rank_server;
  config->options = &options->bench;
  config->plan = plan;
  config->workers = options->workers > plan->ranks ? options->workers : plan->ranks;
  config->local = options->local ? options->local : elsewhere ? 1 : config->workers;
  config->color = terminal.color;
  config->unicode = terminal.unicode;
  config->width = terminal.width;
  if (config->local > config->workers)
    return fail(WEFT_ERR_INVALID, "--local %u: there are %u workers in all", config->local, config->workers);
  return 0;
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  struct traffic_plan plan = {0};
  int status = 0;
  bool given[sizeof rows / sizeof *rows] = {false};
  if (!cli_command_options_given(call, &options, given, &status))
    return status;
  int err = read_plan(&options, given, &plan);
  if (!err)
    err = settle(&options, &plan);
  if (!err)
    err = traffic_bench(&options.config, &status);
  traffic_plan_free(&plan);
  if (err)
    cli_command_failed(call, err);
  if (err && stop_came())
    return 128 + stop_came();
  return err ? weft_err_exit_status(err) : status;
}

const struct cli_command cli_bench_traffic = {
    .name = "bench traffic",
    .summary = "measure patterns of traffic between workers, and KV caches",
    .description =
        "A pattern is a square matrix: row i, column j is how many bytes worker i sends to worker j. Several make a "
        "sequence, with gaps before and after each. Each pattern is measured by itself, and then in the sequence, "
        "where only the workers of a pattern wait for each other, so that patterns of different workers may overlap. "
        "Its latency is the time from the common start to the last byte of the slowest worker; it does not include the "
        "gaps, which have figures of their own.\n"
        "With --model, --model-config or --plan the pattern is a KV cache that goes from prefill to decode workers, in "
        "the blocks that 'weft bench kv' computes.\n"
        "Exit status 1 means that a figure cannot be true, 2 wrong input, 4 wrong data, 5 that a worker was lost, 124 "
        "that a deadline passed, 130 Ctrl-C, after which the measured figures are still written.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
