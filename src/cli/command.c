// What the commands share: their options, and the exit status of a failure.
#include "cli/command.h"

#include "base/fail.h"
#include "base/printable.h"
#include "cli/help/help.h"

#include <stdio.h>
#include <weft/err.h>

bool cli_command_options(const struct cli_command *command, void *target, int argc, char **argv, int *status) {
  int err = cli_options_parse(command->options, target, argc, argv);
  if (err == OPTION_HELP) {
    cli_help_write_command(stdout, command);
    *status = 0;
  } else if (err) {
    *status = cli_command_failed(command, err);
    fprintf(stderr, "Try 'weft %s --help'.\n", command->name);
  }
  return !err;
}

int cli_command_failed(const struct cli_command *command, int err) {
  char text[FAIL_DETAIL_SIZE];
  snprintf(text, sizeof text, "%s", weft_last_error());
  printable_text(text); // a server's or a peer's words may be in it
  fprintf(stderr, "weft %s: %s\n", command->name, text);
  return weft_err_exit_status(err);
}
