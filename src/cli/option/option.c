// Reads options from arguments and the environment.
#include "cli/option/option.h"

#include "base/fail.h"
#include "base/text/nearest.h"
#include "cli/option/gflags.h"
#include "cli/option/value.h"
#include "cli/process/secrets.h"

#include <stdlib.h>
#include <string.h>

// The state of a parse.
struct parse {
  struct cli_option_table table;
  void *target;
  int argc;
  char *const *argv;
  int next;                     // index in argv of the next argument
  const struct cli_option *row; // of the last operand, NULL before
  const char *operand;          // that one
};

static int set(struct parse *parse, const struct cli_option *row, const char *text, const char *what) {
  int err = cli_option_value_set(row, text, parse->target);
  return err ? fail_context(err, "%s", what) : 0;
}

static void note_given(const struct parse *parse, const struct cli_option *row) {
  if (parse->table.given)
    parse->table.given[row - parse->table.rows] = true;
}

// The same for a value on the command line, which every user of the host can read: a secret is copied and wiped.
static int set_argument(struct parse *parse, const struct cli_option *row, char *text, const char *what) {
  const char *kept = text;
  int err = row->secret ? cli_secrets_keep(text, &kept) : 0;
  note_given(parse, row);
  return err ? err : set(parse, row, kept, what);
}

int cli_option_from_environment(const struct cli_option *row, const char **text) {
  if (row->variable && row->secret)
    return cli_secrets_find(row->variable, text);
  const char *value = row->variable ? getenv(row->variable) : NULL;
  *text = value && *value ? value : NULL;
  return 0;
}

static int set_row_without_command_line(struct parse *parse, const struct cli_option *row) {
  const char *variable = NULL;
  int err = cli_option_from_environment(row, &variable);
  if (!err && variable)
    err = set(parse, row, variable, row->variable);
  else if (!err && row->preset)
    err = set(parse, row, row->preset, row->name);
  return err;
}

static int set_without_command_line(struct parse *parse) {
  int err = 0;
  for (size_t i = 0; i < parse->table.count && !err; i++)
    err = set_row_without_command_line(parse, &parse->table.rows[i]);
  return err;
}

// Leaves the row as if the command line had not named it, also if an earlier argument has set it.
static int unset(struct parse *parse, const struct cli_option *row) {
  memset((char *)parse->target + row->offset, 0, row->size);
  if (parse->table.given)
    parse->table.given[row - parse->table.rows] = false;
  return set_row_without_command_line(parse, row);
}

// An underscore counts as a hyphen.
static bool is_name(const char *name, const char *text, size_t size) {
  if (!name || strlen(name) != size)
    return false;
  for (size_t i = 0; i < size; i++)
    if (name[i] != (text[i] == '_' ? '-' : text[i]))
      return false;
  return true;
}

bool cli_option_may_be_empty(struct cli_option_table table, const char *name, size_t size) {
  for (const char *const *one = table.may_be_empty; one && *one; one++)
    if (is_name(*one, name, size))
      return true;
  return false;
}

static const struct cli_option *find_long(struct cli_option_table table, const char *name, size_t size) {
  for (size_t i = 0; i < table.count; i++)
    if (is_name(table.rows[i].name, name, size) || is_name(table.rows[i].alias, name, size))
      return &table.rows[i];
  return NULL;
}

static const struct cli_option *find_letter(struct cli_option_table table, char letter) {
  for (size_t i = 0; i < table.count; i++)
    if (table.rows[i].letter == letter)
      return &table.rows[i];
  return NULL;
}

// The row of the operand that follows the last one; NULL: the command takes no more.
static const struct cli_option *find_operand(const struct parse *parse) {
  const struct cli_option *end = parse->table.rows + parse->table.count;
  const struct cli_option *row = parse->row ? parse->row + (parse->row->type != OPTION_WORDS) : parse->table.rows;
  while (row < end && !row->operand)
    row++;
  return row < end ? row : NULL;
}

static const char *find_near(struct cli_option_table table, const char *wanted, const char *other) {
  char name[64];
  size_t size = strlen(wanted);
  if (size >= sizeof name)
    return NULL;
  for (size_t i = 0; i <= size; i++)
    name[i] = wanted[i] == '_' ? '-' : wanted[i];
  struct nearest nearest = {.wanted = name};
  for (size_t i = 0; i < table.count; i++) {
    nearest_offer(&nearest, table.rows[i].name);
    if (table.rows[i].alias)
      nearest_offer(&nearest, table.rows[i].alias);
  }
  if (other)
    nearest_offer(&nearest, other);
  return nearest.best;
}

