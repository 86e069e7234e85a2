// The manual page, from the same tables as the help.
#include "cli/command/help.h"
#include "cli/process/environment.h"

#include <string.h>
#include <weft/weft.h>

enum { NOTE_SIZE = 512 };

// Writes text so that roff reads no request and no escape in it.
static void write_plain(FILE *out, const char *text) {
  bool line_start = true;
  for (; *text; text++) {
    if (line_start && (*text == '.' || *text == '\''))
      fputs("\\&", out);
    if (*text == '\\')
      fputs("\\e", out);
    else if (*text == '-')
      fputs("\\-", out);
    else if (*text == '\n')
      fputs("\n.PP\n", out);
    else
      fputc(*text, out);
    line_start = *text == '\n';
  }
}

static void write_option(FILE *out, const struct cli_option *row) {
  fputs(".TP\n.B ", out);
  if (row->letter)
    fprintf(out, "\\-%c, ", row->letter);
  fputs("\\-\\-", out);
  write_plain(out, row->name);
  if (row->alias) {
    fputs(", \\-\\-", out);
    write_plain(out, row->alias);
  }
  if (row->type != OPTION_FLAG)
    fprintf(out, " \\fI%s\\fR", row->metavar ? row->metavar : "VALUE");
  fputc('\n', out);
  write_plain(out, row->help);
  char note[NOTE_SIZE];
  cli_help_describe_option(row, note, sizeof note);
  if (*note) {
    fputs(".\n[", out);
    write_plain(out, note);
    fputc(']', out);
  }
  fputs(".\n", out);
}

static void write_command(FILE *out, const struct cli_command *command) {
  fprintf(out, ".SS weft %s\n", command->name);
  write_plain(out, command->description);
  fputc('\n', out);
  for (size_t i = 0; i < command->options.count; i++)
    write_option(out, &command->options.rows[i]);
}

static void write_statuses(FILE *out) {
  fputs(".SH EXIT STATUS\n", out);
  for (const struct cli_help_status *status = cli_help_statuses; status->text; status++) {
    fprintf(out, ".TP\n.B %d\n", status->status);
    write_plain(out, status->text);
    fputs(".\n", out);
  }
}

static void write_examples(FILE *out, const struct cli_command *command) {
  for (const struct cli_example *example = command->examples; example && example->line; example++) {
    fputs(".TP\n.B ", out);
    write_plain(out, example->line);
    fputc('\n', out);
    write_plain(out, example->meaning);
    fputs(".\n", out);
  }
}

void cli_help_write_manual(FILE *out, const struct cli_command *const *list) {
  fprintf(out, ".TH WEFT 1 \"\" \"weft %s\"\n", weft_version());
  fputs(".SH NAME\nweft \\- elastic expert\\-parallel communication\n.SH SYNOPSIS\n"
        ".B weft\n.I COMMAND\n[\\fIOPTION\\fR...]\n.SH COMMANDS\n",
        out);
  for (size_t i = 0; list[i]; i++)
    if (!list[i]->hidden)
      write_command(out, list[i]);
  fputs(".SH ENVIRONMENT\nEvery command names the variables that begin with WEFT_ and have no meaning, and those with "
        "a wrong value; it fails if it needs that value.\nThe variables are those that the options above name, and:\n",
        out);
  for (const struct cli_variable *variable = cli_variables; variable->name; variable++) {
    fprintf(out, ".TP\n.B %s\n", variable->name);
    write_plain(out, variable->help);
    fputs(".\n", out);
  }
  write_statuses(out);
  fputs(".SH EXAMPLES\n", out);
  for (size_t i = 0; list[i]; i++)
    if (!list[i]->hidden)
      write_examples(out, list[i]);
}

void cli_help_name_page(const struct cli_command *command, char *out, size_t cap) {
  snprintf(out, cap, "weft-%s", command->name);
  for (char *space = out; (space = strchr(space, ' ')) != NULL;)
    *space = '-';
}

static void write_synopsis(FILE *out, const struct cli_command *command) {
  fprintf(out, ".SH SYNOPSIS\n.B weft %s\n", command->name);
  if (command->options.count > 0)
    fputs("[\\fIOPTION\\fR...]\n", out);
  for (size_t i = 0; i < command->options.count; i++) {
    const struct cli_option *row = &command->options.rows[i];
    const char *more = row->type == OPTION_WORDS ? "..." : "";
    if (row->operand)
      fprintf(out, row->required || *more ? "\\fI%s\\fR%s\n" : "[\\fI%s\\fR%s]\n", row->metavar, more);
  }
}

void cli_help_write_command_manual(FILE *out, const struct cli_command *command) {
  char page[64];
  cli_help_name_page(command, page, sizeof page);
  fprintf(out, ".TH %s 1 \"\" \"weft %s\"\n.SH NAME\n", page, weft_version());
  write_plain(out, page);
  fputs(" \\- ", out);
  write_plain(out, command->summary);
  fputc('\n', out);
  write_synopsis(out, command);
  fputs(".SH DESCRIPTION\n", out);
  write_plain(out, command->description);
  fputs(command->options.count > 0 ? "\n.SH OPTIONS\n" : "\n", out);
  for (size_t i = 0; i < command->options.count; i++) {
    const struct cli_option *row = &command->options.rows[i];
    if (row->section)
      fprintf(out, ".SS %s\n", row->section);
    write_option(out, row);
  }
  write_statuses(out);
  fputs(".SH EXAMPLES\n", out);
  write_examples(out, command);
  fputs(".SH SEE ALSO\n.BR weft (1),\nwhich also lists the environment variables.\n", out);
}
