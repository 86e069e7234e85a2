// Checks the environment by the tables of options and variables. Every command does this first.
#include "cli/command/variables.h"

#include "base/fail.h"
#include "base/printable.h"
#include "base/text/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// An iteration over all known variables: those of options, then the others. Set only `commands` to begin.
struct walk {
  const struct cli_command *const *commands;
  size_t command, row, variable;
};

// The next variable of the iteration; NULL at its end.
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

bool cli_variables_known(const struct cli_command *const *commands, const char *name) {
  struct walk walk = {.commands = commands};
  for (const char *known; (known = next_known(&walk));)
    if (strcmp(known, name) == 0)
      return true;
  return false;
}

const char *cli_variables_nearest(const struct cli_command *const *commands, const char *name) {
  struct nearest nearest = {.wanted = name};
  struct walk walk = {.commands = commands};
  for (const char *known; (known = next_known(&walk));)
    nearest_offer(&nearest, known);
  return nearest.best;
}

int cli_variable_check(const struct cli_variable *variable, const char *value) {
  const struct cli_option row = {.type = OPTION_ENUM, .choices = variable->choices, .size = sizeof(uint32_t)};
  if (variable->choices)
    return cli_option_check(&row, value);
  return variable->check ? variable->check(value) : 0;
}

// Prints one line on standard error: the last error, and its consequence.
static void warn(const char *name, const struct cli_command *running, bool used) {
  char line[FAIL_DETAIL_SIZE];
  snprintf(line, sizeof line, "%s", weft_last_error());
  printable_line(line);
  fprintf(stderr, "weft: %s: %s", name, line);
  if (!used && running)
    fprintf(stderr, " ('weft %s' does not need it)", running->name);
  fputc('\n', stderr);
}

static const struct cli_option *row_of(const struct cli_command *command, const char *variable) {
  for (size_t i = 0; i < command->options.count; i++)
    if (command->options.rows[i].variable && strcmp(command->options.rows[i].variable, variable) == 0)
      return &command->options.rows[i];
  return NULL;
}

// Several commands may have options with the same variable. The option of the running command counts, else that of the
// first one.
static const struct cli_command *owner_of(const struct cli_command *const *commands, const struct cli_command *running,
                                          const char *variable) {
  if (running && row_of(running, variable))
    return running;
  while (*commands && !row_of(*commands, variable))
    commands++;
  return *commands;
}

static bool check_options(const struct cli_command *const *commands, const struct cli_command *running) {
  bool refused = false;
  for (size_t c = 0; commands[c]; c++) {
    for (size_t i = 0; i < commands[c]->options.count; i++) {
      const struct cli_option *row = &commands[c]->options.rows[i];
      const char *value = NULL;
      if (!row->variable || owner_of(commands, running, row->variable) != commands[c])
        continue;
      if (!cli_option_from_environment(row, &value) && (!value || !cli_option_check(row, value)))
        continue;
      warn(row->variable, running, commands[c] == running);
      refused |= commands[c] == running;
    }
  }
  return refused;
}

static bool has_word(const char *words, const char *word) {
  size_t size = strlen(word);
  for (const char *at = words; at && *at; at += strcspn(at, " "), at += *at == ' ')
    if (strncmp(at, word, size) == 0 && (at[size] == ' ' || !at[size]))
      return true;
  return false;
}

static bool check_others(const struct cli_command *running) {
  bool refused = false;
  for (const struct cli_variable *at = cli_variables; at->name; at++) {
    const char *value = getenv(at->name);
    if (!value || !*value || !cli_variable_check(at, value))
      continue;
    // If no command ends because of a wrong value, the message does not say whether this command needs the variable.
    bool used = running && has_word(at->used_by, running->name);
    warn(at->name, at->used_by ? running : NULL, used);
    refused |= used;
  }
  return refused;
}

static void warn_unknown(const struct cli_command *const *commands) {
  for (char **at = environ; at && *at; at++) {
    size_t size = strcspn(*at, "=");
    char *name = strncmp(*at, "WEFT_", 5) == 0 ? strndup(*at, size) : NULL;
    if (name && !cli_variables_known(commands, name)) {
      const char *nearest = cli_variables_nearest(commands, name);
      printable_line(name);
      fprintf(stderr, "weft: %s is set but has no meaning%s%s%s\n", name, nearest ? "; did you mean " : "",
              nearest ? nearest : "", nearest ? "?" : "");
    }
    free(name);
  }
}

bool cli_variables_warn(const struct cli_command *const *commands, const struct cli_command *running) {
  warn_unknown(commands);
  bool refused = check_options(commands, running);
  return check_others(running) || refused;
}
