// Options from a TOML file: "name = value" at its top, by the names of a table of options.
#ifndef CLI_OPTION_TOML_H
#define CLI_OPTION_TOML_H

#include "cli/option/option.h"

// Sets the options that the file names and `given` [count] does not have: what the command line gave wins. A value has
// the type of its option: a whole number, a boolean, or a string. Strings live as long as the process. SYSTEM: the file
// cannot be read. INVALID: it is not TOML, or has a name that is no option, a table, a value of another type or out of
// range: the sentence has the file, the line, and what would be right. UNSUPPORTED: compiled without tomlplusplus.
int cli_toml_apply(struct cli_option_table table, void *target, const char *path);

#endif
