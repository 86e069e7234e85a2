// A command of the tool: its name, its texts, its options, and the function that runs it.
#ifndef CLI_COMMAND_COMMAND_H
#define CLI_COMMAND_COMMAND_H

#include "cli/option/option.h"

struct cli_example {
  const char *line; // as typed; NULL ends a list
  const char *meaning;
};

struct cli_call;

struct cli_command {
  const char *name;        // one word, or the two of a family's member: "bench transfer"
  const char *summary;     // a few words, without a full stop
  const char *description; // sentences; paragraphs are separated by '\n'
  struct cli_option_table options;
  const struct cli_example *examples;
  bool hidden;                // the help does not list it: the tool starts it itself, or it is a second name
  const char *where_it_fails; // a line for standard output, for scripts, if the command fails; or NULL

  // Returns the exit status of the tool. When it fails, it has printed on standard error what was wrong.
  int (*run)(const struct cli_call *call);
};

// How the tool was called.
struct cli_call {
  const struct cli_command *command;         // the one that runs
  const struct cli_command *const *commands; // every command of the tool, in the order of the help; ends with NULL
  int argc;                                  // of argv
  char **argv;                               // from the command's name on
};

// Finds the command that words[0], or words[0] and words[1], name; NULL: there is none. `used`: the number of words of
// the name; 0 if there is none.
const struct cli_command *cli_command_find(const struct cli_command *const *commands, int count, char *const *words,
                                           int *used);

// If the word is a family of commands, prints help with its members; otherwise returns false.
bool cli_command_help_family(const struct cli_command *const *commands, const char *word);

// Prints on standard error that there is no such command, and the most similar one; returns exit status 2.
int cli_command_unknown(const struct cli_command *const *commands, int count, char *const *words);

// Fills the command's options from presets, environment and command line. False: the command ends here with `*status`,
// because it has printed its help on request, or the error of a wrong option.
bool cli_command_options(const struct cli_call *call, void *target, int *status);

// The same; also sets given[i] for each row that the command line gives. The caller has set all of given[count] to
// false.
bool cli_command_options_given(const struct cli_call *call, void *target, bool *given, int *status);

// Prints "weft NAME: ERROR" on standard error, and if the error begins with an option that the command line does not
// give but an environment variable does, a line that names the variable.
void cli_command_print_error(const struct cli_call *call, const char *error);

// Prints the last error so; returns the exit status for `err`.
int cli_command_failed(const struct cli_call *call, int err);

#endif
