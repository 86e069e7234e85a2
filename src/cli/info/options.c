// Options and variables of every command, and variables that no command knows, for `weft info`.
#include "cli/info/facts.h"

#include "base/printable.h"
#include "cli/command/variables.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/err.h>

// JSON null for NULL. The environment may have bytes that are not valid characters, which JSON does not allow.
static json_t *text_of(const char *text) {
  char *copy = text ? strdup(text) : NULL;
  if (!copy)
    return text ? NULL : json_null();
  printable_line(copy);
  json_t *json = json_string(copy);
  free(copy);
  return json;
}

static json_t *dashed(const char *name) {
  return name ? json_sprintf("--%s", name) : json_null();
}

static json_t *describe_option(const struct cli_command *command, const struct cli_option *row) {
  const char *variable = NULL;
  int err = cli_option_from_environment(row, &variable);
  const char *value = variable ? variable : row->preset;
  const char *preset = row->preset ? row->preset : row->preset_note;
  if (row->type == OPTION_FLAG && !preset)
    value = preset = "no";
  const char *error = err || (variable && cli_option_check(row, variable)) ? weft_last_error() : NULL;
  return json_pack("{s:s, s:o, s:o, s:s?, s:s?, s:o, s:s, s:o}", "command", command->name, "option", dashed(row->name),
                   "alias", dashed(row->alias), "variable", row->variable, "default", preset, "value",
                   text_of(value && row->secret ? "set" : value), "source",
                   variable || err ? "environment"
                   : value         ? "default"
                                   : "unset",
                   "error", text_of(error));
}

json_t *cli_info_options(const struct cli_command *const *commands) {
  json_t *list = json_array();
  bool failed = !list;
  for (size_t c = 0; commands[c]; c++)
    for (size_t i = 0; i < commands[c]->options.count; i++)
      failed |= json_array_append_new(list, describe_option(commands[c], &commands[c]->options.rows[i])) != 0;
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}

static json_t *describe_variable(const struct cli_variable *variable) {
  const char *value = getenv(variable->name);
  bool wrong = value && *value && cli_variable_check(variable, value);
  return json_pack("{s:s, s:s?, s:o, s:s, s:o}", "variable", variable->name, "default", variable->preset, "value",
                   text_of(value), "help", variable->help, "error", text_of(wrong ? weft_last_error() : NULL));
}

json_t *cli_info_variables(void) {
  json_t *list = json_array();
  bool failed = !list;
  for (const struct cli_variable *at = cli_variables; at->name; at++)
    failed |= json_array_append_new(list, describe_variable(at)) != 0;
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}

json_t *cli_info_unknown_variables(const struct cli_command *const *commands) {
  json_t *list = json_array();
  bool failed = !list;
  for (char **at = environ; !failed && *at; at++) {
    char *name = strncmp(*at, "WEFT_", 5) == 0 ? strndup(*at, strcspn(*at, "=")) : NULL;
    if (name && !cli_variables_known(commands, name))
      failed = json_array_append_new(list, json_pack("{s:o, s:s?}", "variable", text_of(name), "meant",
                                                     cli_variables_nearest(commands, name))) != 0;
    free(name);
  }
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}
