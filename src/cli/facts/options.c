// The options and variables of every command, and variables that none knows, for `weft info`.
#include "cli/facts/facts.h"

#include "cli/command.h"
#include "cli/environment.h"
#include "cli/option/nearest.h"

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

json_t *cli_facts_options(void) {
  json_t *list = json_array();
  bool failed = !list;
  for (size_t c = 0; cli_commands[c]; c++)
    for (size_t i = 0; i < cli_commands[c]->options.count; i++)
      failed |= json_array_append_new(list, describe_option(cli_commands[c], &cli_commands[c]->options.rows[i])) != 0;
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}

json_t *cli_facts_variables(void) {
  json_t *list = json_array();
  bool failed = !list;
  for (const struct cli_variable *at = cli_variables; at->name; at++)
    failed |= json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:s}", "variable", at->name, "default",
                                                    at->preset, "value", getenv(at->name), "help", at->help)) != 0;
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}

// Goes on to the next variable that means something, from {0, 0} on; NULL at the end.
struct position {
  size_t command, row, variable;
};

static const char *next_known(struct position *at) {
  for (; cli_commands[at->command]; at->command++, at->row = 0)
    while (at->row < cli_commands[at->command]->options.count) {
      const char *name = cli_commands[at->command]->options.rows[at->row++].variable;
      if (name)
        return name;
    }
  return cli_variables[at->variable].name ? cli_variables[at->variable++].name : NULL;
}

static bool is_known(const char *name) {
  struct position at = {0};
  for (const char *known; (known = next_known(&at));)
    if (strcmp(known, name) == 0)
      return true;
  return false;
}

static json_t *describe_stranger(const char *name) {
  struct cli_nearest nearest = {.wanted = name};
  struct position at = {0};
  for (const char *known; (known = next_known(&at));)
    cli_nearest_offer(&nearest, known);
  return json_pack("{s:s, s:s?}", "variable", name, "meant", nearest.best);
}

json_t *cli_facts_strangers(void) {
  json_t *list = json_array();
  bool failed = !list;
  for (char **at = environ; !failed && *at; at++) {
    char name[64];
    size_t size = strcspn(*at, "=");
    if (strncmp(*at, "WEFT_", 5) != 0 || size >= sizeof name)
      continue;
    snprintf(name, sizeof name, "%.*s", (int)size, *at);
    if (!is_known(name))
      failed = json_array_append_new(list, describe_stranger(name)) != 0;
  }
  if (failed)
    json_decref(list);
  return failed ? NULL : list;
}
