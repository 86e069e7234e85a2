// Functions for the completions of all shells: the values of options, and the words of a command's name.
#include "cli/completion/completion.h"

#include <string.h>

enum cli_completion_value cli_completion_value(const struct cli_option *row) {
  switch (row->type) {
  case OPTION_FLAG:
    return CLI_COMPLETION_NOTHING;
  case OPTION_PATH:
  case OPTION_SECRET_FILE:
  case OPTION_WORDS:
    return CLI_COMPLETION_FILE;
  case OPTION_ENUM:
    return CLI_COMPLETION_WORD;
  default:
    return CLI_COMPLETION_OTHER;
  }
}

bool cli_completion_takes_files(const struct cli_command *command) {
  for (size_t i = 0; i < command->options.count; i++) {
    const struct cli_option *row = &command->options.rows[i];
    if (row->operand && cli_completion_value(row) == CLI_COMPLETION_FILE)
      return true;
  }
  return false;
}

int cli_completion_split(const char *name, const char **member) {
  size_t length = strcspn(name, " ");
  *member = name[length] ? name + length + 1 : NULL;
  return (int)length;
}

static bool is_alike(const struct cli_command *command, const struct cli_command *of) {
  const char *member;
  int length = cli_completion_split(of->name, &member);
  return !command->hidden && cli_completion_split(command->name, &member) == length &&
         strncmp(command->name, of->name, (size_t)length) == 0;
}

const char *cli_completion_member(const struct cli_command *command, const struct cli_command *of) {
  const char *member;
  cli_completion_split(command->name, &member);
  return is_alike(command, of) ? member : NULL;
}

bool cli_completion_is_repeated(const struct cli_command *const *list, size_t i) {
  for (size_t k = 0; k < i; k++)
    if (is_alike(list[k], list[i]))
      return true;
  return false;
}

void cli_completion_quote(FILE *out, const char *text, const char *quoted) {
  fputc('\'', out);
  for (; *text; text++) {
    if (*text == '\'')
      fputs(quoted, out);
    else
      fputc(*text, out);
  }
  fputc('\'', out);
}
