// Writes help from the tables of the commands.
#ifndef CLI_COMMAND_HELP_H
#define CLI_COMMAND_HELP_H

#include "cli/command/command.h"

#include <stdio.h>

// The exit statuses of the tool, in words; ends with NULL text.
struct cli_help_status {
  int status;
  const char *text;
};
extern const struct cli_help_status cli_help_statuses[];

// Writes the usage and the list of commands, which the tool prints if no command is given.
void cli_help_write_short(FILE *out, const struct cli_command *const *list);

// Writes the same with examples and exit statuses.
void cli_help_write_overview(FILE *out, const struct cli_command *const *list);

// Writes the help of one command: usage, description, every option of its table, examples.
void cli_help_write_command(FILE *out, const struct cli_command *command);

// Writes the manual page weft(1) of all commands, in roff's man macros.
void cli_help_write_manual(FILE *out, const struct cli_command *const *list);

// Writes the manual page of one command, for instance weft-bench-ep(1).
void cli_help_write_command_manual(FILE *out, const struct cli_command *command);

// Writes the name of that page, for instance "weft-bench-ep", to out[cap].
void cli_help_name_page(const struct cli_command *command, char *out, size_t cap);

// Writes the row's limits, default and variable, e.g. "0 to 1024 tokens; default 128; WEFT_X"; "" if it has none of
// them.
void cli_help_describe_option(const struct cli_option *row, char *out, size_t cap);

#endif
