// Environment variables that are no option of any command.
#ifndef CLI_PROCESS_ENVIRONMENT_H
#define CLI_PROCESS_ENVIRONMENT_H

struct cli_variable {
  const char *name; // NULL ends the table
  const char *preset;
  const char *help;
};

extern const struct cli_variable cli_variables[];

#endif