static int unknown_option(struct cli_option_table table, const char *argument, const char *name, size_t size) {
  char wanted[64];
  if (size >= sizeof wanted)
    return fail(WEFT_ERR_INVALID, "unknown option %s", argument);
  memcpy(wanted, name, size);
  wanted[size] = '\0';
  const char *near = find_near(table, wanted, "help");
  if (near)
    return fail(WEFT_ERR_INVALID, "unknown option --%s; did you mean --%s?", wanted, near);
  return fail(WEFT_ERR_INVALID, "unknown option --%s", wanted);
}

const struct cli_option *cli_options_find(struct cli_option_table table, const char *name, const char **near) {
  const struct cli_option *row = find_long(table, name, strlen(name));
  *near = row ? NULL : find_near(table, name, NULL);
  return row;
}

int cli_option_set(const struct cli_option *row, const char *text, void *target) {
  return cli_option_value_set(row, text, target);
}

// Takes the value of an option from the next argument; NULL, and an error, when there is none.
static char *take_value(struct parse *parse, const struct cli_option *row, const char *what) {
  char *text = parse->next < parse->argc ? parse->argv[parse->next] : NULL;
  const char *metavar = row->metavar ? row->metavar : "VALUE";
  if (!text)
    fail(WEFT_ERR_INVALID, "%s needs a value: %s %s", what, what, metavar);
  else if (strncmp(text, "--", 2) == 0) {
    if (row->secret)
      fail(WEFT_ERR_INVALID, "%s needs a value, and what follows looks like an option; if it is meant, write --%s=...",
           what, row->name);
    else {
      const char *quote = strpbrk(text, " \t\n") ? "'" : ""; // so that the shell keeps it together
      fail(WEFT_ERR_INVALID, "%s needs a value, and \"%s\" looks like an option; if it is meant, write --%s=%s%s%s",
           what, text, row->name, quote, text, quote);
    }
    text = NULL;
  } else
    parse->next++;
  return text;
}

// The value of a flag in the next argument, if the table allows that; else NULL.
static const char *take_flag_value(struct parse *parse, const struct cli_option *row) {
  const char *text = parse->table.gflags && parse->next < parse->argc ? parse->argv[parse->next] : NULL;
  text = text ? cli_gflags_flag(text) : NULL;
  if (!text || cli_option_check(row, text) != 0)
    return NULL;
  parse->next++;
  return text;
}

// `text` is behind `=`, or NULL.
static int parse_flag(struct parse *parse, const struct cli_option *row, const char *text, const char *what) {
  if (!text)
    text = take_flag_value(parse, row);
  else if (parse->table.gflags)
    text = cli_gflags_flag(text);
  note_given(parse, row);
  return set(parse, row, text ? text : "yes", what);
}

const struct cli_option *cli_options_find_cleared(struct cli_option_table table, const char *name, size_t size) {
  const struct cli_option *row =
      table.gflags && strncmp(name, "no", 2) == 0 ? find_long(table, name + 2, size - 2) : NULL;
  return row && row->type == OPTION_FLAG ? row : NULL;
}

static int clear_flag(struct parse *parse, const struct cli_option *row, const char *argument, bool has_value) {
  if (has_value)
    return fail(WEFT_ERR_INVALID, "%s has a value: want --no%s alone, or --%s=false", argument, row->name, row->name);
  note_given(parse, row);
  return set(parse, row, "no", argument);
}

// The name has `dashes` before it.
static int parse_long(struct parse *parse, char *argument, size_t dashes) {
  char *name = argument + dashes;
  size_t size = strcspn(name, "=");
  char *value = name[size] == '=' ? name + size + 1 : NULL;
  const struct cli_option *row = find_long(parse->table, name, size);
  const struct cli_option *cleared = row ? NULL : cli_options_find_cleared(parse->table, name, size);
  if (cleared)
    return clear_flag(parse, cleared, argument, value != NULL);
  if (!row)
    return unknown_option(parse->table, argument, name, size);
  char what[64];
  int length = (int)(size + dashes < sizeof what ? size + dashes : sizeof what - 1);
  memcpy(what, argument, (size_t)length);
  what[length] = '\0';
  if (row->type == OPTION_FLAG)
    return parse_flag(parse, row, value, what);
  if (!value && !(value = take_value(parse, row, what)))
    return WEFT_ERR_INVALID;
  if (*value == '\0' && cli_option_may_be_empty(parse->table, name, size))
    return unset(parse, row);
  return set_argument(parse, row, value, what);
}

