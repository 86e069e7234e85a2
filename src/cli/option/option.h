// Options from tables: one row each. Parser, help, manual page and `weft info` all read the same rows.
#ifndef CLI_OPTION_OPTION_H
#define CLI_OPTION_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_option_type {
  OPTION_FLAG,   // bool: --name, or --name=yes|no
  OPTION_UINT,   // uint16_t, uint32_t or uint64_t
  OPTION_ENUM,   // an enum, counted from `first` in the order of `choices`
  OPTION_STRING, // const char *, as the types below
  OPTION_PATH,
  OPTION_SECRET_FILE, // const char *: what is in the first line of the file; only this user and root may have it
  OPTION_URL,         // http[s]://host[:port], several separated by commas
  OPTION_WORDS,       // struct cli_words: an operand that takes all that are left
};

struct cli_words {
  const char *list[64];
  uint32_t count;
};

// A row. Fields that are not set are 0: no alias, no letter, no variable, no preset.
struct cli_option {
  const char *name;  // without its dashes
  const char *alias; // another long name that means the same
  char letter;       // -x
  bool operand;      // may also be given without its name, in the order of the rows that are operands
  bool required;     // the command cannot run without it; only for types that are a const char *
  bool secret;       // never printed, and wiped from the environment and the command line
  enum cli_option_type type;
  const char *variable;       // environment variable
  const char *metavar;        // stands for the value in help: FILE, N, ...
  const char *preset;         // default, as it would be given
  const char *preset_note;    // what happens without it, in words, where there is no preset
  uint64_t min, max;          // UINT: both inclusive; max 0 means all that the field holds
  uint64_t step;              // UINT: a multiple of this
  const char *unit;           // UINT: "ms", "tokens", ...
  const char *const *choices; // ENUM: NULL-terminated
  unsigned first;             // ENUM: value of the first
  const char *help;           // a sentence without its full stop
  const char *section;        // heading that starts with this row
  size_t offset;              // of the field in the target; OPTION_FIELD sets both
  size_t size;
};

#define OPTION_FIELD(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)NULL)->member)

enum { OPTION_HELP = 1 }; // cli_options_parse() met --help or -h

struct cli_option_table {
  const struct cli_option *rows;
  size_t count;
  bool *given;   // [count], or NULL: set for each row that the command line gives
  bool one_dash; // a long name may have one dash, and a flag's value may be the next argument: as other tools take them
};

#define OPTION_TABLE(table)                                                                                            \
  { .rows = (table), .count = sizeof(table) / sizeof((table)[0]) }

// Fills `target`, which the caller has zeroed: presets, then the environment, then argv[1] to argv[argc - 1]; the later
// wins. `--` ends the options. Strings in `target` point into the table, the environment and `argv`; secrets are
// copied, and overwritten in `argv`. Returns 0, OPTION_HELP, or INVALID with a last error that names the option, the
// bad value, and what would be right.
int cli_options_parse(struct cli_option_table table, void *target, int argc, char *const *argv);

// The row of that name, without dashes, an underscore counting as a hyphen. NULL: there is none, and `*near` is the
// nearest name, or NULL.
const struct cli_option *cli_options_find(struct cli_option_table table, const char *name, const char **near);

// Whether one of argv[1] to argv[argc - 1], up to `--`, asks for the help.
bool cli_options_want_help(int argc, char *const *argv);

// Whether `text` would be a right value of `row`: 0, or INVALID as above.
int cli_option_check(const struct cli_option *row, const char *text);

// Sets the row's field of `target`: 0, or INVALID as above. A string is kept as a pointer.
int cli_option_set(const struct cli_option *row, const char *text, void *target);

// Describes the values that are allowed, e.g. "128 to 16384, a multiple of 128", or "bf16, fp8"; "" where any value is.
// Into out[cap].
void cli_option_describe_range(const struct cli_option *row, char *out, size_t cap);

// `*text`: the row's environment value, NULL when unset or empty (which means unset). INVALID: a secret that the
// environment names could not be read.
int cli_option_from_environment(const struct cli_option *row, const char **text);

#endif
