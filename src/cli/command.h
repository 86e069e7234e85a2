// A command of the tool: its name, its words, its options, and what it does.
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/option/option.h"

struct cli_example {
  const char *line; // as typed; NULL ends a list
  const char *meaning;
};

struct cli_command {
  const char *name;
  const char *summary;     // a few words, without a full stop
  const char *description; // sentences; paragraphs are separated by '\n'
  struct cli_option_table options;
  const struct cli_example *examples;
  bool hidden; // not for people: started by the tool itself

  // Gets the arguments from the command's name on, returns the exit status of the tool, and has then said on standard
  // error what was wrong.
  int (*run)(const struct cli_command *command, int argc, char **argv);
};

// One file each.
extern const struct cli_command cli_doctor, cli_elastic, cli_env, cli_p2p, cli_plan, cli_serve, cli_info, cli_report,
    cli_rank, cli_help;

// Every command, in the order of the help; ends with NULL.
extern const struct cli_command *const cli_commands[];

// The command of that name, NULL when there is none.
const struct cli_command *cli_command_find(const char *name);

// Says on standard error that there is no such command, with the one that was probably meant; returns exit status 2.
int cli_command_unknown(const char *name);

// Fills the command's options from presets, environment and command line. False: the command ends here with `*status`,
// because its help was asked for, and printed, or because an option was wrong, and that is said.
bool cli_command_options(const struct cli_command *command, void *target, int argc, char **argv, int *status);

// Says "weft NAME: <the last error>" on standard error; returns the exit status for `err`.
int cli_command_failed(const struct cli_command *command, int err);

#endif
