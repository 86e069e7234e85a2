// Reads what `weft bench --csv` writes (bench/common/output_csv.c): a line of names, then one record for each row.
//
// The first column is the run. The keys, the figures, and "slowest" and "refused" follow. A figure is one column,
// NAME_UNIT, or the seven columns of a distribution, NAME_UNIT_mean to NAME_UNIT_max. In both cases NAME_bound follows,
// which shows where the name ends and the unit begins. All columns between the run and the first figure are keys.
#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "base/printable.h"
#include "compare/read/lines.h"
#include "compare/read/read.h"

enum { MOST_COLUMNS = 1024, MOST_REPEATS = 10000, PARTS = 7 };

static const char first_name[] = "run,";

static const struct {
  const char *name;
  double percentile; // 0: the mean; negative: not compared
} parts[PARTS] = {{"mean", 0}, {"min", -1}, {"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}, {"max", -1}};

// --- records (RFC 4180) ---

struct reader {
  char *at;                     // in a copy of the text, in which quotes are removed in place
  unsigned number, next_number; // line where the record begins, and the line after it
  size_t count;
  char *cells[MOST_COLUMNS];
};

// Moves to the end of the cell, and removes the cell's quotes. Returns the character that ended it: a comma, a line
// break or 0.
static char take_cell(struct reader *reader) {
  char *to = reader->at, *from = reader->at;
  bool quoted = false;
  for (; *from && (quoted || (*from != ',' && *from != '\n')); from++) {
    reader->next_number += *from == '\n';
    if (*from == '"' && quoted && from[1] == '"')
      *to++ = *from++;
    else if (*from == '"')
      quoted = !quoted;
    else
      *to++ = *from;
  }
  char end = *from;
  reader->next_number += end == '\n';
  reader->at = end ? from + 1 : from;
  if (end != ',' && to > reader->cells[reader->count] && to[-1] == '\r')
    to--;
  *to = '\0';
  printable_line(reader->cells[reader->count]);
  return end;
}

// Reads the next record that is not empty. False: there is none, or it has too many cells (see `count`).
static bool next_record(struct reader *reader) {
  do {
    char end = ',';
    reader->number = reader->next_number;
    for (reader->count = 0; end == ','; reader->count++) {
      if (reader->count == MOST_COLUMNS)
        return false;
      reader->cells[reader->count] = reader->at;
      end = take_cell(reader);
    }
  } while (*reader->at && reader->count == 1 && !*reader->cells[0]);
  return reader->count > 1 || *reader->cells[0];
}

// --- the line of names ---

struct column {
  const char *name, *unit; // NULL for the unit of a key
  size_t width;            // columns without the bound: 1, or PARTS
};

struct head {
  size_t count, num_keys, num_figures;
  struct column columns[MOST_COLUMNS]; // keys, then figures
};

static bool ends_with(const char *text, const char *end) {
  size_t size = strlen(text), tail = strlen(end);
  return size > tail && strcmp(text + size - tail, end) == 0;
}

// Whether the columns from `cells` on are those of a figure whose name has `name` bytes; `width` columns come before
// its bound. Separates the name from the unit.
static bool is_figure(char *const *cells, size_t width, size_t name, struct column *column) {
  size_t size = strlen(cells[0]), mean = strlen("_mean");
  if (strncmp(cells[0], cells[width], name) != 0 || cells[0][name] != '_')
    return false;
  if (width == PARTS)
    size -= ends_with(cells[0], "_mean") && size > name + 1 + mean ? mean : size;
  for (size_t i = 1; i < width; i++)
    if (size == 0 || strncmp(cells[i], cells[0], size) != 0 || cells[i][size] != '_' ||
        strcmp(cells[i] + size + 1, parts[i].name) != 0)
      return false;
  if (memchr(cells[0] + name + 1, '_', size - name - 1))
    return false; // no unit
  cells[0][name] = cells[0][size] = '\0';
  *column = (struct column){.name = cells[0], .unit = cells[0] + name + 1, .width = width};
  return true;
}

static bool find_figure(char *const *cells, size_t left, struct column *column) {
  for (size_t width = 1; width <= PARTS && width < left; width += PARTS - 1)
    if (ends_with(cells[width], "_bound") && is_figure(cells, width, strlen(cells[width]) - strlen("_bound"), column))
      return true;
  return false;
}

static int no_columns(const char *what, const char *name) {
  return fail(WEFT_ERR_PROTOCOL,
              "line 1: %s%s%s: want the columns of 'weft bench --csv': run, keys, figures with their bounds, slowest, "
              "refused",
              what, *name ? " " : "", name);
}

// `reader` has the line of names.
static int read_head(const struct reader *reader, struct head *head) {
  size_t end = reader->count - 2, at = 1;
  head->count = reader->count;
  while (at < end) {
    struct column *column = &head->columns[head->num_keys + head->num_figures];
    if (find_figure(reader->cells + at, end - at, column)) {
      head->num_figures++;
      at += column->width + 1;
    } else if (head->num_figures > 0 || ends_with(reader->cells[at], "_bound")) {
      return no_columns("this is not a column of a figure:", reader->cells[at]);
    } else {
      *column = (struct column){.name = reader->cells[at], .width = 1};
      head->num_keys++;
      at++;
    }
  }
  return head->num_figures > 0 ? 0 : no_columns("there is no figure", "");
}

// --- rows ---

// CSV does not say which values are numbers or booleans, so this finds the value that JSON would have.
static json_t *key_value(const char *text) {
  size_t digits = strspn(text + (*text == '-'), "0123456789");
  if (digits > 0 && digits < 18 && text[digits + (*text == '-')] == '\0')
    return json_integer(strtoll(text, NULL, 10));
  if (strcmp(text, "yes") == 0 || strcmp(text, "no") == 0)
    return json_boolean(*text == 'y');
  return json_string(text);
}

static json_t *keys_of(const struct reader *reader, const struct head *head) {
  json_t *keys = json_object();
  int failed = 0;
  for (size_t i = 0; i < head->num_keys; i++)
    if (*reader->cells[1 + i])
      failed |= json_object_set_new(keys, head->columns[i].name, key_value(reader->cells[1 + i]));
  if (!failed)
    return keys;
  json_decref(keys);
  return NULL;
}

static int want_number(const struct reader *reader, const char *what, const char *text, double *value) {
  return lines_number(text, value)
             ? 0
             : fail(WEFT_ERR_PROTOCOL, "line %u: %s is \"%.40s\": want a number", reader->number, what, text);
}

static int add_figure(struct compare_run *run, struct compare_row *row, uint32_t repeat, const struct reader *reader,
                      const struct column *column, char *const *cells) {
  bool rate = strcmp(column->unit, "GB/s") == 0 || strcmp(column->unit, "1/s") == 0;
  for (size_t i = 0; i < column->width; i++) {
    char name[COMPARE_NAME];
    double percentile = column->width == 1 ? 0 : parts[i].percentile, value;
    if (!*cells[i] || percentile < 0)
      continue;
    snprintf(name, sizeof name, "%s%s%s", column->name, percentile > 0 ? "_" : "", percentile > 0 ? parts[i].name : "");
    int err = want_number(reader, name, cells[i], &value);
    if (err)
      return err;
    const struct compare_figure one = {.name = name,
                                       .unit = column->unit,
                                       .higher = rate,
                                       .detail = percentile > 0,
                                       .value = value,
                                       .percentile = percentile,
                                       .error = -1};
    err = compare_row_add(run, row, repeat, &one);
    if (err)
      return fail_context(err, "line %u", reader->number);
  }
  return 0;
}

static int add_row(struct compare_run *run, uint32_t base, const struct reader *reader, const struct head *head) {
  double repeat;
  int err = want_number(reader, "run", reader->cells[0], &repeat);
  if (!err && !(repeat >= 0 && repeat < MOST_REPEATS && repeat == (uint32_t)repeat))
    err = fail(WEFT_ERR_PROTOCOL, "line %u: run is %s: want a whole number below %d", reader->number, reader->cells[0],
               MOST_REPEATS);
  if (!err)
    err = compare_run_repeats(run, base + (uint32_t)repeat + 1, 0);
  if (err)
    return err;
  const char *refused = reader->cells[reader->count - 1];
  if (*refused) {
    if (run->left_out++ == 0)
      snprintf(run->why_left, sizeof run->why_left, "%s", refused);
    return 0;
  }
  json_t *keys = keys_of(reader, head);
  struct compare_row *row = keys ? compare_run_row(run, keys) : NULL;
  if (!row)
    return fail(WEFT_ERR_NOMEM, "no memory for the rows");
  char *const *cells = reader->cells + 1 + head->num_keys;
  for (size_t i = 0; !err && i < head->num_figures; i++) {
    const struct column *column = &head->columns[head->num_keys + i];
    if (strcmp(column->name, COMPARE_READ_DIFFERENCE) != 0)
      err = add_figure(run, row, base + (uint32_t)repeat, reader, column, cells);
    cells += column->width + 1;
  }
  return err;
}

static int read_rows(struct compare_run *run, struct reader *reader, struct head *head, uint32_t base) {
  if (!next_record(reader))
    return fail(WEFT_ERR_PROTOCOL, "line 1: has more than %d columns", MOST_COLUMNS);
  int err = read_head(reader, head);
  while (!err && *reader->at) {
    bool whole = next_record(reader);
    if (!whole && reader->count < MOST_COLUMNS)
      break; // empty lines at the end of the text
    if (reader->count != head->count)
      err = fail(WEFT_ERR_PROTOCOL, "line %u: has %zu values, where the first line has %zu names", reader->number,
                 reader->count, head->count);
    else
      err = add_row(run, base, reader, head);
  }
  return err;
}

static bool is_csv(const struct compare_text *text) {
  static const char last[] = ",slowest,refused";
  size_t line = strcspn(text->data, "\r\n");
  return line >= sizeof first_name + sizeof last && strncmp(text->data, first_name, sizeof first_name - 1) == 0 &&
         strncmp(text->data + line - (sizeof last - 1), last, sizeof last - 1) == 0;
}

static int read_csv(struct compare_run *run, const struct compare_text *text, uint32_t base) {
  struct reader *reader = calloc(1, sizeof *reader);
  struct head *head = calloc(1, sizeof *head);
  char *copy = strndup(text->data, text->size);
  int err = WEFT_ERR_NOMEM;
  if (reader && head && copy) {
    reader->at = copy;
    reader->next_number = 1;
    err = read_rows(run, reader, head, base);
  } else {
    fail(WEFT_ERR_NOMEM, "no memory to read it");
  }
  free(copy);
  free(head);
  free(reader);
  return err;
}

const struct compare_reader compare_read_figures_csv = {.name = "weft bench CSV", .is = is_csv, .read = read_csv};
