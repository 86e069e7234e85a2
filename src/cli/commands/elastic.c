// weft elastic: runs an elastic plan and checks every number.
#include "base/fail.h"
#include "cli/commands/commands.h"
#include "cli/commands/default_plan.h"
#include "cli/commands/elastic_launcher.h"
#include "cli/process/terminal.h"
#include "measure/whole_file.h"
#include "page/page.h"
#include "run/common/config.h"
#include "run/common/lead_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/ep_limits.h"

#define FIELD(member) OPTION_FIELD(struct elastic, member)

struct elastic {
  struct run_config config;
  enum cli_terminal_color color;
  bool launcher;                  // srun or mpirun has started this agent and the others
  bool disable_ll_nvlink, kineto; // accepted, without effect
};

static const char *const dtypes[] = {"bf16", "fp8", "fp8-pow2", "fp8-ue8m0", NULL}; // from WEFT_EP_BF16 on
static const char *const combine_dtypes[] = {"bf16", "logfmt10", NULL};             // from WEFT_EP_COMBINE_BF16 on
static const char *const layouts[] = {"per-expert", "rank-major", "packed", NULL};  // from WEFT_EP_PER_EXPERT on
static const char *const modes[] = {"latency", "throughput", NULL};                 // from WEFT_EP_LATENCY on
static const char *const memories[] = {
    [WEFT_EP_MEMORY_HOST] = "host", [WEFT_EP_MEMORY_CUDA] = "cuda", [WEFT_EP_MEMORY_AUTO] = "auto", NULL};
static const char *const negatives[] = {
    [RUN_NEGATIVE_KILL] = "kill", [RUN_NEGATIVE_LEAVE] = "leave", [RUN_NEGATIVE_LOST] = "lost", NULL};

static const char *const agents[] = {[RUN_AGENTS_FIXED] = "fixed", [RUN_AGENTS_ELASTIC] = "elastic", NULL};

