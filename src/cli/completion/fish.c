// Completion for fish: a line for each command and each option.
#include "cli/completion/completion.h"

#include <string.h>
#include <weft/weft.h>

// The first of the words before the cursor is weft itself.
static const char head[] = "function __weft_of --description 'whether the words before the cursor begin with these'\n"
                           "    set -l words (commandline -opc)\n"
                           "    set -e words[1]\n"
                           "    string match -q -- \"$argv *\" \"$words \"\n"
                           "end\n"
                           "function __weft_after --description 'whether the words before the cursor are these'\n"
                           "    test (commandline -opc | count) -eq (math 1 + (count $argv)); and __weft_of $argv\n"
                           "end\n"
                           "complete -c weft -f\n";

static const char quoted[] = "\\'";

static void write_words(FILE *out, const char *after, int length, const char *word, const char *summary) {
  fprintf(out, "complete -c weft -n '__weft_after%s%s' -a %.*s -d ", *after ? " " : "", after, length, word);
  cli_completion_quote(out, summary, quoted);
  fputc('\n', out);
}

static void write_option(FILE *out, const char *command, const struct cli_option *row) {
  fprintf(out, "complete -c weft -n '__weft_of %s' -l %s", command, row->name);
  if (row->alias)
    fprintf(out, " -l %s", row->alias);
  if (row->letter)
    fprintf(out, " -s %c", row->letter);
  switch (cli_completion_value(row)) {
  case CLI_COMPLETION_NOTHING:
    break;
  case CLI_COMPLETION_FILE:
    fputs(" -r -F", out);
    break;
  case CLI_COMPLETION_OTHER:
    fputs(" -x", out);
    break;
  case CLI_COMPLETION_WORD:
    for (size_t i = 0; row->choices[i]; i++)
      fprintf(out, "%s%s", i == 0 ? " -x -a '" : " ", row->choices[i]);
    fputc('\'', out);
    break;
  }
  fputs(" -d ", out);
  cli_completion_quote(out, row->help, quoted);
  fputc('\n', out);
}

static void write_command(FILE *out, const struct cli_command *command) {
  for (size_t i = 0; i < command->options.count; i++)
    write_option(out, command->name, &command->options.rows[i]);
  fprintf(out, "complete -c weft -n '__weft_of %s' -l help -s h -d 'explain the command'\n", command->name);
  if (cli_completion_takes_files(command))
    fprintf(out, "complete -c weft -n '__weft_of %s' -F\n", command->name);
}

void cli_completion_write_fish(FILE *out, const struct cli_command *const *list) {
  fprintf(out, "# Completion of weft %s in fish, made by 'weft help --completion fish'.\n", weft_version());
  fputs(head, out);
  write_words(out, "", 7, "version", "print the version");
  for (size_t i = 0; list[i]; i++) {
    const char *member;
    int length = cli_completion_split(list[i]->name, &member);
    char first[64];
    snprintf(first, sizeof first, "%.*s", length, list[i]->name);
    if (list[i]->hidden)
      continue;
    if (!cli_completion_is_repeated(list, i))
      write_words(out, "", length, first, member ? "one of several commands" : list[i]->summary);
    if (member)
      write_words(out, first, (int)strlen(member), member, list[i]->summary);
    write_command(out, list[i]);
  }
}
