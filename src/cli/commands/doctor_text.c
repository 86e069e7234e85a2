// The text of `weft doctor`: its findings in columns.
#include "cli/commands/doctor_text.h"

#include "base/text/table.h"
#include "base/text/wrap.h"

#include <string.h>

enum { GRADE = 9, CHECK = 13 };

static void write_more(FILE *out, const char *word, const char *text, size_t width) {
  if (!text)
    return;
  size_t at = GRADE + CHECK + strlen(word) + 1;
  fprintf(out, "%*s%s ", GRADE + CHECK, "", word);
  wrap_write(out, text, at, at, width);
}

void cli_doctor_print(FILE *out, const struct doctor_report *report, struct cli_terminal terminal) {
  static const enum table_style styles[] = {TABLE_GREEN, TABLE_YELLOW, TABLE_RED};
  size_t width = cli_terminal_prose(terminal);
  for (size_t i = 0; i < report->count; i++) {
    const struct doctor_finding *at = &report->findings[i];
    bool again = i > 0 && strcmp(at->check, report->findings[i - 1].check) == 0;
    table_print_text(out, terminal.color, styles[at->grade], doctor_grade_name(at->grade), GRADE);
    table_print_text(out, terminal.color, TABLE_BOLD, again ? "" : at->check, CHECK);
    wrap_write(out, at->found, GRADE + CHECK, GRADE + CHECK, width);
    write_more(out, "means:", at->means, width);
    write_more(out, "mend: ", at->fix, width);
  }
  size_t problems = doctor_count(report, DOCTOR_PROBLEM), notes = doctor_count(report, DOCTOR_NOTE);
  fprintf(out, "\n%zu problem%s, %zu note%s, %zu ok\n", problems, problems == 1 ? "" : "s", notes,
          notes == 1 ? "" : "s", doctor_count(report, DOCTOR_OK));
}