// clang-format off
static const struct cli_option rows[] = {
  {.section = "Plan and agents", .name = "plan", .letter = 'p', .operand = true, .type = OPTION_PATH, .metavar = "PLAN",
   .preset_note = "4 ranks, then 8", FIELD(config.plan),
   .help = "file of the plan: a JSON list of phases; each phase is a list of ranks (see 'weft plan --help')"},
  {.name = "num-processes", .letter = 'n', .type = OPTION_UINT, .metavar = "N", .min = 1, .max = EP_MAX_CAPACITY,
   .preset_note = "the most ranks that the plan has live at once", FIELD(config.num_processes),
   .help = "number of rank processes that this agent can run"},
  {.name = "num-agents", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = EP_MAX_CAPACITY,
   .preset_note = "1; if the plan needs more slots than --num-processes, other agents may join at any time",
   FIELD(config.num_agents), .help = "number of agents, including the lead, for which the lead waits before it starts"},
  {.name = "agents", .type = OPTION_ENUM, .metavar = "HOW", .preset = "fixed", .choices = agents, FIELD(config.agents),
   .help = "what happens when another agent ends: the run ends (fixed), or the ranks of that agent are lost "
   "(elastic). With elastic, a phase that loses ranks is measured again without them; they come back in the next "
   "phase that names them, on an agent that replaces the lost one. Agents may join at any time, and SIGTERM makes an "
   "agent leave with exit status 0. When the lead ends, the run always ends"},
  {.name = "launcher", .type = OPTION_FLAG, FIELD(launcher),
   .help = "use this if srun or mpirun starts this command several times: the number of agents, which one leads (task "
   "0) and where the lead runs are taken from it. Each agent then has room for one rank, unless --num-processes gives "
   "more"},
  {.name = "job", .type = OPTION_STRING, .metavar = "NAME", .preset = "elastic", .variable = "WEFT_JOB",
   FIELD(config.job), .help = "name of the job in the store, by which the agents of the job find each other"},
  {.name = "negative", .type = OPTION_ENUM, .metavar = "HOW", .preset = "kill", .choices = negatives,
   FIELD(config.negative),
   .help = "what a negative rank of the plan does: dies in the middle of a dispatch; leaves cleanly; or keeps running "
   "until you make it fail (by cutting its network or killing its process): the phase waits for that"},

  {.section = "Store", .name = "store", .alias = "etcd-server", .type = OPTION_URL, .metavar = "URL",
   .variable = "WEFT_STORE", .preset_note = "an embedded one, for this run", FIELD(config.store),
   .help = "existing store, etcd or 'weft serve'; without a plan, join the job that runs on it"},
  {.name = "rank-server", .alias = "tcp-server", .type = OPTION_STRING, .metavar = "HOST[:PORT]",
   FIELD(config.lead),
   .help = "host of the lead agent: join its run, and run ranks that its plan adds. If --store is given too, which "
   "has to be at that host, the agent looks for the run in that store and in the lead's own store; the latter needs a "
   "token"},
  {.name = "listen", .type = OPTION_STRING, .metavar = "ADDRESS", .variable = "WEFT_LISTEN",
   .preset_note = "127.0.0.1; if the plan needs more slots than this agent has, 0.0.0.0, or :: without IPv4",
   FIELD(config.listen), .help = "numeric address of the embedded store"},
  {.name = "store-port", .type = OPTION_UINT, .metavar = "PORT", .min = 0, .max = 65535, .variable = "WEFT_STORE_PORT",
   .preset_note = "any free port; 9999 if other agents are expected", FIELD(config.store_port),
   .help = "port of the embedded store; also of the lead's store, if --rank-server names no port"},
  {.name = "token", .type = OPTION_STRING, .metavar = "TOKEN", .variable = "WEFT_TOKEN", .secret = true,
   .preset_note = "a random one for each run", FIELD(config.token),
   .help = "token of the embedded store, the same for all agents. Other users may see it for a moment in the process "
   "list: the variable or --token-file is better"},
  {.name = "token-file", .type = OPTION_SECRET_FILE, .metavar = "FILE", FIELD(config.token),
   .help = "file with the token in its first line, which no other user may read"},
  {.name = "ca", .type = OPTION_PATH, .metavar = "FILE", .variable = "WEFT_CA", .preset_note = "those of the system",
   FIELD(config.ca_file), .help = "certificates (PEM) of the CA that signed etcd's certificate"},
  {.name = "cert", .type = OPTION_PATH, .metavar = "FILE", .variable = "WEFT_CERT", FIELD(config.cert_file),
   .help = "client certificate (PEM) for etcd, together with --key"},
  {.name = "key", .type = OPTION_PATH, .metavar = "FILE", .variable = "WEFT_KEY", FIELD(config.key_file),
   .help = "key (PEM) of the client certificate"},
  {.name = "user", .type = OPTION_STRING, .metavar = "NAME", .variable = "WEFT_USER", FIELD(config.user),
   .help = "etcd user, together with --password"},
  {.name = "password", .type = OPTION_STRING, .metavar = "TEXT", .variable = "WEFT_PASSWORD", .secret = true,
   FIELD(config.password), .help = "password of the etcd user; the variable keeps it out of the process list"},

  {.section = "Sizes", .name = "mode", .type = OPTION_ENUM, .metavar = "MODE", .choices = modes,
   .first = WEFT_EP_LATENCY, .preset_note = "throughput for more than 1,024 tokens, or with --window or --processors; "
   "else latency", FIELD(config.mode),
   .help = "what the group is opened for: latency moves a few tokens as fast as possible; throughput moves many "
   "tokens, whose rows flow in pieces through windows of a limited size. A run for throughput also checks, in turn in "
   "each phase, every layout, kept routes, biases, and weights that combines send back"},
  {.name = "num-tokens", .type = OPTION_UINT, .metavar = "N", .min = 0,
   .max = EP_MAX_TOKENS_THROUGHPUT, .unit = "tokens", .preset = "128", FIELD(config.num_tokens),
   .help = "tokens of each rank in an operation; with latency at most 1,024"},
  {.name = "num-experts-per-rank", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = EP_MAX_EXPERTS,
   .unit = "experts", .preset = "2", FIELD(config.experts_per_rank), .help = "experts that each rank owns"},
  {.name = "hidden-dim", .type = OPTION_UINT, .metavar = "N", .min = WEFT_EP_BLOCK, .max = EP_MAX_HIDDEN,
   .step = WEFT_EP_BLOCK, .preset = "7168", FIELD(config.hidden), .help = "values of a token"},
  {.name = "num-topk", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = EP_MAX_TOPK, .preset = "8",
   FIELD(config.topk), .help = "experts that a token selects"},
  {.name = "dtype", .type = OPTION_ENUM, .metavar = "TYPE", .choices = dtypes, .first = WEFT_EP_BF16,
   .preset = "bf16", FIELD(config.dtype),
   .help = "type of the rows in a dispatch: bf16, fp8 (e4m3, a scale per 128 values), or fp8 with power-of-two "
   "scales, as floats or as bytes (ue8m0)"},
  {.name = "combine-dtype", .type = OPTION_ENUM, .metavar = "TYPE", .choices = combine_dtypes,
   .first = WEFT_EP_COMBINE_BF16, .preset = "bf16", FIELD(config.combine_dtype),
   .help = "type of the rows in a combine: bf16, or logfmt10 (10 bits a value)"},
  {.name = "layout", .type = OPTION_ENUM, .metavar = "NAME", .choices = layouts,
   .first = WEFT_EP_PER_EXPERT, .preset = "per-expert", FIELD(config.layout),
   .help = "how received tokens are laid out: one row for each expert that a token selects, with free room between "
   "the parts of the experts (per-expert) or without (packed); or one row for each rank (rank-major)"},
  {.name = "alignment", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 256, .unit = "rows",
   .preset_note = "1", FIELD(config.alignment), .help = "the packed part of each expert begins at a multiple of this "
   "number"},
  {.name = "window", .type = OPTION_UINT, .metavar = "N", .min = 4096, .max = UINT32_MAX, .unit = "bytes",
   .preset_note = "64 MiB", FIELD(config.window_bytes),
   .help = "throughput: limit on the memory of a rank through which the rows of one peer flow"},
  {.name = "processors", .type = OPTION_UINT, .metavar = "N", .min = EP_MIN_PROCESSORS, .max = 1024,
   .preset_note = "the library chooses", FIELD(config.processors),
   .help = "throughput on GPUs: largest number of streaming multiprocessors that a kernel may use"},

  {.section = "Memory", .name = "memory", .type = OPTION_ENUM, .metavar = "WHERE", .choices = memories,
   .preset = "host", .variable = "WEFT_MEMORY", FIELD(config.memory),
   .help = "where operations run: host: in host memory; cuda: in GPU memory, by CUDA kernels over NVLink or PCIe, with "
   "a GPU for each rank; auto: on GPUs if each rank of this agent can have its own, else in host memory. The lead "
   "decides for all agents; CUDA_VISIBLE_DEVICES limits which GPUs an agent may use"},
  {.name = "share-gpus", .type = OPTION_FLAG, .variable = "WEFT_SHARE_GPUS", FIELD(config.share_gpus),
   .help = "let several ranks of this agent share a GPU if there are fewer GPUs than ranks: for tests only, because "
   "their processes share its time and every wait for a peer is slow"},

  {.section = "Operations and time limits", .name = "iterations", .type = OPTION_UINT, .metavar = "N", .min = 1,
   .max = 1000000, .preset = "20", FIELD(config.iterations), .help = "timed operations of each phase"},
  {.name = "operations-per-step", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 1000000, .preset = "1",
   FIELD(config.operations_per_step), .help = "ranks join and leave only with operations whose number is a multiple of "
   "this, as in a model that runs so many operations a step"},
  {.name = "warmup", .type = OPTION_UINT, .metavar = "N", .min = 0, .max = 1000000, .preset = "3",
   FIELD(config.warmup), .help = "untimed operations before them"},
  {.name = "seed", .type = OPTION_UINT, .metavar = "N", .preset = "1", FIELD(config.seed),
   .help = "seed of all data: the same seed gives the same numbers"},
  {.name = "validate-phase-failures", .type = OPTION_FLAG, FIELD(config.validate_phase_failures),
   .help = "also check every operation between a planned loss and the view without the lost rank"},
  {.name = "digests", .type = OPTION_FLAG, FIELD(config.digests),
   .help = "write to events.jsonl a digest of what each rank received in each complete operation: runs with the same "
   "seed, operation number and ranks give the same digest, on any hosts"},
  {.name = "timeout-ms", .type = OPTION_UINT, .metavar = "N", .min = 10, .max = 600000, .unit = "ms",
   .preset = "5000", .variable = "WEFT_TIMEOUT_MS", FIELD(config.timeout_ms),
   .help = "a peer that is silent for this long in an operation counts as lost"},
  {.name = "startup-timeout", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 86400, .unit = "s",
   .preset = "60", .variable = "WEFT_STARTUP_TIMEOUT", FIELD(config.startup_timeout_s),
   .help = "time within which a launched rank, or an expected agent, must have joined"},

  {.section = "Output", .name = "run-dir", .type = OPTION_PATH, .metavar = "DIR", .variable = "WEFT_RUN_DIR",
   .preset_note = "weft-run/ and the time", FIELD(config.run_dir),
   .help = "directory for configuration, events, results and logs; 'weft report DIR' prints the report again"},
  {.name = "metrics", .type = OPTION_STRING, .metavar = "HOST:PORT", FIELD(config.metrics),
   .help = "serve counters of this agent and its ranks as OpenMetrics at http://HOST:PORT/metrics during the run; an "
   "address that is not loopback needs a token"},
  {.name = "metrics-bearer-file", .type = OPTION_PATH, .metavar = "FILE", FIELD(config.metrics_bearer_file),
   .help = "write the bearer token with which clients read these counters (Authorization: Bearer) to this new file, "
   "which only its owner can read; the file is removed when the run ends"},
  {.name = "json", .type = OPTION_FLAG, FIELD(config.json),
   .help = "print the results as JSON instead of the report; an agent that is not the lead prints how it ended"},
  {.name = "html", .type = OPTION_PATH, .metavar = "FILE", FIELD(config.html),
   .help = "write a page with pictures to this file when the run ends; it opens in a browser without a network. Only "
   "the lead has the results ('weft report DIR --html FILE' makes the same page later)"},
  {.name = "prometheus", .type = OPTION_PATH, .metavar = "FILE", FIELD(config.prometheus),
   .help = "write the figures to this file when the run ends, for the textfile collector of a node exporter"},
  {.name = "quiet", .letter = 'q', .type = OPTION_FLAG, FIELD(config.quiet),
   .help = "show no progress and no lines of ranks, only the report; an agent that is not the lead then reports its "
   "end only by its exit status"},
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto",
   FIELD(color), .help = "colours in the report"},

  {.section = "Without effect", .name = "disable-ll-nvlink", .type = OPTION_FLAG, FIELD(disable_ll_nvlink),
   .help = "accepted without effect, so that commands of other tools run: WEFT_EP_TRANSPORT chooses the transport "
   "between hosts"},
  {.name = "kineto", .type = OPTION_FLAG, FIELD(kineto),
   .help = "accepted without effect: operations are always timed, and a profiler shows a range for each"},
};
// clang-format on

