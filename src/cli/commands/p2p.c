// weft p2p: checks and measures transfers between two processes.
#include "p2p/p2p.h"
#include "base/fail.h"
#include "base/signal/stop.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"
#include "run/common/own_address.h"
#include "secure/secret.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIELD(member) OPTION_FIELD(struct p2p, member)

struct p2p {
  struct p2p_config config;
  bool cuda, json, csv; // short forms
  enum cli_terminal_color color;
};

// clang-format off
static const struct cli_option rows[] = {
  {.section = "Sides", .name = "mode", .letter = 'm', .type = OPTION_ENUM, .metavar = "MODE", .choices = p2p_mode_names,
   .preset = "local", FIELD(config.mode),
   .help = "target: offers a buffer and waits for an initiator; initiator: connects to a target and measures; "
   "local: both, in two processes of this host"},
  {.name = "ip", .alias = "host", .type = OPTION_STRING, .metavar = "HOST",
   .preset_note = "127.0.0.1 for an initiator, 0.0.0.0 for a target, or :: without IPv4", FIELD(config.host),
   .help = "host or address of the target: an initiator connects to it, and a target listens at it"},
  {.name = "port", .type = OPTION_UINT, .metavar = "PORT", .min = 0, .max = 65535, .preset = "5555",
   FIELD(config.port), .help = "port of the target; with 0 a target listens at any free port"},
  {.name = "listen", .type = OPTION_STRING, .metavar = "ADDRESS", .preset_note = "that of --ip", FIELD(config.listen),
   .help = "address at which a target listens, if it differs from --ip"},
  {.name = "token", .type = OPTION_STRING, .metavar = "TOKEN", .variable = "WEFT_TOKEN", .secret = true,
   FIELD(config.token), .preset_note = "a target makes a token and prints it", .help = "secret that both sides share; "
   "the variable keeps it out of the process list"},
  {.name = "token-file", .type = OPTION_SECRET_FILE, .metavar = "FILE", FIELD(config.token),
   .help = "file with the token in its first line, which no other user may read"},
  {.name = "forever", .type = OPTION_FLAG, FIELD(config.forever),
   .help = "a target serves one initiator after the other, until it is stopped. Without this option a target ends "
   "after the first initiator and those that connected meanwhile, or if no initiator connects within --timeout-ms"},
  {.name = "initiators", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 65535, .preset = "1",
   FIELD(config.initiators), .help = "a target serves this number of initiators, one after the other, and waits "
   "--timeout-ms for each"},
  {.name = "lend", .type = OPTION_STRING, .metavar = "SIZE", .preset = "1GB", FIELD(config.lend),
   .help = "bytes of the largest buffer that a target offers, even if the initiator requests more"},

  {.section = "Measurements", .name = "op", .type = OPTION_ENUM, .metavar = "OP", .choices = p2p_op_names,
   .preset = "all", FIELD(config.op),
   .help = "write to the target's buffer, read from it, exchange notifications, or do all three"},
  {.name = "buffer-sizes", .alias = "buffer_sizes", .letter = 's', .type = OPTION_STRING, .metavar = "SIZES",
   .preset = "8,4KB,64KB,1MB,16MB", FIELD(config.sizes),
   .help = "bytes of a transfer, or several sizes separated by commas; KB, MB and GB are powers of 1024"},
  {.name = "iterations", .letter = 'n', .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 100000000,
   .preset = "100", FIELD(config.iterations), .help = "timed transfers of each size and operation"},
  {.name = "warmup", .type = OPTION_UINT, .metavar = "N", .max = 100000000, .preset = "10", FIELD(config.warmup),
   .help = "untimed transfers before them"},
  {.name = "depth", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 256, .preset = "16", FIELD(config.depth),
   .help = "transfers in flight at once when rates are measured; fewer if a buffer of 256 MB has no room for them"},
  {.name = "bidirectional", .type = OPTION_FLAG, FIELD(config.bidirectional),
   .help = "also measure the bandwidth while both sides transfer at the same time"},
  {.name = "no-check", .type = OPTION_FLAG, FIELD(config.no_check),
   .help = "do not check the bytes (the value of each depends on its place)"},

  {.section = "Memory and transport", .name = "memory", .type = OPTION_ENUM, .metavar = "KIND",
   .choices = p2p_memory_names, .preset = "host", FIELD(config.memory),
   .help = "memory of this side's buffer: host memory that peers map (host), host memory from malloc (user), or GPU "
   "memory (cuda). file and object: storage, which is measured against host memory of this process, without another "
   "side"},
  {.name = "cuda", .type = OPTION_FLAG, FIELD(cuda), .help = "the same as --memory cuda"},
  {.name = "gpu-id", .alias = "gpu_id", .type = OPTION_UINT, .metavar = "N", .max = 63, .preset = "0",
   FIELD(config.gpu), .help = "GPU of the buffer"},
  {.name = "target-gpu-id", .type = OPTION_UINT, .metavar = "N", .max = 63,
   .preset_note = "a GPU other than --gpu-id, if one can reach that", FIELD(config.target_gpu),
   .help = "GPU of the target's buffer in local mode"},
  {.name = "path", .type = OPTION_STRING, .metavar = "PATH", FIELD(config.path),
   .help = "FILE, which is created, and removed at the end; or BUCKET/KEY of an S3 store, which the variables of S3 "
   "clients name (AWS_ENDPOINT_URL and others): objects KEY, KEY.1, ..., one for each transfer in flight, which are "
   "not removed"},
  {.name = "overwrite", .type = OPTION_FLAG, FIELD(config.overwrite),
   .help = "write to the file or the objects even if they exist already; the file is then not removed"},
  {.name = "transport", .type = OPTION_STRING, .metavar = "NAME", .preset_note = "the cheapest that works",
   .variable = "WEFT_TRANSPORTS", FIELD(config.transport),
   .help = "shm, cuda, ucx or ofi ('weft info' shows which work here); if several are given, separated by commas, the "
   "cheapest of them is used. file or object for storage"},

  {.section = "Time limit and output", .name = "timeout-ms", .type = OPTION_UINT, .metavar = "N", .min = 10,
   .max = 600000, .unit = "ms", .preset = "30000", .variable = "WEFT_TIMEOUT_MS", FIELD(config.timeout_ms),
   .help = "time within which a transfer must end, the peer must answer, or an initiator must connect to a waiting "
   "target"},
  {.name = "startup-timeout", .type = OPTION_UINT, .metavar = "N", .min = 0, .max = 86400, .unit = "s", .preset = "0",
   FIELD(config.startup_timeout_s),
   .help = "how long an initiator tries to reach a target that does not listen yet; 0: it tries once"},
  {.name = "json", .type = OPTION_FLAG, FIELD(json), .help = "print the results as JSON, at the end"},
  {.name = "csv", .type = OPTION_FLAG, FIELD(csv), .help = "print the results as CSV, each row as soon as it is "
   "measured"},
  {.name = "html", .type = OPTION_PATH, .metavar = "FILE", FIELD(config.html),
   .help = "also write a page with pictures to this file at the end; it opens in a browser without a network"},
  {.name = "prometheus", .type = OPTION_PATH, .metavar = "FILE", FIELD(config.prometheus),
   .help = "also write the figures to this file at the end, for the textfile collector of a node exporter"},
  {.name = "quiet", .letter = 'q', .type = OPTION_FLAG, FIELD(config.quiet), .help = "show no progress"},
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto",
   FIELD(color), .help = "colours in the report"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft p2p", "writes, reads and notifications between two processes of this host"},
    {"weft p2p --mode target --port 5555",
     "on one machine: offers a buffer, and prints the command for the other machine"},
    {"WEFT_TOKEN=SECRET weft p2p --mode initiator --ip 10.0.0.1 --port 5555 --buffer_sizes 1MB,16MB,256MB",
     "on the other machine: connects and measures"},
    {"weft p2p --cuda --op write --bidirectional --json", "GPU memory, in both directions at once, with JSON output"},
    {"weft p2p --memory file --path /mnt/nvme/trial -s 4KB,1MB --depth 32", "writes a file, and reads it back"},
    {"weft p2p --memory object --path bucket/trial -s 8MB --csv > s3.csv", "the same with objects, as CSV"},
    {"weft p2p -s 4KB,64KB,1MB,16MB --html p2p.html", "also writes a page: latency and bandwidth against size"},
    {NULL, NULL},
};

