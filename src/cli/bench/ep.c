// weft bench ep: measures dispatch and combine.
#include "base/fail.h"
#include "base/signal/stop.h"
#include "bench/ep/run.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"

#include <stdio.h>
#include <unistd.h>

#define FIELD(member) OPTION_FIELD(struct bench_ep, member)

struct bench_ep {
  struct bench_ep_config config;
};

// clang-format off
static const struct cli_option rows[] = {
  {.section = "What is measured", .name = "op", .type = OPTION_STRING, .metavar = "LIST",
   .preset = "dispatch,combine,both", FIELD(config.ops),
   .help = "dispatch, combine, both (a dispatch followed at once by its combine), or one half of a call: "
   "dispatch_send, dispatch_recv, combine_send, combine_recv"},
  {.name = "mode", .type = OPTION_ENUM, .metavar = "MODE", .choices = bench_ep_mode_names, .preset = "latency",
   FIELD(config.mode),
   .help = "what the group is opened for: latency moves a few tokens as fast as possible; throughput moves many "
   "tokens, whose rows flow through windows of a limited size"},
  {.name = "graph", .type = OPTION_FLAG, FIELD(config.graph),
   .help = "measure 'both' also as replays of a CUDA graph"},
  {.name = "check", .alias = "validate", .type = OPTION_FLAG, FIELD(config.check),
   .help = "check every value on every rank, before and after the timed operations"},

  {.section = "Sweep: each option takes a list, separated by commas; all combinations are measured", .name = "tokens",
   .alias = "num-tokens", .type = OPTION_STRING, .metavar = "LIST", .preset = "128", FIELD(config.tokens),
   .help = "tokens of each rank in an operation"},
  {.name = "hidden", .alias = "hidden-dim", .type = OPTION_STRING, .metavar = "LIST", .preset = "7168",
   FIELD(config.hidden), .help = "values of a token, a multiple of 128"},
  {.name = "topk", .alias = "num-topk", .type = OPTION_STRING, .metavar = "LIST", .preset = "8", FIELD(config.topk),
   .help = "experts that a token selects"},
  {.name = "ranks", .letter = 'n', .type = OPTION_STRING, .metavar = "LIST", .preset = "2", FIELD(config.ranks),
   .help = "ranks of the group, on all hosts together"},
  {.name = "experts-per-rank", .alias = "num-experts-per-rank", .type = OPTION_STRING, .metavar = "LIST",
   .preset = "8", FIELD(config.experts), .help = "experts that each rank owns"},
  {.name = "dtype", .type = OPTION_STRING, .metavar = "LIST", .preset = "bf16", FIELD(config.dtypes),
   .help = "type of the rows in a dispatch: bf16, fp8, fp8-pow2 or fp8-ue8m0"},
  {.name = "combine-dtype", .type = OPTION_STRING, .metavar = "LIST", .preset = "bf16", FIELD(config.combine_dtypes),
   .help = "type of the rows in a combine: bf16 or logfmt10"},
  {.name = "layout", .type = OPTION_STRING, .metavar = "LIST", .preset = "per-expert", FIELD(config.layouts),
   .help = "how received tokens are laid out: per-expert, rank-major or packed"},
  {.name = "route", .type = OPTION_STRING, .metavar = "LIST", .preset = "fresh", FIELD(config.routes),
   .help = "fresh: each dispatch works out its routing from its top-k; kept: each dispatch uses a route that an "
   "earlier one filled"},
  {.name = "processors", .type = OPTION_STRING, .metavar = "LIST", .preset = "0", FIELD(config.processors),
   .help = "CUDA: largest number of streaming multiprocessors that a kernel may use; 0: the library chooses"},
  {.name = "skew", .type = OPTION_STRING, .metavar = "LIST", .preset = "uniform", FIELD(config.skews),
   .help = "how often experts are selected: uniform: all equally often; zipf:S: the n-th most popular expert in "
   "proportion to 1/n^S (zipf alone: S = 1); hot:SHARE: that share of all tokens selects one expert (hot alone: SHARE "
   "= 1)"},
  {.name = "memory", .type = OPTION_STRING, .metavar = "LIST", .preset = "host", .variable = "WEFT_MEMORY",
   FIELD(config.memories), .help = "where operations run: host or cuda"},

  {.section = "Operations", .name = "iterations", .alias = "num-iter", .type = OPTION_UINT, .metavar = "N", .min = 1,
   .max = 100000, .preset = "100", FIELD(config.iterations), .help = "timed operations of each measurement"},
  {.name = "warmup", .alias = "warmup-iter", .type = OPTION_UINT, .metavar = "N", .max = 100000, .preset = "20",
   FIELD(config.warmup), .help = "untimed operations before them"},
  {.name = "seed", .type = OPTION_UINT, .metavar = "N", .max = INT64_MAX, .preset = "1", FIELD(config.seed),
   .help = "seed of all data and selections: the same seed gives the same data"},

  {.name = "window", .type = OPTION_UINT, .metavar = "N", .min = 4096, .max = UINT32_MAX, .unit = "bytes",
   .preset_note = "64 MiB", FIELD(config.window_bytes),
   .help = "throughput: limit on the memory of a rank through which the rows of one peer flow"},
  {.name = "alignment", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 256, .unit = "rows", .preset_note = "1",
   FIELD(config.alignment), .help = "the packed part of each expert begins at a multiple of this number"},

  {.section = "Ranks", .name = "local-ranks", .type = OPTION_UINT, .metavar = "N", .min = 1,
   .max = BENCH_EP_MAX_RANKS, .preset_note = "all of them", FIELD(config.local_ranks),
   .help = "ranks of this host; the others come from other hosts"},
  {.name = "transport", .type = OPTION_STRING, .metavar = "NAME", .variable = "WEFT_EP_TRANSPORT",
   .preset_note = "the library chooses", FIELD(config.transport),
   .help = "transport between ranks on different hosts: ofi, ucx or nvlink"},
  {.name = "as-hosts", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = BENCH_EP_MAX_RANKS, .preset = "1",
   FIELD(config.as_hosts),
   .help = "connect the ranks of this host as if they were on this many hosts"},
  {.name = "share-gpus", .type = OPTION_FLAG, .variable = "WEFT_SHARE_GPUS", FIELD(config.share_gpus),
   .help = "let several ranks share a GPU if there are fewer GPUs than ranks: for tests"},

  BENCH_OPTION_ROWS_STORE(struct bench_ep, config.common),

  BENCH_OPTION_ROWS_OUTPUT(struct bench_ep, config.common),
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft bench ep", "dispatch, combine and both of 128 tokens, two ranks on host memory"},
    {"weft bench ep --ranks 2,4 --tokens 1,16,128 --dtype bf16,fp8 --repeat 5 --json a.json",
     "a sweep, for weft compare"},
    {"weft bench ep --memory cuda --graph --check", "a GPU for each of two ranks; every value is checked"},
    {"weft bench ep --mode throughput --tokens 4096 --layout rank-major,packed --route fresh,kept --iterations 20",
     "many tokens, as prefill has them"},
    {"weft bench ep --skew uniform,zipf:1.2,hot --experts-per-rank 32", "what an uneven load of the experts costs"},
    {"WEFT_TOKEN=SECRET weft bench ep --ranks 16 --local-ranks 8", "the first of two hosts; it prints the command for "
                                                                   "the other"},
    {NULL, NULL},
};

