// Completion for bash: one function, with a branch for each command. It needs only bash itself.
#include "cli/completion/completion.h"

#include <weft/weft.h>

// The words of the line, up to the cursor. bash cuts "--name=value" into three words.
static const char head[] = "_weft() {\n"
                           "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
                           "  local command=${COMP_WORDS[1]} words= takes= files= options=\n"
                           "  if [[ $current = = ]]; then\n"
                           "    current=\n"
                           "  elif [[ $before = = ]]; then\n"
                           "    before=${COMP_WORDS[COMP_CWORD - 2]}\n"
                           "  fi\n"
                           "  case $command in\n";

static const char tail[] = "  esac\n"
                           "  if [[ $takes = file || ( -z $takes && $files && $current != -* ) ]]; then\n"
                           "    compopt -o default 2>/dev/null\n"
                           "    takes= words=\n"
                           "  elif [[ $takes = other ]]; then\n"
                           "    takes= words=\n"
                           "  elif [[ -z $takes && $options && $current != -* ]]; then\n"
                           "    words=\n"
                           "  fi\n"
                           "  mapfile -t COMPREPLY < <(compgen -W \"${takes:-$words}\" -- \"$current\")\n"
                           "}\n"
                           "complete -F _weft weft\n";

static void write_names(FILE *out, const struct cli_option *row, const char *between, const char *after) {
  fprintf(out, "--%s", row->name);
  if (row->alias)
    fprintf(out, "%s--%s", between, row->alias);
  if (row->letter)
    fprintf(out, "%s-%c", between, row->letter);
  fputs(after, out);
}

static void write_value(FILE *out, const struct cli_option *row) {
  static const char *const known[] = {[CLI_COMPLETION_FILE] = "file", [CLI_COMPLETION_OTHER] = "other"};
  enum cli_completion_value value = cli_completion_value(row);
  if (value == CLI_COMPLETION_NOTHING)
    return;
  fputs("        ", out);
  write_names(out, row, " | ", ") takes=");
  if (value == CLI_COMPLETION_WORD) {
    for (size_t i = 0; row->choices[i]; i++)
      fprintf(out, "%s%s", i == 0 ? "'" : " ", row->choices[i]);
    fputc('\'', out);
  } else {
    fputs(known[value], out);
  }
  fputs(" ;;\n", out);
}

static void write_command(FILE *out, const struct cli_command *command) {
  fprintf(out, "    '%s')\n      options=yes words='", command->name);
  for (size_t i = 0; i < command->options.count; i++)
    write_names(out, &command->options.rows[i], " ", " ");
  fprintf(out, "--help'%s\n      case $before in\n", cli_completion_takes_files(command) ? " files=yes" : "");
  for (size_t i = 0; i < command->options.count; i++)
    write_value(out, &command->options.rows[i]);
  fputs("      esac\n      ;;\n", out);
}

// The members of the family of list[i]: its second words.
static void write_members(FILE *out, const struct cli_command *const *list, size_t i) {
  const char *member, *other;
  int length = cli_completion_split(list[i]->name, &member);
  fprintf(out, "    %.*s)\n      if ((COMP_CWORD > 2)); then\n        command+=\" ${COMP_WORDS[2]}\"\n      else\n",
          length, list[i]->name);
  fputs("        words='", out);
  for (size_t k = i; list[k]; k++)
    if ((other = cli_completion_member(list[k], list[i])) != NULL)
      fprintf(out, "%s%s", k == i ? "" : " ", other);
  fputs("'\n      fi\n      ;;\n", out);
}

static void write_first_words(FILE *out, const struct cli_command *const *list) {
  const char *member;
  for (size_t i = 0; list[i]; i++)
    if (!list[i]->hidden && !cli_completion_is_repeated(list, i))
      fprintf(out, "%.*s ", cli_completion_split(list[i]->name, &member), list[i]->name);
  fputs("version --help --version", out);
}

void cli_completion_write_bash(FILE *out, const struct cli_command *const *list) {
  const char *member;
  fprintf(out, "# Completion of weft %s in bash, made by 'weft help --completion bash'.\n", weft_version());
  fputs(head, out);
  for (size_t i = 0; list[i]; i++) {
    cli_completion_split(list[i]->name, &member);
    if (!list[i]->hidden && member && !cli_completion_is_repeated(list, i))
      write_members(out, list, i);
  }
  fputs("  esac\n  if ((COMP_CWORD == 1)); then\n    command= words='", out);
  write_first_words(out, list);
  fputs("'\n  fi\n  case $command in\n", out);
  for (size_t i = 0; list[i]; i++)
    if (!list[i]->hidden)
      write_command(out, list[i]);
  fputs(tail, out);
}
