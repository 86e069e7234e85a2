// weft help: the help of a command, manual pages, and completion for shells.
#include "cli/command/help.h"
#include "base/fail.h"
#include "cli/commands/commands.h"
#include "cli/completion/completion.h"
#include "cli/completion/install.h"

struct options {
  const char *command;
  const char *member;
  bool man;
  const char *install;
  enum shell { NO_SHELL, BASH, ZSH, FISH } completion;
};

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

#define FIELD(member) OPTION_FIELD(struct options, member)

// clang-format off
static const struct cli_option rows[] = {
  {.name = "command", .operand = true, .type = OPTION_STRING, .metavar = "COMMAND", FIELD(command),
   .help = "the command to explain"},
  {.name = "member", .operand = true, .type = OPTION_STRING, .metavar = "MEMBER", FIELD(member),
   .help = "the command to explain within a family, such as 'bench'"},
  {.name = "man", .type = OPTION_FLAG, FIELD(man),
   .help = "print the manual page weft(1), or that of COMMAND, in roff"},
  {.name = "completion", .type = OPTION_ENUM, .metavar = "SHELL", FIELD(completion), .choices = shells, .first = BASH,
   .help = "print the script with which this shell completes commands, options and their values"},
  {.name = "install", .type = OPTION_PATH, .metavar = "DIR", FIELD(install),
   .help = "write all manual pages, and the completion for every shell, to the usual folders below DIR; man and the "
   "shells find them there if DIR is /usr/local/share or ~/.local/share"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft help elastic", "the same as 'weft elastic --help'"},
    {"weft help --man | man -l -", "read the manual page that the tool makes"},
    {"source <(weft help --completion bash)",
     "TAB completes in this bash; in fish: weft help --completion fish | source"},
    {"weft help --install ~/.local/share", "manual pages and completion, for this user"},
    {NULL, NULL},
};

// Prints the help or the manual page of the command that the operands name, or the overview; returns the exit status.
static int explain(const struct cli_call *call, const struct options *options) {
  const struct cli_command *asked = NULL;
  if (options->command) {
    char *words[] = {(char *)options->command, (char *)options->member};
    int used, count = options->member ? 2 : 1;
    asked = cli_command_find(call->commands, count, words, &used);
    if (!asked && count == 1 && !options->man && cli_command_help_family(call->commands, words[0]))
      return 0;
    if (!asked)
      return cli_command_unknown(call->commands, count, words);
    if (used < count)
      return cli_command_failed(call,
                                fail(WEFT_ERR_INVALID, "unexpected argument \"%s\": %s has no commands of its own",
                                     options->member, asked->name));
  }
  if (options->man && asked)
    cli_help_write_command_manual(stdout, asked);
  else if (options->man)
    cli_help_write_manual(stdout, call->commands);
  else if (asked)
    cli_help_write_command(stdout, asked);
  else
    cli_help_write_overview(stdout, call->commands);
  return 0;
}

// A command's page or help, files, and completion are three requests that exclude each other.
static int check(const struct options *options) {
  const char *given[3];
  int count = 0;
  if (options->command || options->man)
    given[count++] = options->man ? "--man" : "COMMAND";
  if (options->completion != NO_SHELL)
    given[count++] = "--completion";
  if (options->install)
    given[count++] = "--install";
  return count < 2 ? 0 : fail(WEFT_ERR_INVALID, "%s and %s are both given: want one of them", given[0], given[1]);
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  int err = check(&options);
  if (!err && options.install)
    err = cli_completion_install(options.install, call->commands);
  else if (!err && options.completion == BASH)
    cli_completion_write_bash(stdout, call->commands);
  else if (!err && options.completion == ZSH)
    cli_completion_write_zsh(stdout, call->commands);
  else if (!err && options.completion == FISH)
    cli_completion_write_fish(stdout, call->commands);
  else if (!err)
    return explain(call, &options);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_help = {
    .name = "help",
    .summary = "explain a command",
    .description =
        "Explains a command: its options, with their limits, defaults and variables, and examples. Makes manual "
        "pages and completion for bash, zsh and fish from the same tables.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