static bool is_given(const bool *given, const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, name) == 0)
      return given[i];
  return false;
}

// Applies the short forms to the options that they stand for.
static int settle_forms(struct p2p *p2p, const bool *given) {
  struct p2p_config *config = &p2p->config;
  if (p2p->json && p2p->csv)
    return fail(WEFT_ERR_INVALID, "--json and --csv contradict each other: want one of them");
  config->format = p2p->json ? P2P_JSON : p2p->csv ? P2P_CSV : P2P_TEXT;
  if (p2p->cuda && is_given(given, "memory") && config->memory != P2P_MEMORY_CUDA)
    return fail(WEFT_ERR_INVALID, "--cuda and --memory %s contradict each other: want one of them",
                p2p_memory_names[config->memory]);
  if (p2p->cuda)
    config->memory = P2P_MEMORY_CUDA;
  if (is_given(given, "gpu-id") && config->memory != P2P_MEMORY_CUDA)
    return fail(WEFT_ERR_INVALID, "--gpu-id is given, but --memory is %s: want --cuda",
                p2p_memory_names[config->memory]);
  if (!is_given(given, "target-gpu-id"))
    config->target_gpu = P2P_GPU_OTHER;
  config->one_gpu = is_given(given, config->mode == P2P_LOCAL ? "target-gpu-id" : "gpu-id");
  return 0;
}

