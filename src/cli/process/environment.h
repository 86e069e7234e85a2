// Environment variables that do not belong to an option of any command.
#ifndef CLI_PROCESS_ENVIRONMENT_H
#define CLI_PROCESS_ENVIRONMENT_H

struct cli_variable {
  const char *name; // NULL ends the table
  const char *preset;
  const char *help;
  const char *used_by;             // commands that cannot run with a wrong value, separated by blanks; NULL: none
  const char *const *choices;      // NULL-terminated: the only values; or NULL
  int (*check)(const char *value); // 0, or INVALID with a last error that says what would be right; or NULL
};

extern const struct cli_variable cli_variables[];

#endif
