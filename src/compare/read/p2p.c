// Reads what `weft p2p --json` and `--csv` print. Both have the same names for the same columns.
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "compare/read/lines.h"
#include "compare/read/read.h"

// The numbers of a result: their names in JSON and CSV, and the figures that they become.
static const struct {
  const char *name, *figure, *unit;
  bool higher, detail;
} columns[] = {
    {"latency_avg_us", "latency", "us", false, false},
    {"latency_p50_us", "latency_p50", "us", false, true},
    {"latency_p99_us", "latency_p99", "us", false, true},
    {"latency_p999_us", "latency_p999", "us", false, true},
    {"per_second", "messages", "1/s", true, false},
    {"gb_per_second", "bandwidth", "GB/s", true, false},
    {"peer_gb_per_second", "peer_bandwidth", "GB/s", true, false},
};

// The keys of the row; negative or empty: not known.
struct result {
  double bytes, iterations, depth;
  const char *op, *transport, *initiator, *target;
  int both; // 1: the peer moved data at the same time; 0: it did not
};

static json_t *keys_of(const struct result *result) {
  const char *op = strcasecmp(result->op, "write") == 0 ? "WRITE" : strcasecmp(result->op, "read") == 0 ? "READ" : NULL;
  json_t *keys = json_pack("{s:s, s:I, s:I, s:s}", "op", op ? op : result->op, "bytes", (json_int_t)result->bytes,
                           "depth", (json_int_t)result->depth, "transport", result->transport);
  if (keys && result->initiator)
    json_object_set_new(keys, "initiator_memory", json_string(result->initiator));
  if (keys && result->target)
    json_object_set_new(keys, "target_memory", json_string(result->target));
  if (keys && result->both >= 0)
    json_object_set_new(keys, "bidirectional", json_boolean(result->both));
  return keys;
}

static int add(struct compare_run *run, uint32_t base, const struct result *result, size_t column, double value) {
  struct compare_row *row = compare_run_row(run, keys_of(result));
  struct compare_figure one = {.name = columns[column].figure,
                               .unit = columns[column].unit,
                               .higher = columns[column].higher,
                               .detail = columns[column].detail,
                               .value = value,
                               .error = -1,
                               .count = (uint64_t)result->iterations};
  return row ? compare_row_add(run, row, base, &one) : WEFT_ERR_NOMEM;
}

static int check(const struct result *result) {
  const double most = 9e15; // larger integers are not exact
  const double numbers[] = {result->bytes, result->iterations, result->depth};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (!(numbers[i] >= 0 && numbers[i] < most))
      return fail(WEFT_ERR_PROTOCOL, "bytes, iterations or at_once: want whole numbers from 0 on");
  if (!result->op || !result->transport)
    return fail(WEFT_ERR_PROTOCOL, "operation or transport: is missing");
  return 0;
}

// The row keeps its latencies, but has no rates.
static void note_refusal(struct compare_run *run, const char *why) {
  if (why && *why && run->without_rates++ == 0)
    snprintf(run->why_without, sizeof run->why_without, "%s", why);
}

// --- JSON ---

static bool is_json(const struct compare_text *text) {
  return json_is_array(json_object_get(text->json, "results")) && json_object_get(text->json, "initiator_memory");
}

static double number_of(const json_t *object, const char *name) {
  const json_t *value = json_object_get(object, name);
  return json_is_number(value) ? json_number_value(value) : -1;
}

static int add_object(struct compare_run *run, const json_t *all, const json_t *object, uint32_t base) {
  struct result result = {.bytes = number_of(object, "bytes"),
                          .iterations = number_of(object, "iterations"),
                          .depth = number_of(object, "at_once"),
                          .op = json_string_value(json_object_get(object, "operation")),
                          .transport = json_string_value(json_object_get(object, "transport")),
                          .initiator = json_string_value(json_object_get(all, "initiator_memory")),
                          .target = json_string_value(json_object_get(all, "target_memory"))};
  const json_t *both = json_object_get(all, "bidirectional");
  result.both = json_is_boolean(both) ? json_is_true(both) : -1;
  int err = check(&result);
  note_refusal(run, json_string_value(json_object_get(object, "refused")));
  for (size_t i = 0; !err && i < sizeof columns / sizeof *columns; i++) {
    const json_t *value = json_object_get(object, columns[i].name);
    if (value && !json_is_number(value))
      return fail(WEFT_ERR_PROTOCOL, "%s: is not a number", columns[i].name);
    if (value)
      err = add(run, base, &result, i, json_number_value(value));
  }
  return err;
}