_Static_assert(sizeof rows / sizeof rows[0] <= RUN_MAX_GIVEN, "each option may be given");

static const struct cli_example examples[] = {
    {"weft elastic", "the default plan, 4 ranks and then 8, on this host with an embedded store"},
    {"weft elastic plans/expansion_fault_rejoin.json --dtype fp8",
     "a rank is killed in the middle of a dispatch, and comes back; dispatch in fp8"},
    {"weft elastic PLAN --num-processes 4 --num-agents 2 --listen 10.0.0.1",
     "the lead of two agents: it has room for 4 ranks, waits for the other agent, and prints the command that starts "
     "it"},
    {"WEFT_TOKEN=SECRET weft elastic --rank-server 10.0.0.1 --num-processes 4",
     "the other agent, on this or another machine, with room for 4 more ranks"},
    {"weft elastic PLAN --num-processes 4",
     "if the plan needs more than 4 slots: the run begins, and waits for other agents when a phase needs them"},
    {"srun --ntasks-per-node 8 weft elastic PLAN --launcher",
     "in a Slurm job, with one agent for each GPU; WEFT_TOKEN has to be set"},
    {"weft elastic PLAN --store http://etcd-0:2379,http://etcd-1:2379 --run-dir results/today",
     "with an existing etcd, and a run directory of your choice"},
    {NULL, NULL},
};

