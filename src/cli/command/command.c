// Functions for all commands: the search by name, their options, and the exit status of a failure.
#include "cli/command/command.h"

#include "base/fail.h"
#include "base/printable.h"
#include "base/text/nearest.h"
#include "cli/command/help.h"

#include <stdio.h>
#include <string.h>
#include <weft/err.h>

// Whether the word is the first word of the name; `*rest` is then the text after it, or "".
static bool begins(const char *name, const char *word, const char **rest) {
  size_t length = strlen(word);
  if (length == 0 || strncmp(name, word, length) != 0 || (name[length] != ' ' && name[length] != '\0'))
    return false;
  *rest = name[length] == ' ' ? name + length + 1 : "";
  return true;
}

const struct cli_command *cli_command_find(const struct cli_command *const *commands, int count, char *const *words,
                                           int *used) {
  const char *rest;
  for (size_t i = 0; count > 0 && commands[i]; i++) {
    if (!begins(commands[i]->name, words[0], &rest))
      continue;
    *used = *rest ? 2 : 1;
    if (*rest == '\0' || (count > 1 && strcmp(rest, words[1]) == 0))
      return commands[i];
  }
  *used = 0;
  return NULL;
}

// Whether there are commands whose name is this word and another one.
static bool is_family(const struct cli_command *const *commands, const char *word) {
  const char *rest;
  for (size_t i = 0; commands[i]; i++)
    if (begins(commands[i]->name, word, &rest) && *rest)
      return true;
  return false;
}

static void list_members(FILE *out, const struct cli_command *const *commands, const char *family) {
  const char *rest;
  for (size_t i = 0; commands[i]; i++)
    if (!commands[i]->hidden && begins(commands[i]->name, family, &rest))
      fprintf(out, "  weft %s: %s\n", commands[i]->name, commands[i]->summary);
}

bool cli_command_help_family(const struct cli_command *const *commands, const char *word) {
  if (!is_family(commands, word))
    return false;
  printf("Usage: weft %s COMMAND [OPTION...]\n\nCommands:\n", word);
  list_members(stdout, commands, word);
  printf("\n'weft %s COMMAND --help' explains a command.\n", word);
  return true;
}

// Prints the members of a family, since the second word was wrong or is missing.
static void print_members(const struct cli_command *const *commands, int count, char *const *words) {
  const char *rest;
  struct nearest nearest = {.wanted = count > 1 ? words[1] : ""};
  for (size_t i = 0; commands[i]; i++)
    if (!commands[i]->hidden && begins(commands[i]->name, words[0], &rest) && count > 1)
      nearest_offer(&nearest, rest);
  if (nearest.best)
    fprintf(stderr, "weft %s: unknown command \"%s\"; did you mean %s?\n", words[0], words[1], nearest.best);
  else if (count > 1)
    fprintf(stderr, "weft %s: unknown command \"%s\"\n", words[0], words[1]);
  else
    fprintf(stderr, "weft %s: want one of its commands\n", words[0]);
  list_members(stderr, commands, words[0]);
}

int cli_command_unknown(const struct cli_command *const *commands, int count, char *const *words) {
  struct nearest nearest = {.wanted = words[0]};
  if (is_family(commands, words[0])) {
    print_members(commands, count, words);
    return 2;
  }
  for (size_t i = 0; commands[i]; i++)
    if (!commands[i]->hidden)
      nearest_offer(&nearest, commands[i]->name);
  nearest_offer(&nearest, "version"); // main() handles it without a table
  if (nearest.best)
    fprintf(stderr, "weft: unknown command \"%s\"; did you mean %s?\n", words[0], nearest.best);
  else
    fprintf(stderr, "weft: unknown command \"%s\"\n", words[0]);
  fputs("Try 'weft --help'.\n", stderr);
  return 2;
}

bool cli_command_options(const struct cli_call *call, void *target, int *status) {
  return cli_command_options_given(call, target, NULL, status);
}

bool cli_command_options_given(const struct cli_call *call, void *target, bool *given, int *status) {
  const struct cli_command *command = call->command;
  struct cli_option_table table = command->options;
  table.given = given;
  int err = cli_options_parse(table, target, call->argc, call->argv);
  if (err == OPTION_HELP) {
    cli_help_write_command(stdout, command);
    *status = 0;
  } else if (err) {
    *status = cli_command_failed(call, err);
    fprintf(stderr, "Try 'weft %s --help'.\n", command->name);
  }
  return !err;
}

// The option that this text begins with, after so many dashes; NULL: with none.
static const struct cli_option *find_option(const struct cli_call *call, const char *text, size_t dashes) {
  char name[64];
  const char *near;
  if (strspn(text, "-") != dashes || sscanf(text + dashes, "%63[A-Za-z0-9_-]", name) != 1)
    return NULL;
  return cli_options_find(call->command->options, name, &near);
}

static bool is_on_command_line(const struct cli_call *call, const struct cli_option *row) {
  for (int i = 1; i < call->argc && strcmp(call->argv[i], "--") != 0; i++) {
    const char *argument = call->argv[i];
    bool has_letter = row->letter && argument[0] == '-' && argument[1] == row->letter;
    if (has_letter || find_option(call, argument, 1) == row || find_option(call, argument, 2) == row)
      return true;
  }
  return false;
}

void cli_command_print_error(const struct cli_call *call, const char *error) {
  const char *value = NULL;
  const struct cli_option *row = find_option(call, error, 2);
  fprintf(stderr, "weft %s: %s\n", call->command->name, error);
  if (row && cli_option_from_environment(row, &value) == 0 && value && !is_on_command_line(call, row))
    fprintf(stderr, "weft %s: the environment variable %s gives --%s\n", call->command->name, row->variable, row->name);
}

int cli_command_failed(const struct cli_call *call, int err) {
  char text[FAIL_DETAIL_SIZE];
  snprintf(text, sizeof text, "%s", weft_last_error());
  printable_text(text); // a part of it may come from a server or a peer
  cli_command_print_error(call, text);
  return weft_err_exit_status(err);
}
