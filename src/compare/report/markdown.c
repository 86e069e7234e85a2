// A table for a pull request: changes are at the top, the rest is folded.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "compare/report/words.h"

static const char *const marks[] = {[COMPARE_SAME] = "same",
                                    [COMPARE_BETTER] = "**better**",
                                    [COMPARE_WORSE] = "**worse**",
                                    [COMPARE_UNKNOWN] = "no interval"};

// Escapes all characters that Markdown or HTML would not read as plain text, since labels and reasons may have any
// source.
static void put_text(FILE *out, const char *text) {
  for (; *text; text++)
    if (strchr("|\\`*_[]", *text))
      fprintf(out, "\\%c", *text);
    else if (*text == '<' || *text == '&' || *text == '@') // prevents tags and mentions of users
      fprintf(out, "&#%d;", *text);
    else
      fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
}

static void put(FILE *out, const char *text) {
  fputc(' ', out);
  put_text(out, text);
  fputs(" |", out);
}

static void put_head(FILE *out, const struct comparison *comparison, const json_t *columns) {
  size_t index;
  json_t *key;
  fputs("|", out);
  json_array_foreach(columns, index, key) put(out, json_string_value(key));
  if (comparison->num_runs > 2)
    put(out, "run");
  put(out, "figure");
  put(out, comparison->runs[0].label);
  put(out, comparison->num_runs > 2 ? "value" : comparison->runs[1].label);
  fputs(" change | 95 % interval | |\n|", out);
  for (size_t i = 0; i < json_array_size(columns) + (comparison->num_runs > 2) + 1; i++)
    fputs(" --- |", out);
  fputs(" ---: | ---: | ---: | ---: | --- |\n", out);
}

static void put_line(FILE *out, const struct comparison *comparison, const struct compare_line *line,
                     const json_t *columns) {
  char cell[WORDS_CELL], name[2 * WORDS_CELL];
  size_t index;
  json_t *key;
  fputs("|", out);
  json_array_foreach(columns, index, key) {
    char *text = words_key(line->keys, json_string_value(key));
    put(out, text ? text : "");
    free(text);
  }
  if (comparison->num_runs > 2)
    put(out, comparison->runs[line->run].label);
  snprintf(name, sizeof name, "%s (%s)", line->figure, line->unit);
  put(out, name);
  put(out, words_number(line->change.baseline, cell));
  put(out, words_number(line->change.value, cell));
  put(out, words_change(line, cell));
  put(out, words_interval(line, cell));
  fprintf(out, " %s%s |\n", marks[line->verdict], line->beyond ? ", beyond the limit" : "");
}

static void put_lines(FILE *out, const struct comparison *comparison, const json_t *columns, bool changed) {
  bool begun = false;
  for (size_t i = 0; i < comparison->num_lines; i++) {
    const struct compare_line *line = &comparison->lines[i];
    if ((line->verdict == COMPARE_SAME) == changed)
      continue;
    if (!begun) {
      if (!changed)
        fprintf(out, "<details><summary>%zu unchanged</summary>\n\n", comparison->counts[COMPARE_SAME]);
      put_head(out, comparison, columns);
    }
    begun = true;
    put_line(out, comparison, line, columns);
  }
  if (begun)
    fputs(changed ? "\n" : "\n</details>\n\n", out);
}

int compare_write_markdown(FILE *out, const struct comparison *comparison) {
  json_t *columns = words_columns(comparison);
  char *summary = words_summary(comparison), *notes = words_notes(comparison);
  if (columns && summary && notes) {
    fprintf(out, "**%s**\n\n", summary);
    put_lines(out, comparison, columns, true);
    put_lines(out, comparison, columns, false);
    size_t only = json_array_size(comparison->only_in);
    if (only > 0)
      fprintf(out, "%zu row%s only one run has.\n\n", only, only == 1 ? " that" : "s that");
    fputs("<sub>", out);
    put_text(out, notes);
    fputs("</sub>\n", out);
  }
  bool whole = columns && summary && notes;
  json_decref(columns);
  free(summary);
  free(notes);
  if (!whole)
    return fail(WEFT_ERR_NOMEM, "no memory for the table");
  return fflush(out) == 0 && !ferror(out) ? 0 : fail_errno(errno, "cannot write the comparison");
}