static int read_json(struct compare_run *run, const struct compare_text *text, uint32_t base) {
  const json_t *results = json_object_get(text->json, "results"), *object;
  int err = compare_run_repeats(run, base + 1, 0);
  if (json_is_false(json_object_get(text->json, "complete")))
    snprintf(run->remark, sizeof run->remark, "not all was measured: the benchmark was cut short");
  for (size_t i = 0; !err && (object = json_array_get(results, i)); i++) {
    err = add_object(run, text->json, object, base);
    if (err)
      fail_context(err, "results[%zu]", i);
  }
  return err;
}

// --- CSV ---

static const char csv_head[] = "operation,bytes,iterations,";

static bool is_csv(const struct compare_text *text) {
  return text->size >= sizeof csv_head && strncmp(text->data, csv_head, sizeof csv_head - 1) == 0;
}

// Cuts off the first cell at its comma, and removes its quotes, both in place. The reason of a refused rate may have
// commas and quotes.
static char *take_cell(char **line) {
  char *cell = *line, *to = cell, *from = cell;
  bool quoted = false;
  for (; *from && (quoted || *from != ','); from++) {
    if (*from == '"' && quoted && from[1] == '"')
      *to++ = *from++;
    else if (*from == '"')
      quoted = !quoted;
    else
      *to++ = *from;
  }
  *line = *from ? from + 1 : NULL;
  *to = '\0';
  return cell;
}

static size_t cells_of(char *line, char *cells[LINES_WORDS]) {
  size_t count = 0;
  while (count < LINES_WORDS && line)
    cells[count++] = take_cell(&line);
  while (count > 0 && cells[count - 1][0] && cells[count - 1][strlen(cells[count - 1]) - 1] == ' ')
    cells[count - 1][strlen(cells[count - 1]) - 1] = '\0'; // a carriage return
  return count;
}

static const char *cell(char *const *names, char *const *cells, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(names[i], name) == 0)
      return cells[i];
  return NULL;
}

// Whether the peer moved data at the same time, which one rate of the peer in any row shows; negative: no such column.
static int find_both(const struct compare_text *text) {
  struct lines lines = lines_of(text);
  char head[LINES_MAX], *names[LINES_WORDS], *cells[LINES_WORDS];
  if (!lines_next(&lines))
    return -1;
  snprintf(head, sizeof head, "%s", lines.line);
  size_t count = cells_of(head, names);
  int both = cell(names, names, count, "peer_gb_per_second") ? 0 : -1;
  while (both == 0 && lines_next(&lines))
    if (cells_of(lines.line, cells) == count)
      both = *cell(names, cells, count, "peer_gb_per_second") != '\0';
  return both;
}

static int add_record(struct compare_run *run, const struct lines *lines, char *const *names, char *const *cells,
                      size_t count, int both, uint32_t base) {
  static const char *const wanted[] = {"bytes", "iterations", "at_once"};
  struct result result = {.op = cell(names, cells, count, "operation"),
                          .transport = cell(names, cells, count, "transport"),
                          .initiator = cell(names, cells, count, "initiator_memory"),
                          .target = cell(names, cells, count, "target_memory"),
                          .both = both};
  double *const numbers[] = {&result.bytes, &result.iterations, &result.depth};
  int err = 0;
  for (size_t i = 0; !err && i < 3; i++) {
    const char *text = cell(names, cells, count, wanted[i]);
    err = lines_want_number(lines, wanted[i], text ? text : "", numbers[i]);
  }
  if (!err)
    err = check(&result);
  note_refusal(run, cell(names, cells, count, "refused"));
  for (size_t i = 0; !err && i < sizeof columns / sizeof *columns; i++) {
    const char *text = cell(names, cells, count, columns[i].name);
    double value = 0;
    if (text && *text)
      err = lines_want_number(lines, columns[i].name, text, &value);
    if (!err && text && *text)
      err = add(run, base, &result, i, value);
  }
  return err;
}

static int read_csv(struct compare_run *run, const struct compare_text *text, uint32_t base) {
  struct lines lines = lines_of(text);
  char head[LINES_MAX], *names[LINES_WORDS], *cells[LINES_WORDS];
  if (!lines_next(&lines))
    return fail(WEFT_ERR_PROTOCOL, "no line of names");
  snprintf(head, sizeof head, "%s", lines.line);
  size_t count = cells_of(head, names);
  int err = compare_run_repeats(run, base + 1, 0), both = find_both(text);
  while (!err && lines_next(&lines)) {
    if (lines.line[strspn(lines.line, " ")] == '\0')
      continue;
    size_t found = cells_of(lines.line, cells);
    if (found != count)
      err = fail(WEFT_ERR_PROTOCOL, "line %u: has %zu values, where the first line has %zu names", lines.number, found,
                 count);
    else
      err = add_record(run, &lines, names, cells, count, both, base);
  }
  return err;
}

const struct compare_reader compare_read_p2p_json = {.name = "weft p2p JSON", .is = is_json, .read = read_json};
const struct compare_reader compare_read_p2p_csv = {.name = "weft p2p CSV", .is = is_csv, .read = read_csv};
