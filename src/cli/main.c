// weft: the tool. Finds the command and runs it.
#include "cli/command.h"
#include "cli/help.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static bool is(const char *text, const char *name, const char *letter) {
  return strcmp(text, name) == 0 || strcmp(text, letter) == 0;
}

static int run(int argc, char **argv) {
  if (argc < 2) {
    cli_help_write_short(stderr, cli_commands);
    return 2;
  }
  if (is(argv[1], "--version", "-V")) {
    printf("weft %s\n", weft_version());
    return 0;
  }
  if (is(argv[1], "--help", "-h")) {
    cli_help_write_overview(stdout, cli_commands);
    return 0;
  }
  const struct cli_command *command = cli_command_find(argv[1]);
  return command ? command->run(command, argc - 1, argv + 1) : cli_command_unknown(argv[1]);
}

int main(int argc, char **argv) {
  setlocale(LC_CTYPE, ""); // which characters the terminal shows; numbers stay as in C
  int status = run(argc, argv);
  // What was printed is a result: one that was lost (disk full, closed pipe) is no success.
  if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0) {
    fprintf(stderr, "weft: cannot write to standard output: %s\n", strerror(errno));
    status = 3;
  }
  return status;
}
