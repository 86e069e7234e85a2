// The table for people.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/table.h"
#include "base/text/text.h"
#include "base/text/wrap.h"
#include "compare/report/words.h"

enum { MOST_KEYS = 12, MOST_ONLY = 10 };

static const struct {
  const char *mark, *plain;
  enum table_style style;
} marks[] = {[COMPARE_SAME] = {"·", ".", TABLE_DIM},
             [COMPARE_BETTER] = {"▲", "+", TABLE_GREEN},
             [COMPARE_WORSE] = {"▼", "!", TABLE_RED},
             [COMPARE_UNKNOWN] = {"?", "?", TABLE_YELLOW}};

static bool is_number(const struct comparison *comparison, const char *key) {
  for (size_t i = 0; i < comparison->num_lines; i++) {
    const json_t *value = json_object_get(comparison->lines[i].keys, key);
    if (value && !json_is_integer(value))
      return false;
  }
  return true;
}

static size_t lay_out(const struct comparison *comparison, const json_t *keys, struct table_column *columns,
                      size_t *num_keys) {
  size_t count = 0, index;
  json_t *key;
  json_array_foreach(keys, index, key) {
    const char *name = json_string_value(key);
    if (index < MOST_KEYS)
      columns[count++] = (struct table_column){
          .heading = name, .right = is_number(comparison, name), .spare = index > 2 ? (unsigned)index : 0};
  }
  *num_keys = count;
  if (comparison->num_runs > 2)
    columns[count++] = (struct table_column){.heading = "run"};
  columns[count++] = (struct table_column){.heading = "figure"};
  columns[count++] = (struct table_column){.heading = "unit", .spare = 30};
  columns[count++] = (struct table_column){.heading = comparison->runs[0].label, .right = true};
  columns[count++] =
      (struct table_column){.heading = comparison->num_runs > 2 ? "value" : comparison->runs[1].label, .right = true};
  columns[count++] = (struct table_column){.heading = "change", .right = true};
  columns[count++] = (struct table_column){.heading = "95 % interval", .right = true, .spare = 1};
  columns[count++] = (struct table_column){.heading = "verdict"};
  return count;
}

static void add_row(struct table *table, const struct comparison *comparison, const struct compare_line *line,
                    const json_t *keys, size_t num_keys, bool unicode) {
  char cell[WORDS_CELL];
  table_row(table);
  for (size_t i = 0; i < num_keys; i++) {
    char *text = words_key(line->keys, json_string_value(json_array_get(keys, i)));
    table_add(table, TABLE_PLAIN, "%s", text ? text : "");
    free(text);
  }
  enum table_style style = marks[line->verdict].style;
  if (comparison->num_runs > 2)
    table_add(table, TABLE_PLAIN, "%s", comparison->runs[line->run].label);
  table_add(table, TABLE_PLAIN, "%s", line->figure);
  table_add(table, TABLE_DIM, "%s", line->unit);
  table_add(table, TABLE_PLAIN, "%s", words_number(line->change.baseline, cell));
  table_add(table, TABLE_PLAIN, "%s", words_number(line->change.value, cell));
  table_add(table, style, "%s", words_change(line, cell));
  table_add(table, TABLE_DIM, "%s", words_interval(line, cell));
  table_add(table, style, "%s %s%s", unicode ? marks[line->verdict].mark : marks[line->verdict].plain,
            line->verdict == COMPARE_UNKNOWN ? "no interval" : compare_verdict_names[line->verdict],
            line->beyond ? ", beyond limit" : "");
}

static void write_runs(FILE *out, const struct comparison *comparison, size_t width) {
  for (size_t i = 0; i < comparison->num_runs; i++) {
    const struct compare_run *run = &comparison->runs[i];
    struct text text = {0};
    text_add(&text, "%s: %s, %s, %u repeat%s", run->label, run->path ? run->path : "", run->format, run->num_repeats,
             text_s(run->num_repeats));
    if (text.data)
      wrap_write(out, text.data, 0, 2, width);
    text_free(&text);
  }
  fputc('\n', out);
}

static void write_only(FILE *out, const struct comparison *comparison, size_t width) {
  size_t index;
  json_t *one;
  json_array_foreach(comparison->only_in, index, one) {
    if (index == MOST_ONLY) {
      fprintf(out, "and %zu more\n", json_array_size(comparison->only_in) - index);
      break;
    }
    struct text text = {0};
    const char *key;
    json_t *value;
    text_add(&text, "only in %s:", json_string_value(json_object_get(one, "run")));
    json_object_foreach(json_object_get(one, "keys"), key, value) {
      char *shown = words_key(json_object_get(one, "keys"), key);
      text_add(&text, " %s=%s", key, shown ? shown : "?");
      free(shown);
    }
    if (text.data)
      wrap_write(out, text.data, 0, 2, width);
    text_free(&text);
  }
}

// Writes the notes; each line of them is a paragraph.
static void write_end(FILE *out, const struct comparison *comparison, const char *summary, const char *notes,
                      const struct compare_look *look, size_t width) {
  fputc('\n', out);
  write_only(out, comparison, width);
  enum table_style style = comparison->counts[COMPARE_WORSE] ? TABLE_RED : TABLE_BOLD;
  if (table_width(summary) > width)
    wrap_write(out, summary, 0, 0, width);
  else
    table_print_text(out, look->color, style, summary, 0);
  fputs(table_width(summary) > width ? "\n" : "\n\n", out);
  wrap_write(out, notes, 0, 0, width);
}

int compare_write_table(FILE *out, const struct comparison *comparison, const struct compare_look *look) {
  struct table_column columns[TABLE_MAX_COLUMNS];
  size_t num_keys, prose = look->width && look->width < 100 ? look->width : 100;
  json_t *keys = words_columns(comparison);
  char *summary = words_summary(comparison), *notes = words_notes(comparison);
  struct table table = {.columns = columns};
  bool whole = keys && summary && notes;
  if (whole) {
    if (notes[0] && notes[strlen(notes) - 1] == '\n')
      notes[strlen(notes) - 1] = '\0';
    table.num_columns = lay_out(comparison, keys, columns, &num_keys);
    for (size_t i = 0; i < comparison->num_lines; i++)
      add_row(&table, comparison, &comparison->lines[i], keys, num_keys, look->unicode);
    whole = !table.failed;
    struct table_look how = {.color = look->color, .unicode = look->unicode, .width = look->width};
    write_runs(out, comparison, prose);
    table_print(out, &table, &how);
    write_end(out, comparison, summary, notes, look, prose);
  }
  table_free(&table);
  json_decref(keys);
  free(summary);
  free(notes);
  if (!whole)
    return fail(WEFT_ERR_NOMEM, "no memory for the table");
  return fflush(out) == 0 && !ferror(out) ? 0 : fail_errno(errno, "cannot write the comparison");
}
