// weft info: describes this tool, its abilities on this host, and the options that the environment sets.
#include "base/fail.h"
#include "cli/commands/commands.h"
#include "cli/info/facts.h"
#include "cli/info/text.h"
#include "cli/process/terminal.h"
#include "topology/describe/describe.h"

#include <stdio.h>
#include <unistd.h>
#include <weft/weft.h>

struct options {
  bool topology;
  bool json;
  enum cli_terminal_color color;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

// clang-format off
static const struct cli_option rows[] = {
  {.name = "topology", .letter = 't', .type = OPTION_FLAG, FIELD(topology),
   .help = "also show caches, NUMA nodes, devices, network interfaces, and which NICs serve which GPU and why (JSON "
   "always has these)"},
  {.name = "json", .type = OPTION_FLAG, FIELD(json), .help = "print JSON"},
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto",
   FIELD(color), .help = "colours in the text"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft info", "version, build, transports, GPUs, limits, and every option with its present value"},
    {"weft info --topology",
     "also the devices: how far each NIC is from each GPU, which NICs serve which GPU, and why"},
    {"weft info --json | jq '.options[] | select(.source == \"environment\")'",
     "the options that the environment sets"},
    {NULL, NULL},
};

static json_t *gather(const struct cli_command *const *commands) {
  json_t *libraries = cli_info_libraries(); // first, since it forks, which is safest without other threads
  return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version", weft_version(), "build",
                   cli_info_build(), "libraries", libraries, "transports", cli_info_transports(), "gpus",
                   cli_info_gpus(), "host", topology_describe(), "choice", cli_info_choice(), "threads",
                   cli_info_threads(), "limits", cli_info_limits(), "options", cli_info_options(commands), "variables",
                   cli_info_variables(), "unknown_variables", cli_info_unknown_variables(commands));
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  json_t *info = gather(call->commands);
  if (!info)
    return cli_command_failed(call, fail(WEFT_ERR_NOMEM, "no memory for the description"));
  int err = 0;
  if (options.json) {
    json_dumpf(info, stdout, JSON_INDENT(2));
    putchar('\n');
  } else {
    struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, options.color);
    err = cli_info_print(stdout, info, terminal, options.topology);
  }
  json_decref(info);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_info = {
    .name = "info",
    .summary = "show what this tool can do here, and all options and variables",
    .description = "Prints version and build, the versions of the libraries here and which of their parts Weft does "
                   "not use, the transports and what each can do on this host, its GPUs, the limits that matter, "
                   "and every option and environment variable with its default, its present value and where that "
                   "comes from. It also names each WEFT_ variable that has no meaning.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
