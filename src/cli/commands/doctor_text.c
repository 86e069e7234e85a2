// The text of `weft doctor`: its findings in columns.
#include "cli/commands/doctor_text.h"

#include "base/text/table.h"

#include <string.h>

enum { WIDTH = 110, GRADE = 9, CHECK = 13 };

// Writes words from column `at` on; the lines that follow begin in the same column.
static void write_wrapped(FILE *out, const char *text, size_t at) {
  size_t used = at;
  while (*text) {
    size_t size = strcspn(text, " ");
    if (used > at && used + 1 + size > WIDTH) {
      fprintf(out, "\n%*s", (int)at, "");
      used = at;
    } else if (used > at) {
      fputc(' ', out);
      used++;
    }
    fwrite(text, 1, size, out);
    used += size;
    text += size;
    text += strspn(text, " ");
  }
  fputc('\n', out);
}

static void write_more(FILE *out, const char *word, const char *text) {
  if (!text)
    return;
  fprintf(out, "%*s%s ", GRADE + CHECK, "", word);
  write_wrapped(out, text, GRADE + CHECK + strlen(word) + 1);
}

void cli_doctor_print(FILE *out, const struct doctor_report *report, struct cli_terminal terminal) {
  static const enum table_style styles[] = {TABLE_GREEN, TABLE_YELLOW, TABLE_RED};
  for (size_t i = 0; i < report->count; i++) {
    const struct doctor_finding *at = &report->findings[i];
    bool again = i > 0 && strcmp(at->check, report->findings[i - 1].check) == 0;
    table_print_text(out, terminal.color, styles[at->grade], doctor_grade_name(at->grade), GRADE);
    table_print_text(out, terminal.color, TABLE_BOLD, again ? "" : at->check, CHECK);
    write_wrapped(out, at->found, GRADE + CHECK);
    write_more(out, "means:", at->means);
    write_more(out, "mend: ", at->fix);
  }
  size_t problems = doctor_count(report, DOCTOR_PROBLEM), notes = doctor_count(report, DOCTOR_NOTE);
  fprintf(out, "\n%zu problem%s, %zu note%s, %zu ok\n", problems, problems == 1 ? "" : "s", notes,
          notes == 1 ? "" : "s", doctor_count(report, DOCTOR_OK));
}
