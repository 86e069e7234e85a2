// weft p2p: checks and measures transfers between two processes.
#include "p2p/p2p.h"
#include "base/fail.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"
#include "secure/secret.h"

#include <stdio.h>
#include <unistd.h>

#define FIELD(member) OPTION_FIELD(struct p2p, member)

struct p2p {
  struct p2p_config config;
  enum cli_terminal_color color;
};

// clang-format off
static const struct cli_option rows[] = {
  {.section = "Sides", .name = "mode", .letter = 'm', .type = OPTION_ENUM, .metavar = "MODE", .choices = p2p_mode_names,
   .preset = "local", FIELD(config.mode),
   .help = "target: offers a buffer and waits for an initiator; initiator: connects to a target and measures; "
   "local: both, in two processes of this host"},
  {.name = "ip", .alias = "host", .type = OPTION_STRING, .metavar = "HOST", .preset = "127.0.0.1", FIELD(config.host),
   .help = "host of the target, for an initiator"},
  {.name = "port", .type = OPTION_UINT, .metavar = "PORT", .min = 0, .max = 65535, .preset = "5555",
   FIELD(config.port), .help = "port of the target; a target takes any free one for 0"},
  {.name = "listen", .type = OPTION_STRING, .metavar = "ADDRESS", .preset = "0.0.0.0", FIELD(config.listen),
   .help = "numeric address at which a target listens"},
  {.name = "token", .type = OPTION_STRING, .metavar = "TOKEN", .variable = "WEFT_TOKEN", .secret = true,
   FIELD(config.token), .preset_note = "a target makes one and prints it", .help = "what both sides must know; the "
   "variable keeps it out of the process list"},
  {.name = "token-file", .type = OPTION_SECRET_FILE, .metavar = "FILE", FIELD(config.token),
   .help = "file with the token in its first line, which no other user may read"},
  {.name = "forever", .type = OPTION_FLAG, FIELD(config.forever),
   .help = "a target serves one initiator after the other, until it is stopped"},
  {.name = "lend", .type = OPTION_STRING, .metavar = "SIZE", .preset = "1GB", FIELD(config.lend),
   .help = "bytes of the largest buffer that a target offers, whatever the initiator asks for"},

  {.section = "Measurements", .name = "op", .type = OPTION_ENUM, .metavar = "OP", .choices = p2p_op_names,
   .preset = "all", FIELD(config.op),
   .help = "write to the target's buffer, read from it, exchange notifications, or all of it"},
  {.name = "buffer-sizes", .alias = "buffer_sizes", .letter = 's', .type = OPTION_STRING, .metavar = "SIZES",
   .preset = "8,4KB,64KB,1MB,16MB", FIELD(config.sizes),
   .help = "bytes of a transfer, several with commas between them; KB, MB and GB are powers of 1024"},
  {.name = "iterations", .letter = 'n', .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 100000000,
   .preset = "100", FIELD(config.iterations), .help = "timed transfers of each size and operation"},
  {.name = "warmup", .type = OPTION_UINT, .metavar = "N", .max = 100000000, .preset = "10", FIELD(config.warmup),
   .help = "untimed ones before them"},
  {.name = "depth", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 256, .preset = "16", FIELD(config.depth),
   .help = "transfers under way at once when bandwidth is measured, as far as a buffer of 256 MB has room"},
  {.name = "bidirectional", .type = OPTION_FLAG, FIELD(config.bidirectional),
   .help = "bandwidth with both sides loading each other at the same time"},
  {.name = "no-check", .type = OPTION_FLAG, FIELD(config.no_check),
   .help = "do not check the bytes, each of which depends on its place"},

  {.section = "Memory and transport", .name = "memory", .type = OPTION_ENUM, .metavar = "KIND",
   .choices = p2p_memory_names, .preset = "host", FIELD(config.memory),
   .help = "of this side's buffer: host memory that peers map, host memory of the user's own (malloc), or cuda"},
  {.name = "cuda", .type = OPTION_FLAG, FIELD(config.cuda), .help = "the same as --memory cuda"},
  {.name = "gpu-id", .alias = "gpu_id", .type = OPTION_UINT, .metavar = "N", .max = 63, .preset = "0",
   FIELD(config.gpu), .help = "GPU of the buffer"},
  {.name = "transport", .type = OPTION_STRING, .metavar = "NAME", .preset_note = "the cheapest that can",
   .variable = "WEFT_TRANSPORTS", FIELD(config.transport),
   .help = "shm, cuda, ucx or ofi ('weft info' shows which work here); of several, with commas between them, the "
   "cheapest"},

  {.section = "Time limit and output", .name = "timeout-ms", .type = OPTION_UINT, .metavar = "N", .min = 10,
   .max = 600000, .unit = "ms", .preset = "30000", .variable = "WEFT_TIMEOUT_MS", FIELD(config.timeout_ms),
   .help = "a transfer, or an answer of the peer, must have come after so long"},
  {.name = "json", .type = OPTION_FLAG, FIELD(config.json), .help = "print the results as JSON"},
  {.name = "quiet", .letter = 'q', .type = OPTION_FLAG, FIELD(config.quiet), .help = "show no progress"},
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto",
   FIELD(color), .help = "colours in the report"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft p2p", "writes, reads and notifications between two processes of this host"},
    {"weft p2p --mode target --port 5555", "on one machine: offers a buffer, and prints the command for the other"},
    {"WEFT_TOKEN=SECRET weft p2p --mode initiator --ip 10.0.0.1 --port 5555 --buffer_sizes 1MB,16MB,256MB",
     "on the other: connects and measures"},
    {"weft p2p --cuda --op write --bidirectional --json", "GPU memory, both ways at once, for a program to read"},
    {NULL, NULL},
};

static int run(const struct cli_call *call) {
  struct p2p p2p = {0};
  int status = 0;
  if (!cli_command_options(call, &p2p, &status))
    return status;
  struct p2p_config *config = &p2p.config;
  if (config->cuda)
    config->memory = P2P_MEMORY_CUDA;
  char made[SECRET_DIGITS + 1];
  if (!config->token && config->mode == P2P_INITIATOR)
    return cli_command_failed(call, fail(WEFT_ERR_INVALID, "an initiator wants the token of its target, which prints "
                                                           "it: set WEFT_TOKEN, or give --token"));
  if (!config->token && config->mode == P2P_TARGET) {
    secret_make(made);
    config->token = made;
    config->tell_token = true;
  }
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, p2p.color);
  config->color = terminal.color;
  config->unicode = terminal.unicode;
  int err = p2p_run(config);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_p2p = {
    .name = "p2p",
    .summary = "measure transfers between two processes",
    .description =
        "Measures one-sided writes and reads and notifications between two processes, of one host or of two: latency "
        "one after the other, bandwidth with several under way. Every byte is checked, as each depends on its place. "
        "The initiator chooses the size of the target's buffer and the sizes that are measured; each side "
        "chooses its own kind of memory.\n"
        "Exit status 4 means wrong data, 5 that the peer was lost, 124 that a deadline passed.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
