// weft bench ep: measures dispatch and combine.
#include "base/fail.h"
#include "bench/ep/run.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define FIELD(member) OPTION_FIELD(struct bench_ep, member)

struct bench_ep {
  struct bench_ep_config config;
  uint32_t repeat;
};

// clang-format off
static const struct cli_option rows[] = {
  {.section = "What is measured", .name = "op", .type = OPTION_STRING, .metavar = "LIST",
   .preset = "dispatch,combine,both", FIELD(config.ops),
   .help = "dispatch, combine, both (one right behind the other), or the calls that these are split into: "
   "dispatch_send, dispatch_recv, combine_send, combine_recv"},
  {.name = "mode", .type = OPTION_ENUM, .metavar = "MODE", .choices = bench_ep_mode_names, .preset = "low-latency",
   FIELD(config.mode), .help = "low-latency: operations as they are; throughput: with routes that are kept"},
  {.name = "graph", .type = OPTION_FLAG, FIELD(config.graph),
   .help = "measure both also as replays of a CUDA graph"},
  {.name = "check", .alias = "validate", .type = OPTION_FLAG, FIELD(config.check),
   .help = "have every value judged, before and after the timed operations, on every rank"},

  {.section = "Sweep: each a list with commas between its values, and all combinations are measured", .name = "tokens",
   .alias = "num-tokens", .type = OPTION_STRING, .metavar = "LIST", .preset = "128", FIELD(config.tokens),
   .help = "tokens of each rank in an operation"},
  {.name = "hidden", .alias = "hidden-dim", .type = OPTION_STRING, .metavar = "LIST", .preset = "7168",
   FIELD(config.hidden), .help = "values of a token, multiples of 128"},
  {.name = "topk", .alias = "num-topk", .type = OPTION_STRING, .metavar = "LIST", .preset = "8", FIELD(config.topk),
   .help = "experts that a token selects"},
  {.name = "ranks", .letter = 'n', .type = OPTION_STRING, .metavar = "LIST", .preset = "2", FIELD(config.ranks),
   .help = "ranks of the group, on all hosts together"},
  {.name = "experts-per-rank", .alias = "num-experts-per-rank", .type = OPTION_STRING, .metavar = "LIST",
   .preset = "8", FIELD(config.experts), .help = "experts that each rank owns"},
  {.name = "dtype", .type = OPTION_STRING, .metavar = "LIST", .preset = "bf16", FIELD(config.dtypes),
   .help = "what travels in a dispatch: bf16, fp8, fp8-pow2 or fp8-ue8m0"},
  {.name = "combine-dtype", .type = OPTION_STRING, .metavar = "LIST", .preset = "bf16", FIELD(config.combine_dtypes),
   .help = "what travels in a combine: bf16 or logfmt10"},
  {.name = "layout", .type = OPTION_STRING, .metavar = "LIST", .preset = "per-expert", FIELD(config.layouts),
   .help = "how received tokens are laid out: per-expert, rank-major or packed"},
  {.name = "skew", .type = OPTION_STRING, .metavar = "LIST", .preset = "uniform", FIELD(config.skews),
   .help = "which experts are selected: uniform: all alike; zipf:S: the n-th most popular one in proportion to "
   "1/n^S (1 without a number); hot:SHARE: one expert by that share of all tokens (1 without a number)"},
  {.name = "memory", .type = OPTION_STRING, .metavar = "LIST", .preset = "host", .variable = "WEFT_MEMORY",
   FIELD(config.memories), .help = "where operations run: host or cuda"},

  {.section = "Operations", .name = "iterations", .alias = "num-iter", .type = OPTION_UINT, .metavar = "N", .min = 1,
   .max = 100000, .preset = "100", FIELD(config.iterations), .help = "timed operations of each measurement"},
  {.name = "warmup", .alias = "warmup-iter", .type = OPTION_UINT, .metavar = "N", .max = 100000, .preset = "20",
   FIELD(config.warmup), .help = "untimed ones before them"},
  {.name = "repeat", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 1000, .preset = "1", FIELD(repeat),
   .help = "measure the whole sweep so many times, so that each point comes by turns"},
  {.name = "seed", .type = OPTION_UINT, .metavar = "N", .preset = "1", FIELD(config.seed),
   .help = "seed of all data and selections: the same seed gives the same"},

  {.section = "Ranks", .name = "local-ranks", .type = OPTION_UINT, .metavar = "N", .min = 1,
   .max = BENCH_EP_MAX_RANKS, .preset_note = "all of them", FIELD(config.local_ranks),
   .help = "ranks of this host; the others come from other hosts"},
  {.name = "transport", .type = OPTION_STRING, .metavar = "NAME", .variable = "WEFT_EP_TRANSPORT",
   .preset_note = "the library chooses", FIELD(config.transport),
   .help = "way between ranks on different hosts: ofi, ucx or nvlink"},
  {.name = "as-hosts", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = BENCH_EP_MAX_RANKS, .preset = "1",
   FIELD(config.as_hosts),
   .help = "have the ranks of this host reach each other as if they were on so many hosts"},
  {.name = "share-gpus", .type = OPTION_FLAG, .variable = "WEFT_SHARE_GPUS", FIELD(config.share_gpus),
   .help = "let several ranks have one GPU, where there are fewer GPUs than ranks: for tests"},
  {.name = "timeout-ms", .type = OPTION_UINT, .metavar = "N", .min = 10, .max = 600000, .unit = "ms",
   .preset = "5000", .variable = "WEFT_TIMEOUT_MS", FIELD(config.timeout_ms),
   .help = "a peer that is silent for so long in an operation is lost"},
  {.name = "startup-timeout", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 86400, .unit = "s",
   .preset = "60", .variable = "WEFT_STARTUP_TIMEOUT", FIELD(config.startup_timeout_s),
   .help = "all ranks must have connected after so long"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft bench ep", "dispatch, combine and both, two ranks on host memory"},
    {NULL, NULL},
};

static volatile sig_atomic_t came;
static void take(int number) {
  came = number;
}

static bool stopped(void *arg) {
  (void)arg;
  return came;
}

static int begun(void *arg, struct figures *figures) {
  (void)arg, (void)figures;
  return 0;
}

static int add_row(void *arg, struct figures *figures, const struct figures_row *row) {
  (void)arg, (void)figures, (void)row;
  return 0;
}

static int run(const struct cli_call *call) {
  struct bench_ep options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  signal(SIGINT, take);
  struct figures figures = {0};
  struct bench_ep_sink sink = {begun, add_row, NULL, stopped, NULL};
  int err = bench_ep_run(&options.config, options.repeat, &sink, &figures);
  json_t *json = figures_to_json(&figures);
  json_dumpf(json, stdout, JSON_INDENT(1));
  json_decref(json);
  figures_free(&figures);
  return err ? cli_command_failed(call, err) : came ? 128 + came : 0;
}

const struct cli_command cli_bench_ep = {
    .name = "bench ep",
    .summary = "measure dispatch and combine of expert parallelism",
    .description = "Measures.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
