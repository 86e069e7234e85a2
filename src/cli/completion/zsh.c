// Completion for zsh: one function, which gives _arguments the options of the command.
#include "cli/completion/completion.h"

#include <string.h>
#include <weft/weft.h>

static const char quoted[] = "'\\''";

// Writes the text and escapes characters that would end a part of a specification.
static void write_escaped(FILE *out, const char *text) {
  for (; *text; text++) {
    if (strchr("[]:\\", *text))
      fputc('\\', out);
    if (*text == '\'')
      fputs(quoted, out);
    else
      fputc(*text, out);
  }
}

static void write_value(FILE *out, const struct cli_option *row) {
  enum cli_completion_value value = cli_completion_value(row);
  if (value == CLI_COMPLETION_NOTHING)
    return;
  fputc(':', out);
  write_escaped(out, row->metavar ? row->metavar : "VALUE");
  if (value == CLI_COMPLETION_FILE)
    fputs(":_files", out);
  else if (value == CLI_COMPLETION_OTHER)
    fputs(": ", out);
  else
    for (size_t i = 0; row->choices[i]; i++)
      fprintf(out, "%s%s%s", i == 0 ? ":(" : " ", row->choices[i], row->choices[i + 1] ? "" : ")");
}

// Writes one name of an option. `joins`: the mark that its value may be in the same word.
static void write_name(FILE *out, const struct cli_option *row, const char *dashes, const char *name,
                       const char *joins) {
  fprintf(out, " \\\n        '%s%s%s[", dashes, name, row->type == OPTION_FLAG ? "" : joins);
  write_escaped(out, row->help);
  fputc(']', out);
  write_value(out, row);
  fputc('\'', out);
}

static void write_command(FILE *out, const struct cli_command *command) {
  fprintf(out, "    ('%s')\n      _arguments", command->name);
  for (size_t i = 0; i < command->options.count; i++) {
    const struct cli_option *row = &command->options.rows[i];
    write_name(out, row, "--", row->name, "=");
    if (row->alias)
      write_name(out, row, "--", row->alias, "=");
    if (row->letter)
      write_name(out, row, "-", (const char[]){row->letter, '\0'}, "+");
  }
  fputs(" \\\n        '(- *)--help[explain the command]'", out);
  if (cli_completion_takes_files(command))
    fputs(" '*:file:_files'", out);
  fputs(" ;;\n", out);
}

static void write_described(FILE *out, int length, const char *name, const char *summary) {
  fprintf(out, " '%.*s:", length, name);
  write_escaped(out, summary);
  fputc('\'', out);
}

// Writes a family: first its second words are offered, then they choose the command.
static void write_members(FILE *out, const struct cli_command *const *list, size_t i) {
  const char *member, *other;
  int length = cli_completion_split(list[i]->name, &member);
  fprintf(out, "    (%.*s)\n      if ((CURRENT == 3)); then\n        commands=(", length, list[i]->name);
  for (size_t k = i; list[k]; k++)
    if ((other = cli_completion_member(list[k], list[i])) != NULL)
      write_described(out, (int)strlen(other), other, list[k]->summary);
  fputs(")\n        _describe command commands\n        return\n      fi\n"
        "      command+=\" $words[3]\"\n      shift words\n      ((CURRENT--))\n      ;;\n",
        out);
}

static void write_first_words(FILE *out, const struct cli_command *const *list) {
  const char *member;
  for (size_t i = 0; list[i]; i++) {
    int length = cli_completion_split(list[i]->name, &member);
    if (!list[i]->hidden && !cli_completion_is_repeated(list, i))
      write_described(out, length, list[i]->name, member ? "one of several commands" : list[i]->summary);
  }
  write_described(out, 7, "version", "print the version");
}

void cli_completion_write_zsh(FILE *out, const struct cli_command *const *list) {
  const char *member;
  fprintf(out, "#compdef weft\n# Completion of weft %s in zsh, made by 'weft help --completion zsh'.\n",
          weft_version());
  fputs("_weft() {\n  local command=$words[2]\n  local -a commands\n  if ((CURRENT == 2)); then\n    commands=(", out);
  write_first_words(out, list);
  fputs(")\n    _describe command commands\n    return\n  fi\n  case $command in\n", out);
  for (size_t i = 0; list[i]; i++) {
    cli_completion_split(list[i]->name, &member);
    if (!list[i]->hidden && member && !cli_completion_is_repeated(list, i))
      write_members(out, list, i);
  }
  fputs("  esac\n  shift words\n  ((CURRENT--))\n  case $command in\n", out);
  for (size_t i = 0; list[i]; i++)
    if (!list[i]->hidden)
      write_command(out, list[i]);
  fputs("  esac\n}\n\n_weft \"$@\"\n", out);
}