// -x, -x VALUE or -xVALUE
static int parse_letter(struct parse *parse, char *argument) {
  const struct cli_option *row = find_letter(parse->table, argument[1]);
  if (!row || (row->type == OPTION_FLAG && argument[2])) {
    size_t size = strcspn(argument + 1, "=");
    if (find_long(parse->table, argument + 1, size))
      return fail(WEFT_ERR_INVALID, "unknown option %s; did you mean -%.*s?", argument, (int)size + 1, argument);
    return fail(WEFT_ERR_INVALID, "unknown option %s", argument);
  }
  const char what[] = {'-', row->letter, '\0'};
  if (row->type == OPTION_FLAG) {
    note_given(parse, row);
    return set(parse, row, "yes", what);
  }
  char *value = argument[2] ? argument + 2 : take_value(parse, row, what);
  return value ? set_argument(parse, row, value, what) : WEFT_ERR_INVALID;
}

// Whether the argument, which has one dash, is a long name, and the table allows that.
static bool is_long(const struct parse *parse, const char *argument) {
  return parse->table.gflags && argument[2] != '\0' && argument[2] != '=' &&
         (!find_letter(parse->table, argument[1]) || find_long(parse->table, argument + 1, strcspn(argument + 1, "=")));
}

static int parse_operand(struct parse *parse, const char *argument) {
  const struct cli_option *row = find_operand(parse);
  if (!row && parse->row)
    return fail(WEFT_ERR_INVALID, "unexpected argument \"%s\": %s is \"%s\" already", argument, parse->row->metavar,
                parse->operand);
  if (!row)
    return fail(WEFT_ERR_INVALID, "unexpected argument \"%s\": this command takes options only", argument);
  parse->row = row;
  parse->operand = argument;
  return set(parse, row, argument, row->metavar);
}

static int check_required(const struct parse *parse) {
  for (size_t i = 0; i < parse->table.count; i++) {
    const struct cli_option *row = &parse->table.rows[i];
    const char *text = NULL;
    if (row->required)
      memcpy(&text, (const char *)parse->target + row->offset, sizeof text);
    if (row->required && !text)
      return fail(WEFT_ERR_INVALID, "%s is missing: %s", row->operand ? row->metavar : row->name, row->help);
  }
  return 0;
}

// A value begins with two dashes only behind "=", so an argument that begins with them is an option.
const char *cli_options_spelling(const struct cli_option *row, int argc, char *const *argv) {
  const char *spelling = row->name;
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
    const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
    if (is_name(row->name, name, strcspn(name, "=")))
      spelling = row->name;
    else if (is_name(row->alias, name, strcspn(name, "=")))
      spelling = row->alias;
  }
  return spelling;
}

bool cli_options_want_help(int argc, char *const *argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
      return true;
  return false;
}

int cli_options_parse(struct cli_option_table table, void *target, int argc, char *const *argv) {
  struct parse parse = {.table = table, .target = target, .argc = argc, .argv = argv, .next = 1};
  // A wrong variable must not prevent the help, so --help is searched before the environment is read.
  if (cli_options_want_help(argc, argv))
    return OPTION_HELP;
  int err = set_without_command_line(&parse);
  bool only_operands = false;
  while (!err && parse.next < argc) {
    char *argument = argv[parse.next++];
    if (only_operands || argument[0] != '-' || argument[1] == '\0')
      err = parse_operand(&parse, argument);
    else if (strcmp(argument, "--") == 0)
      only_operands = true;
    else if (argument[1] == '-')
      err = parse_long(&parse, argument, 2);
    else if (is_long(&parse, argument))
      err = parse_long(&parse, argument, 1);
    else
      err = parse_letter(&parse, argument);
  }
  return err ? err : check_required(&parse);
}
