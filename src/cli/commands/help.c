// weft help: the help of a command, or the manual page.
#include "cli/command/help.h"
#include "base/fail.h"
#include "cli/commands/commands.h"

struct options {
  const char *command;
  const char *member;
  bool man;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

// clang-format off
static const struct cli_option rows[] = {
  {.name = "command", .operand = true, .type = OPTION_STRING, .metavar = "COMMAND", FIELD(command),
   .help = "the command to explain"},
  {.name = "member", .operand = true, .type = OPTION_STRING, .metavar = "MEMBER", FIELD(member),
   .help = "of a family of commands, such as 'bench', the one to explain"},
  {.name = "man", .type = OPTION_FLAG, FIELD(man), .help = "print the manual page weft(1), in roff"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft help elastic", "the same as 'weft elastic --help'"},
    {"weft help --man | man -l -", "the manual page, from the tool itself"},
    {NULL, NULL},
};

static int run(const struct cli_call *call) {
  struct options options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  if (options.man && options.command)
    return cli_command_failed(
        call,
        fail(WEFT_ERR_INVALID, "--man and COMMAND %s are both given: want one of them, as the page has all commands",
             options.command));
  if (options.man) {
    cli_help_write_manual(stdout, call->commands);
  } else if (options.command) {
    char *words[] = {(char *)options.command, (char *)options.member};
    int used, count = options.member ? 2 : 1;
    const struct cli_command *asked = cli_command_find(call->commands, count, words, &used);
    if (!asked)
      return cli_command_unknown(call->commands, count, words);
    cli_help_write_command(stdout, asked);
  } else {
    cli_help_write_overview(stdout, call->commands);
  }
  return 0;
}

const struct cli_command cli_help = {
    .name = "help",
    .summary = "explain a command",
    .description = "Explains a command: its options, with their limits, defaults and variables, and examples.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