static void settle_output(const struct bench_ep_config *config, struct bench_output *output) {
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, config->common.color);
  bench_output_init(output, &config->common);
  output->color = terminal.color;
  output->unicode = terminal.unicode;
  output->width = terminal.width;
}

static int run(const struct cli_call *call) {
  struct bench_ep options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  struct bench_output output;
  struct bench_progress progress;
  struct figures figures = {0};
  settle_output(&options.config, &output);
  stop_watch("weft bench ep");
  bench_progress_begin(&progress, options.config.common.quiet);
  output.progress = &progress;
  int err = bench_ep_run(&options.config, &output, &progress, &figures);
  bool refused = bench_output_refused(&output);
  figures_free(&figures);
  if (err && !(err == WEFT_ERR_CANCELED && stop_came()))
    return cli_command_failed(call, err);
  if (stop_came()) {
    cli_command_failed(call, stop_check());
    return 128 + stop_came();
  }
  return refused ? 1 : 0;
}

const struct cli_command cli_bench_ep = {
    .name = "bench ep",
    .summary = "measure dispatch and combine of expert parallelism",
    .description =
        "Runs ranks as processes of this host, or of several hosts that meet on a store, and measures their operations "
        "one by one. All ranks begin an operation together, and its time is that of the slowest rank. Every "
        "combination of the listed values is one row of the report: its latency over the iterations, the bytes of a "
        "rank, counted by pairs of token and expert (logical) and as they are sent (wire), the bound of the hardware, "
        "how uneven the load of the experts was, and the slowest rank.\n"
        "Each combination is measured in a group of its own; --repeat repeats the whole sweep. On CUDA memory, times "
        "come from events in the stream.\n"
        "Exit status 1 means that a figure is above what the hardware can do, 4 wrong data, 5 that a rank was lost, "
        "124 that a deadline passed, 130 Ctrl-C. In each case the figures that were measured until then are still "
        "written.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
