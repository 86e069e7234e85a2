// Reads the tables of nixlbench: ten columns today, and six in its first releases. Two more columns with the figures of
// all workers together follow if more than two workers moved data pairwise; the other columns are then of the first
// worker. Settings in the block before the table become keys.
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "compare/read/lines.h"
#include "compare/read/read.h"

// Columns by their headings, which contain blanks. The order of the headings that were found is the order of the
// numbers in a row. "Avg Lat." is no latency of a request: it is the time of all requests of an initiator, divided by
// all of their blocks, however many were under way at once. So it has another name than the latency of Weft's
// documents.
static const struct column {
  const char *heading, *figure, *unit;
  bool higher, detail;
} columns[] = {
    {"Block Size (B)", NULL, NULL, false, false},
    {"Batch Size", NULL, NULL, false, false},
    {"B/W (GB/Sec)", "bandwidth", "GB/s", true, false}, // 1e9 bytes
    {"B/W (MiB/Sec)", NULL, NULL, false, false},        // the same in other units
    {"B/W (GiB/Sec)", NULL, NULL, false, false},
    {"Avg Lat. (us)", "time_per_block", "us", false, false},
    {"Avg Prep (us)", "prep", "us", false, false},
    {"P99 Prep (us)", "prep_p99", "us", false, true},
    {"Avg Post (us)", "post", "us", false, false},
    {"P99 Post (us)", "post_p99", "us", false, true},
    {"Avg Tx (us)", "transfer", "us", false, false},
    {"P99 Tx (us)", "transfer_p99", "us", false, true},
    {"Aggregate B/W (GB/Sec)", "bandwidth", "GB/s", true, false}, // of all workers together, as Weft's bandwidth
    {"Network Util (%)", NULL, NULL, false, false},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static bool is_nixlbench(const struct compare_text *text) {
  return !text->json && lines_have(text, "Block Size (B)") && lines_have(text, "B/W (G");
}

struct table {
  const struct column *column[COLUMNS]; // from left to right
  size_t count;
};

static void read_heading(struct table *table, const char *line) {
  const char *places[COLUMNS];
  table->count = 0;
  for (size_t i = 0; i < COLUMNS; i++) {
    const char *at = strstr(line, columns[i].heading);
    size_t k = table->count;
    if (!at)
      continue;
    for (; k > 0 && places[k - 1] > at; k--) {
      places[k] = places[k - 1];
      table->column[k] = table->column[k - 1];
    }
    places[k] = at;
    table->column[k] = &columns[i];
    table->count++;
  }
}

// Names memory as Weft's own rows do; the GPU is not known.
static const char *memory_name(const char *segment) {
  return strcmp(segment, "DRAM") == 0 ? "host" : strcmp(segment, "VRAM") == 0 ? "cuda" : segment;
}

// Reads the value of an option, which becomes a key. nixlbench writes "Op type (--op_type=[READ,WRITE])   : WRITE",
// Weft writes "op_type (--op_type)   : WRITE".
static void read_setting(json_t *settings, const char *line) {
  static const struct {
    const char *option, *key;
  } known[] = {{"(--op_type", "op"},
               {"(--backend", "backend"},
               {"(--scheme", "scheme"},
               {"(--initiator_seg_type", "initiator_memory"},
               {"(--target_seg_type", "target_memory"},
               {"(--num_initiator_dev", "initiators"},
               {"(--num_target_dev", "targets"},
               {"(--num_threads", "threads"},
               {"(--pipeline_depth", "depth"}};
  const char *value = strrchr(line, ':');
  for (size_t i = 0; value && i < sizeof known / sizeof *known; i++) {
    const char *option = strstr(line, known[i].option);
    if (!option || !strchr("=)", option[strlen(known[i].option)]))
      continue;
    char text[64];
    double number;
    value += 1 + strspn(value + 1, " ");
    snprintf(text, sizeof text, "%.*s", (int)strcspn(value, " "), value);
    json_object_set_new(settings, known[i].key,
                        lines_number(text, &number) && number < 1e9 ? json_integer((json_int_t)number)
                                                                    : json_string(memory_name(text)));
    return;
  }
}

// Replaces the target by what a back end for storage reaches, whatever --target_seg_type says. There is only one
// process.
static void name_storage(json_t *keys) {
  const char *backend = json_string_value(json_object_get(keys, "backend"));
  bool files = backend && (strcmp(backend, "POSIX") == 0 || strncmp(backend, "GDS", 3) == 0);
  if (!files && (!backend || strcmp(backend, "OBJ") != 0))
    return;
  json_object_set_new(keys, "target_memory", json_string(files ? "file" : "object"));
  json_object_del(keys, "initiators");
  json_object_del(keys, "targets");
}

// With an aggregate column, the other bandwidth is that of the first worker alone.
static const char *figure_of(const struct table *table, const struct column *column) {
  bool aggregate = false;
  for (size_t i = 0; i < table->count; i++)
    aggregate |= strncmp(table->column[i]->heading, "Aggregate", 9) == 0;
  return aggregate && strcmp(column->heading, "B/W (GB/Sec)") == 0 ? "own_bandwidth" : column->figure;
}

// Whether the row is of `weft bench transfer`, which refused its figures and wrote "nan" for each of them.
static bool is_refused(const struct table *table, char **words) {
  for (size_t i = 0; i < table->count; i++)
    if (table->column[i]->figure && strcmp(words[i], "nan") != 0)
      return false;
  return true;
}

static int read_row(struct compare_run *run, const struct table *table, const struct lines *lines, char **words,
                    size_t count, const json_t *settings, uint32_t base) {
  double values[COLUMNS] = {0};
  if (count != table->count) // under an unknown heading, numbers would be read as those of another column
    return fail(WEFT_ERR_PROTOCOL, "line %u: has %zu numbers under %zu headings", lines->number, count, table->count);
  if (is_refused(table, words)) {
    if (run->left_out++ == 0)
      snprintf(run->why_left, sizeof run->why_left, "its figures are nan: the benchmark refused them");
    return 0;
  }
  json_t *keys = json_copy((json_t *)settings);
  int err = keys ? 0 : WEFT_ERR_NOMEM;
  name_storage(keys);
  for (size_t i = 0; !err && i < table->count; i++) {
    err = lines_want_number(lines, table->column[i]->heading, words[i], &values[i]);
    if (!err && values[i] < 9e15 && !table->column[i]->figure && strstr(table->column[i]->heading, "Size"))
      json_object_set_new(keys, table->column[i] == columns ? "bytes" : "batch", json_integer((json_int_t)values[i]));
  }
  if (err) {
    json_decref(keys);
    return err;
  }
  struct compare_row *row = compare_run_row(run, keys);
  err = row ? 0 : WEFT_ERR_NOMEM;
  for (size_t i = 0; !err && i < table->count; i++) {
    const struct column *column = table->column[i];
    struct compare_figure one = {.name = figure_of(table, column),
                                 .unit = column->unit,
                                 .higher = column->higher,
                                 .detail = column->detail,
                                 .value = values[i],
                                 .error = -1};
    if (column->figure)
      err = compare_row_add(run, row, base, &one);
  }
  return err;
}

static int read_nixlbench(struct compare_run *run, const struct compare_text *text, uint32_t base) {
  struct lines lines = lines_of(text);
  struct table table = {.count = 0};
  char *words[LINES_WORDS];
  json_t *settings = json_object();
  int err = settings ? compare_run_repeats(run, base + 1, 0) : fail(WEFT_ERR_NOMEM, "no memory for settings");
  while (!err && lines_next(&lines)) {
    if (strstr(lines.line, "Block Size (B)"))
      read_heading(&table, lines.line);
    else if (strstr(lines.line, "(--"))
      read_setting(settings, lines.line);
    else if (table.count > 0 && lines.line[0] >= '0' && lines.line[0] <= '9')
      err = read_row(run, &table, &lines, words, lines_words(lines.line, words), settings, base);
  }
  json_decref(settings);
  return err;
}

const struct compare_reader compare_read_nixlbench = {
    .name = "nixlbench table",
    .is = is_nixlbench,
    .read = read_nixlbench,
};
