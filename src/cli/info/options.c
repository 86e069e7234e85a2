// Options and variables of every command, and variables that no command knows, for `weft info`.
#include "cli/info/facts.h"

#include "cli/command/command.h"
#include "cli/option/nearest.h"
#include "cli/process/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/err.h>

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
  return json_pack("{s:s, s:o, s:o, s:s?, s:s?, s:s?, s:s, s:s?}", "command", command->name, "option",
                   dashed(row->name), "alias", dashed(row->alias), "variable", row->variable, "default", preset,
                   "value", value && row->secret ? "set" : value, "source",
                   variable || err ? "environment"
                   : value         ? "default"
                                   : "unset",
                   "error", error);
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

json_t *cli_info_variables(void) {
  json_t *list = json_array();
  bool failed = !list;
  for (const struct cli_variable *at = cli_variables; at->name; at++)
    failed |= json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:s}", "variable", at->name, "default",
                                                    at->preset, "value", getenv(at->name), "help", at->help)) != 0;
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}

// A walk over all variables that mean something: those of options, then the others. It begins with `commands` alone.
struct walk {
  const struct cli_command *const *commands;
  size_t command, row, variable;
};

// The next variable of the walk; NULL at its end.
static const char *next_known(struct walk *at) {
  for (; at->commands[at->command]; at->command++, at->row = 0) {
    const struct cli_option_table *options = &at->commands[at->command]->options;
    while (at->row < options->count) {
      const char *name = options->rows[at->row++].variable;
      if (name)
        return name;
    }
  }
  return cli_variables[at->variable].name ? cli_variables[at->variable++].name : NULL;
}

static bool is_known(const struct cli_command *const *commands, const char *name) {
  struct walk walk = {.commands = commands};
  for (const char *known; (known = next_known(&walk));)
    if (strcmp(known, name) == 0)
      return true;
  return false;
}

static json_t *describe_unknown(const struct cli_command *const *commands, const char *name) {
  struct cli_nearest nearest = {.wanted = name};
  struct walk walk = {.commands = commands};
  for (const char *known; (known = next_known(&walk));)
    cli_nearest_offer(&nearest, known);
  return json_pack("{s:s, s:s?}", "variable", name, "meant", nearest.best);
}

json_t *cli_info_unknown_variables(const struct cli_command *const *commands) {
  json_t *list = json_array();
  bool failed = !list;
  for (char **at = environ; !failed && *at; at++) {
    char name[64];
    size_t size = strcspn(*at, "=");
    if (strncmp(*at, "WEFT_", 5) != 0 || size >= sizeof name)
      continue;
    snprintf(name, sizeof name, "%.*s", (int)size, *at);
    if (!is_known(commands, name))
      failed = json_array_append_new(list, describe_unknown(commands, name)) != 0;
  }
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}