// A lead's host on the command line has precedence over a store on another host in the environment.
static void compare_with_environment(struct run_config *config, const char *lead) {
  if (!config->lead || !config->store || config->store != getenv("WEFT_STORE") ||
      run_lead_has_store(config->lead, config->store))
    return;
  if (!config->quiet)
    fprintf(
        stderr,
        "weft elastic: WEFT_STORE %s is ignored: it is not at the host of --%s %s; unset it, or give --store instead "
        "of --%s\n",
        config->store, lead, config->lead, lead);
  config->store = NULL;
}

// Chooses the mode if none was given, and refuses options that do not go with it.
static int settle_mode(struct run_config *config) {
  bool many = config->num_tokens > EP_MAX_TOKENS || config->window_bytes || config->processors;
  if (!config->mode)
    config->mode = many ? WEFT_EP_THROUGHPUT : WEFT_EP_LATENCY;
  if (config->mode == WEFT_EP_LATENCY && config->num_tokens > EP_MAX_TOKENS)
    return fail(WEFT_ERR_INVALID,
                "--num-tokens %u is more than the %d that --mode latency allows: want --mode throughput",
                config->num_tokens, EP_MAX_TOKENS);
  if (config->mode == WEFT_EP_LATENCY && (config->window_bytes || config->processors))
    return fail(WEFT_ERR_INVALID, "--%s is given for --mode latency: it belongs to --mode throughput",
                config->window_bytes ? "window" : "processors");
  bool follows = config->lead || (config->store && !config->plan); // then the lead decides where operations run
  if (config->processors && config->memory == WEFT_EP_MEMORY_HOST && !follows)
    return fail(WEFT_ERR_INVALID, "--processors is given for --memory host: it limits kernels on GPUs");
  if (config->mode == WEFT_EP_LATENCY && config->alignment && config->layout != WEFT_EP_PACKED)
    return fail(WEFT_ERR_INVALID, "--alignment is given without --layout packed, whose parts it aligns");
  return 0;
}

