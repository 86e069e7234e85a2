// Completion for shells, made from the tables of the commands: a script for each shell, to be loaded by it.
#ifndef CLI_COMPLETION_COMPLETION_H
#define CLI_COMPLETION_COMPLETION_H

#include "cli/command/command.h"

#include <stdio.h>

// `list`: every command, in the order of the help; ends with NULL. Commands that are hidden are left out.
void cli_completion_write_bash(FILE *out, const struct cli_command *const *list);
void cli_completion_write_zsh(FILE *out, const struct cli_command *const *list);
void cli_completion_write_fish(FILE *out, const struct cli_command *const *list);

// --- what the three share ---

// What an option or an operand takes.
enum cli_completion_value {
  CLI_COMPLETION_NOTHING, // a flag
  CLI_COMPLETION_FILE,
  CLI_COMPLETION_WORD,  // one of its choices
  CLI_COMPLETION_OTHER, // what a shell cannot know
};
enum cli_completion_value cli_completion_value(const struct cli_option *row);

// Whether the command takes files without an option's name.
bool cli_completion_takes_files(const struct cli_command *command);

// The length of the command's first word; `*member` is its second one, NULL where it is of no family.
int cli_completion_split(const char *name, const char **member);

// The second word of the command, which is not hidden, if its first one is that of `of`; else NULL.
const char *cli_completion_member(const struct cli_command *command, const struct cli_command *of);

// Whether the first word of list[i] stood in an earlier command, which is not hidden, too.
bool cli_completion_is_repeated(const struct cli_command *const *list, size_t i);

// Writes the text in single quotes; `quoted` stands for one in it.
void cli_completion_quote(FILE *out, const char *text, const char *quoted);

#endif
