// Reads options from the top level of a TOML file: "name = value", with the names of a table of options.
#ifndef CLI_OPTION_TOML_H
#define CLI_OPTION_TOML_H

#include "cli/option/option.h"

// Sets the options that the file names, except those marked in `given` [count]: the command line has precedence. A
// value has the type of its option: a whole number, a boolean, or a string. Strings live as long as the process.
// SYSTEM: the file cannot be read. INVALID: it is not TOML, or has a name that is no option, a table, or a value that
// is of another type or out of range; the error has the file, the line, and what would be right. UNSUPPORTED: compiled
// without tomlplusplus.
int cli_toml_apply(struct cli_option_table table, void *target, const char *path);

#endif