// Refuses a lead whose URL no store could have, by the option's name: the store's client knows only the URL.
static int check_lead(const char *host, const char *lead) {
  static const struct cli_option url_row = {.type = OPTION_URL};
  char *url = host ? run_lead_url(host, 1) : NULL;
  int err = url ? cli_option_check(&url_row, url) : 0;
  free(url);
  return err ? fail(WEFT_ERR_INVALID, "--%s: \"%s\" is not HOST or HOST:PORT", lead, host) : 0;
}

// Checks combinations of options. `lead` is the user's name of --rank-server.
static int check_together(const struct run_config *config, const char *lead) {
  if (!config->cert_file != !config->key_file)
    return fail(WEFT_ERR_INVALID, "--%s is given without --%s: a client certificate and its key go together",
                config->cert_file ? "cert" : "key", config->cert_file ? "key" : "cert");
  if (!config->user != !config->password)
    return fail(WEFT_ERR_INVALID, "--%s is given without --%s: etcd wants both", config->user ? "user" : "password",
                config->user ? "password" : "user");
  if (config->metrics_bearer_file && !config->metrics)
    return fail(WEFT_ERR_INVALID, "--metrics-bearer-file is given without --metrics HOST:PORT");
  if (config->user && !config->store)
    return fail(WEFT_ERR_INVALID,
                "--user is given without --store: only etcd has users; want --store URL, or a --token "
                "for the embedded store");
  if (config->store && config->lead && !run_lead_has_store(config->lead, config->store))
    return fail(WEFT_ERR_INVALID,
                "--store %s is not at the host of --%s %s: want one of them, or a store at the lead's host",
                config->store, lead, config->lead);
  if (config->lead && !config->store && !config->token)
    return fail(WEFT_ERR_INVALID,
                "--%s is given without a token: want the token of the lead, in WEFT_TOKEN or by --token-file; a lead "
                "that made its own token shows it on its terminal",
                lead);
  return 0;
}

