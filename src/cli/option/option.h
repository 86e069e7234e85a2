// Options from tables, with one row for each option. Parser, help, manual page and `weft info` all read the same rows.
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
  OPTION_SECRET_FILE, // const char *: the first line of a file that only this user can read (secure/secret.h)
  OPTION_URL,         // http[s]://host[:port], several separated by commas
  OPTION_WORDS,       // struct cli_words: an operand that takes all remaining words
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
  bool required;     // the command cannot run without it; only for types with a const char *
  bool secret;       // never printed, and wiped from the environment and the command line
  enum cli_option_type type;
  const char *variable;       // environment variable
  const char *metavar;        // placeholder of the value in help: FILE, N, ...
  const char *preset;         // default, written as on the command line
  const char *preset_note;    // if there is no preset: what happens without the option, in words
  uint64_t min, max;          // UINT: both inclusive; max 0 means the largest value of the field
  uint64_t step;              // UINT: the value must be a multiple of this
  const char *unit;           // UINT: "ms", "tokens", ...
  const char *const *choices; // ENUM: NULL-terminated
  unsigned first;             // ENUM: value of the first
  const char *help;           // a sentence without its full stop
  const char *section;        // heading that starts with this row
  size_t offset;              // of the field in the target; OPTION_FIELD sets both
  size_t size;
};

#define OPTION_FIELD(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)NULL)->member)

enum { OPTION_HELP = 1 }; // cli_options_parse() found --help or -h

struct cli_option_table {
  const struct cli_option *rows;
  size_t count;
  bool *given; // [count], or NULL: set for each row that the command line gives
  bool gflags; // the command line follows option/gflags.h
  // For gflags: long names, NULL-terminated, for which an empty value means that the option is not given; or NULL.
  const char *const *may_be_empty;
};

#define OPTION_TABLE(table)                                                                                            \
  { .rows = (table), .count = sizeof(table) / sizeof((table)[0]) }

// Fills `target`, which the caller has zeroed: presets, then the environment, then argv[1] to argv[argc - 1]; later
// values win. `--` ends the options. Strings in `target` point into the table, the environment and `argv`; secrets are
// copied, and overwritten in `argv`. Returns 0, OPTION_HELP, or INVALID with a last error that names the option, the
// bad value, and what would be right.
int cli_options_parse(struct cli_option_table table, void *target, int argc, char *const *argv);

// Finds the row of that name, which is given without dashes; an underscore counts as a hyphen. NULL: there is none, and
// `*near` is the most similar name, or NULL.
const struct cli_option *cli_options_find(struct cli_option_table table, const char *name, const char **near);

// The flag that `--noNAME` clears, if the table allows that; `name` is "noNAME", of `size` bytes. Else NULL.
const struct cli_option *cli_options_find_cleared(struct cli_option_table table, const char *name, size_t size);

// Whether an empty value of the option with this name, of `size` bytes, means that the option is not given.
bool cli_option_may_be_empty(struct cli_option_table table, const char *name, size_t size);

// The name by which the command line gives the row's option, without its dashes: `name` or `alias`, of the last
// argument that gives it. `name` if none does.
const char *cli_options_spelling(const struct cli_option *row, int argc, char *const *argv);

// Whether one of argv[1] to argv[argc - 1], up to `--`, asks for help.
bool cli_options_want_help(int argc, char *const *argv);

// Checks whether `text` is a right value of `row`: 0, or INVALID as above.
int cli_option_check(const struct cli_option *row, const char *text);

// Sets the row's field of `target`: 0, or INVALID as above. A string is kept as a pointer.
int cli_option_set(const struct cli_option *row, const char *text, void *target);

// Describes the allowed values in out[cap], e.g. "128 to 16384, a multiple of 128", or "bf16, fp8"; "" if every value
// is allowed.
void cli_option_describe_range(const struct cli_option *row, char *out, size_t cap);

// Sets `*text` to the row's environment value; NULL if the variable is unset or empty. INVALID: a secret that the
// environment names could not be read.
int cli_option_from_environment(const struct cli_option *row, const char **text);

#endif
