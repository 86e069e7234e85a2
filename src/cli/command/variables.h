// Checks the environment of the tool: which variables are unknown, and which have a wrong value.
#ifndef CLI_COMMAND_VARIABLES_H
#define CLI_COMMAND_VARIABLES_H

#include "cli/command/command.h"
#include "cli/process/environment.h"

// The known variable with the most similar name, of options and others; NULL: none is similar.
const char *cli_variables_nearest(const struct cli_command *const *commands, const char *name);

// Whether Weft knows the variable.
bool cli_variables_known(const struct cli_command *const *commands, const char *name);

// Checks whether `value` is right for a variable of the table: 0, or an error that says what would be right.
int cli_variable_check(const struct cli_variable *variable, const char *value);

// Prints one line on standard error for each unknown variable that begins with WEFT_, and for each variable that has a
// wrong value. `running` may be NULL. True: the running command uses one of the wrong values, so it cannot run.
bool cli_variables_warn(const struct cli_command *const *commands, const struct cli_command *running);

#endif