// Checks at the beginning whether the files can be written at the end.
static int check_files(const struct run_config *config) {
  if ((config->html || config->prometheus) && !config->plan && (config->lead || config->store))
    return fail(
        WEFT_ERR_INVALID,
        "--%s is given without a plan: only the lead has the plan and the results, so give this option to the lead",
        config->html ? "html" : "prometheus");
  int err = whole_file_check_input("html", config->html, config->plan);
  if (!err)
    err = whole_file_check_input("prometheus", config->prometheus, config->plan);
  return err ? err : page_check_files(config->html, config->prometheus);
}

static void say_without_effect(const struct elastic *elastic) {
  if (elastic->config.quiet)
    return;
  if (elastic->disable_ll_nvlink)
    fputs("weft elastic: --disable-ll-nvlink has no effect here; WEFT_EP_TRANSPORT chooses the way between hosts\n",
          stderr);
  if (elastic->kineto)
    fputs("weft elastic: --kineto has no effect here; operations are always timed\n", stderr);
}

static int run(const struct cli_call *call) {
  struct elastic elastic = {0};
  int status = 0;
  bool given[sizeof rows / sizeof rows[0]] = {false};
  if (!cli_command_options_given(call, &elastic, given, &status))
    return status;
  struct run_config *config = &elastic.config;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (given[i])
      config->given[config->num_given++] =
          (struct run_given){rows[i].name, rows[i].offset - offsetof(struct elastic, config)};
  const char *near, *lead = cli_options_spelling(cli_options_find(call->command->options, "rank-server", &near),
                                                 call->argc, call->argv);
  compare_with_environment(config, lead);
  struct elastic_launcher launched = {0};
  int err = elastic.launcher ? elastic_take_launcher(config, &launched) : 0;
  if (!err)
    err = settle_mode(config);
  if (!err)
    err = check_lead(config->lead, lead);
  if (!err)
    err = check_together(config, lead);
  if (!err)
    err = check_files(config);
  if (err)
    return cli_command_failed(call, err);
  say_without_effect(&elastic);
  if (!config->plan && !config->store && !config->lead)
    config->plan_text = CLI_DEFAULT_PLAN;
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, elastic.color);
  config->color = terminal.color;
  config->unicode = terminal.unicode;
  config->width = terminal.width;
  char error[1024];
  status = run_elastic(config, error, sizeof error);
  if (error[0])
    cli_command_print_error(call, error);
  return status;
}

const struct cli_command cli_elastic = {
    .name = "elastic",
    .summary = "run an elastic plan, and check every number",
    .description =
        "Runs a plan of phases: ranks join, leave and are killed while expert-parallel operations go on, and every "
        "rank checks every number. The first agent leads: it has the plan and, unless another store is given, the "
        "store. Without --plan, --store and --rank-server it runs the default plan: 4 ranks, then 8.\n"
        "Prints a report; the run directory holds the data of the report. Exit status 0 means that every phase passed "
        "on every rank.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
