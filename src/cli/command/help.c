// Help texts, made from the tables of options.
#include "cli/command/help.h"

#include "base/text/table.h"
#include "base/text/wrap.h"
#include "cli/process/terminal.h"

#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

enum { COLUMN = 30, NOTE_SIZE = 512 };

const struct cli_help_status cli_help_statuses[] = {
    {0, "passed, or done"},
    {1, "failed"},
    {2, "wrong usage: an option, an argument or a plan is wrong"},
    {3, "the environment does not allow it: a port is in use, a store does not answer, or a directory is not writable"},
    {4, "wrong data: a number differs from what it should be"},
    {5, "a peer was lost unexpectedly"},
    {124, "a deadline passed"},
    {128, "plus n: signal n stopped the command, such as 130 after Ctrl-C"},
    {0, NULL},
};

static size_t width(void) {
  return cli_terminal_prose(cli_terminal_of(STDOUT_FILENO, TERMINAL_NEVER));
}

static void write_wrapped(FILE *out, const char *text, size_t at, size_t indent) {
  wrap_write(out, text, at, indent, width());
}

void cli_help_describe_option(const struct cli_option *row, char *out, size_t cap) {
  cli_option_describe_range(row, out, cap);
  size_t used = strlen(out);
  const char *preset = row->preset ? row->preset : row->preset_note;
  if (preset && row->type != OPTION_FLAG)
    used += (size_t)snprintf(out + used, cap - used, "%sdefault: %s", used ? "; " : "", preset);
  if (row->variable && used < cap)
    snprintf(out + used, cap - used, "%s%s", used ? "; " : "", row->variable);
}

static size_t write_names(FILE *out, const struct cli_option *row) {
  const char *metavar = row->type == OPTION_FLAG ? "" : row->metavar ? row->metavar : "VALUE";
  const char *space = *metavar ? " " : "";
  int used = row->letter ? fprintf(out, "  -%c, ", row->letter) : fprintf(out, "      ");
  used += fprintf(out, "--%s%s%s", row->name, space, metavar);
  if (row->alias)
    used += fprintf(out, ", --%s%s%s", row->alias, space, metavar);
  return (size_t)used;
}

static void write_option(FILE *out, const struct cli_option *row) {
  if (row->section)
    fprintf(out, "\n%s:\n", row->section);
  size_t at = write_names(out, row);
  if (at + 2 > COLUMN) {
    fputc('\n', out);
    at = 0;
  }
  fprintf(out, "%*s", (int)(COLUMN - at), "");
  write_wrapped(out, row->help, COLUMN, COLUMN);
  char note[NOTE_SIZE], bracketed[NOTE_SIZE + 2];
  cli_help_describe_option(row, note, sizeof note);
  if (*note) {
    snprintf(bracketed, sizeof bracketed, "[%s]", note);
    fprintf(out, "%*s", COLUMN, "");
    write_wrapped(out, bracketed, COLUMN, COLUMN);
  }
}

static void write_usage(FILE *out, const struct cli_command *command) {
  fprintf(out, "Usage: weft %s%s", command->name, command->options.count ? " [OPTION...]" : "");
  for (size_t i = 0; i < command->options.count; i++) {
    const struct cli_option *row = &command->options.rows[i];
    const char *more = row->type == OPTION_WORDS ? "..." : "";
    if (row->operand)
      fprintf(out, row->required || *more ? " %s%s" : " [%s%s]", row->metavar, more);
  }
  fputc('\n', out);
}

// Writes a command as it is typed; a long one continues in the next line in the shell's syntax.
static void write_command_line(FILE *out, const char *line) {
  size_t room = width() - 2;
  fputs("  ", out);
  while (table_width(line) > room) {
    size_t length = wrap_length(line, room - 2);
    fprintf(out, "%.*s \\\n    ", (int)length, line);
    line = wrap_after(line, length);
    room = width() - 4;
  }
  fprintf(out, "%s\n", line);
}

static void write_example(FILE *out, const struct cli_example *example) {
  write_command_line(out, example->line);
  fputs("      ", out);
  write_wrapped(out, example->meaning, 6, 6);
}

static void write_examples(FILE *out, const struct cli_command *command) {
  if (!command->examples)
    return;
  fputs("\nExamples:\n", out);
  for (const struct cli_example *example = command->examples; example->line; example++)
    write_example(out, example);
}

void cli_help_write_command(FILE *out, const struct cli_command *command) {
  write_usage(out, command);
  fputc('\n', out);
  write_wrapped(out, command->description, 0, 0);
  if (command->options.count > 0 && !command->options.rows[0].section)
    fputs("\nOptions:\n", out);
  for (size_t i = 0; i < command->options.count; i++)
    write_option(out, &command->options.rows[i]);
  fprintf(out, "\n%-*sthis text\n", COLUMN, "  -h, --help");
  write_examples(out, command);
}

void cli_help_write_short(FILE *out, const struct cli_command *const *list) {
  int longest = 0;
  for (size_t i = 0; list[i]; i++)
    if (!list[i]->hidden && (int)strlen(list[i]->name) > longest)
      longest = (int)strlen(list[i]->name);
  fputs("Usage: weft COMMAND [OPTION...]\n\nCommands:\n", out);
  for (size_t i = 0; list[i]; i++) {
    if (list[i]->hidden)
      continue;
    size_t at = (size_t)fprintf(out, "  %-*s ", longest, list[i]->name);
    write_wrapped(out, list[i]->summary, at, at);
  }
  fputc('\n', out);
  write_wrapped(out, "'weft COMMAND --help' explains a command; 'weft --version' prints the version.", 0, 0);
}

static void write_status(FILE *out, const struct cli_help_status *status) {
  enum { INDENT = 7 };
  fprintf(out, "  %3d  ", status->status);
  write_wrapped(out, status->text, INDENT, INDENT);
}

void cli_help_write_overview(FILE *out, const struct cli_command *const *list) {
  fprintf(out, "weft %s: ", weft_version());
  write_wrapped(out, "elastic expert-parallel communication among ranks that join, leave and die.",
                strlen("weft : ") + strlen(weft_version()), 0);
  fputc('\n', out);
  cli_help_write_short(out, list);
  fputs("\nExamples:\n", out);
  for (size_t i = 0; list[i]; i++)
    if (!list[i]->hidden && list[i]->examples)
      write_example(out, list[i]->examples);
  fputs("\nExit status:\n", out);
  for (const struct cli_help_status *status = cli_help_statuses; status->text; status++)
    write_status(out, status);
}