// Refuses options of a side that does not run in this process: `weft p2p --ip HOST` would measure this host alone.
static int check_sides(const struct p2p_config *config, const bool *given) {
  static const struct {
    const char *name;
    bool initiator; // an initiator has the option, too
  } options[] = {{"ip", true},       {"port", true},        {"listen", false},
                 {"forever", false}, {"initiators", false}, {"lend", false}};
  if (config->mode == P2P_TARGET)
    return 0;
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const char *name = options[i].name;
    if (!is_given(given, name) || (config->mode == P2P_INITIATOR && options[i].initiator))
      continue;
    if (config->mode == P2P_INITIATOR)
      return fail(WEFT_ERR_INVALID, "--%s is given, but only a target has it: give it with --mode target", name);
    if (p2p_is_storage(config->memory))
      return fail(WEFT_ERR_INVALID, "--%s is given, but --memory %s has no other side", name,
                  p2p_memory_names[config->memory]);
    return fail(WEFT_ERR_INVALID, "--%s is given, but both sides run in this command: want --mode target%s", name,
                options[i].initiator ? " or --mode initiator" : "");
  }
  return 0;
}

// A wrong token is an error also where none is used, as it would be one as soon as the other side runs elsewhere.
static int check_token(const struct p2p_config *config) {
  return !config->token || strlen(config->token) <= SECRET_MAX
             ? 0
             : fail(WEFT_ERR_INVALID, "--token: has %zu bytes; want 1 to %d", strlen(config->token), SECRET_MAX);
}

// Sets where the two sides meet. `made` gets the token that a target makes itself.
static int settle_sides(struct p2p_config *config, char *made) {
  if (config->mode == P2P_TARGET && config->host && config->listen && strcmp(config->host, config->listen) != 0)
    return fail(WEFT_ERR_INVALID, "--ip %s and --listen %s both name where the target listens: want one of them",
                config->host, config->listen);
  if (!config->listen)
    config->listen = config->host ? config->host : run_any_address();
  if (!config->host)
    config->host = "127.0.0.1";
  if (!config->token && config->mode == P2P_INITIATOR)
    return fail(WEFT_ERR_INVALID,
                "an initiator needs the token that its target prints: set WEFT_TOKEN, or give --token");
  if (!config->token && config->mode == P2P_TARGET) {
    secret_make(made);
    config->token = made;
    config->print_token = true;
    return secret_check_shown(STDOUT_FILENO, "standard output", "a token given (WEFT_TOKEN or --token-file)");
  }
  return 0;
}

static int run(const struct cli_call *call) {
  struct p2p p2p = {0};
  bool given[sizeof rows / sizeof *rows] = {false};
  char made[SECRET_DIGITS + 1];
  int status = 0;
  if (!cli_command_options_given(call, &p2p, given, &status))
    return status;
  struct p2p_config *config = &p2p.config;
  int err = settle_forms(&p2p, given);
  if (!err)
    err = check_sides(config, given);
  if (!err)
    err = check_token(config);
  if (!err)
    err = settle_sides(config, made);
  if (err)
    return cli_command_failed(call, err);
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, p2p.color);
  config->color = terminal.color;
  config->unicode = terminal.unicode;
  err = p2p_run(config);
  if (stop_came()) { // whatever the signal interrupted
    cli_command_failed(call, stop_check());
    return 128 + stop_came();
  }
  if (err == P2P_REFUSED) {
    fprintf(stderr, "weft p2p: some rates were refused because they cannot be true; the report says which, and why%s\n",
            config->memory == P2P_MEMORY_CUDA ? " (to measure copies within one GPU, name it by --target-gpu-id)" : "");
    return 1;
  }
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_p2p = {
    .name = "p2p",
    .summary = "measure transfers between two processes, or with storage",
    .description =
        "Measures one-sided writes and reads and notifications between two processes on one host or on two. Latency is "
        "measured with one transfer at a time (for a notification it is half of the round trip), rates with several in "
        "flight. With --memory file or object, one process measures storage instead. Every byte is checked: its value "
        "depends on its place. The initiator chooses the size of the target's buffer and the measured sizes; each side "
        "chooses its own kind of memory.\n"
        "Each row of the report appears as soon as it is measured, also if the run is interrupted later. An initiator "
        "that connects while the target serves another one says so, and waits for its turn.\n"
        "Each rate is also given in percent of its bound, which is what the hardware allows ('weft bench limits' "
        "measures it). A rate above its bound cannot be true, and is refused. So is a rate between two buffers on one "
        "GPU, unless --target-gpu-id asked for it.\n"
        "Exit status 1 means refused rates, 4 means wrong data, 5 that the peer was lost, 124 that a deadline passed, "
        "130 Ctrl-C.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
