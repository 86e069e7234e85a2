// The environment of the tool: which variables mean nothing, and which have a wrong value.
#ifndef CLI_COMMAND_VARIABLES_H
#define CLI_COMMAND_VARIABLES_H

#include "cli/command/command.h"
#include "cli/process/environment.h"

// The nearest of all variables that mean something, those of options and the others; NULL: none is near.
const char *cli_variables_nearest(const struct cli_command *const *commands, const char *name);

// Whether the variable means something.
bool cli_variables_known(const struct cli_command *const *commands, const char *name);

// Whether `value` is right for a variable of the table: 0, or an error that says what would be.
int cli_variable_check(const struct cli_variable *variable, const char *value);

// Says on standard error, a line for each, which variables that begin with WEFT_ mean nothing, and which variables have
// a wrong value. `running` may be NULL. True: it uses one of the wrong values, and cannot run.
bool cli_variables_warn(const struct cli_command *const *commands, const struct cli_command *running);

#endif
