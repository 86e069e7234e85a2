// The list of all commands.
#include "cli/command.h"

#include "cli/option/nearest.h"

#include <stdio.h>
#include <string.h>

const struct cli_command *const cli_commands[] = {&cli_elastic, &cli_p2p, &cli_plan, &cli_report, &cli_serve, &cli_info,
                                                  &cli_doctor,  &cli_env, &cli_help, &cli_rank,   NULL};

const struct cli_command *cli_command_find(const char *name) {
  for (size_t i = 0; cli_commands[i]; i++)
    if (strcmp(cli_commands[i]->name, name) == 0)
      return cli_commands[i];
  return NULL;
}

int cli_command_unknown(const char *name) {
  struct cli_nearest nearest = {.wanted = name};
  for (size_t i = 0; cli_commands[i]; i++)
    if (!cli_commands[i]->hidden)
      cli_nearest_offer(&nearest, cli_commands[i]->name);
  if (nearest.best)
    fprintf(stderr, "weft: unknown command \"%s\"; did you mean %s?\n", name, nearest.best);
  else
    fprintf(stderr, "weft: unknown command \"%s\"\n", name);
  fputs("Try 'weft --help'.\n", stderr);
  return 2;
}
