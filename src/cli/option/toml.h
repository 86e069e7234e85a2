// Options from a TOML file: "name = value" at its top, by the names of a table of options.
#ifndef CLI_OPTION_TOML_H
#define CLI_OPTION_TOML_H

#include "cli/option/option.h"

// Sets the options that the file names and `given` [count] does not have: what the command line gave wins. A value has
// the type of its option: a whole number, a boolean, or a string. Strings live as long as the process. SYSTEM: the file
// cannot be read. INVALID: it is not TOML, or has a name that is no option, a table, a value of another type or out of
// range: the sentence has the file, the line, and what would be right. UNSUPPORTED: compiled without tomlplusplus.
int cli_toml_apply(struct cli_option_table table, void *target, const char *path);

// --- toml_read.cpp, or toml_none.c where there is no tomlplusplus ---

enum cli_toml_type { TOML_INTEGER, TOML_BOOLEAN, TOML_TEXT, TOML_OTHER };

struct cli_toml_member {
  const char *name;
  enum cli_toml_type type;
  const char *type_name; // in words: "a list", "a date", ...
  const char *text;      // of the value, as on a command line; "" for OTHER
  unsigned line;
};

// Parses `text`, and calls `member` for each member at the top, in the order of the lines, until it returns an error,
// which is then returned. Its strings last during the call. INVALID: it is not TOML; the sentence has `path` and line.
#ifdef __cplusplus
extern "C" {
#endif
int cli_toml_read(const char *path, const char *text, int (*member)(void *arg, const struct cli_toml_member *found),
                  void *arg);
#ifdef __cplusplus
}
#endif

#endif
