// What the commands share: the search by name, their options, and the exit status of a failure.
#include "cli/command/command.h"

#include "base/fail.h"
#include "base/printable.h"
#include "cli/command/help.h"
#include "cli/option/nearest.h"

#include <stdio.h>
#include <string.h>
#include <weft/err.h>

const struct cli_command *cli_command_find(const struct cli_command *const *commands, const char *name) {
  for (size_t i = 0; commands[i]; i++)
    if (strcmp(commands[i]->name, name) == 0)
      return commands[i];
  return NULL;
}

int cli_command_unknown(const struct cli_command *const *commands, const char *name) {
  struct cli_nearest nearest = {.wanted = name};
  for (size_t i = 0; commands[i]; i++)
    if (!commands[i]->hidden)
      cli_nearest_offer(&nearest, commands[i]->name);
  cli_nearest_offer(&nearest, "version"); // which main() knows without a table
  if (nearest.best)
    fprintf(stderr, "weft: unknown command \"%s\"; did you mean %s?\n", name, nearest.best);
  else
    fprintf(stderr, "weft: unknown command \"%s\"\n", name);
  fputs("Try 'weft --help'.\n", stderr);
  return 2;
}

bool cli_command_options(const struct cli_call *call, void *target, int *status) {
  return cli_command_options_given(call, target, NULL, status);
}

bool cli_command_options_given(const struct cli_call *call, void *target, bool *given, int *status) {
  const struct cli_command *command = call->command;
  struct cli_option_table table = command->options;
  table.given = given;
  int err = cli_options_parse(table, target, call->argc, call->argv);
  if (err == OPTION_HELP) {
    cli_help_write_command(stdout, command);
    *status = 0;
  } else if (err) {
    *status = cli_command_failed(call, err);
    fprintf(stderr, "Try 'weft %s --help'.\n", command->name);
  }
  return !err;
}

int cli_command_failed(const struct cli_call *call, int err) {
  char text[FAIL_DETAIL_SIZE];
  snprintf(text, sizeof text, "%s", weft_last_error());
  printable_text(text); // a server or a peer may have written a part of it
  fprintf(stderr, "weft %s: %s\n", call->command->name, text);
  return weft_err_exit_status(err);
}
