// Completion for shells, made from the tables of the commands: one script for each shell, which the shell loads.
#ifndef CLI_COMPLETION_COMPLETION_H
#define CLI_COMPLETION_COMPLETION_H

#include "cli/command/command.h"

#include <stdio.h>

// `list`: every command, in the order of the help; ends with NULL. The scripts leave out hidden commands.
void cli_completion_write_bash(FILE *out, const struct cli_command *const *list);
void cli_completion_write_zsh(FILE *out, const struct cli_command *const *list);
void cli_completion_write_fish(FILE *out, const struct cli_command *const *list);

// --- common parts of the three scripts ---

// The kind of value that an option or an operand takes.
enum cli_completion_value {
  CLI_COMPLETION_NOTHING, // a flag
  CLI_COMPLETION_FILE,
  CLI_COMPLETION_WORD,  // one of its choices
  CLI_COMPLETION_OTHER, // a value that a shell cannot complete
};
enum cli_completion_value cli_completion_value(const struct cli_option *row);

// Whether the command takes files as operands.
bool cli_completion_takes_files(const struct cli_command *command);

// The length of the command's first word. `*member` is its second word; NULL if the command belongs to no family.
int cli_completion_split(const char *name, const char **member);

// The second word of the command, if the command is not hidden and has the same first word as `of`; else NULL.
const char *cli_completion_member(const struct cli_command *command, const struct cli_command *of);

// Whether an earlier command that is not hidden has the same first word as list[i].
bool cli_completion_is_repeated(const struct cli_command *const *list, size_t i);

// Writes the text in single quotes, with `quoted` in place of each single quote in it.
void cli_completion_quote(FILE *out, const char *text, const char *quoted);

#endif
