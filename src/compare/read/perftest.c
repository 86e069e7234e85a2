// Reads the tables of perftest (ib_write_bw, ib_read_lat, ...). Bandwidth is in MB/sec of 2^20 bytes, as its sources
// count, in MiB/sec, or with --report_gbits in Gb/sec of 1e9 bits; here it becomes GB/s of 1e9 bytes. A bidirectional
// test prints the sum of both directions, so its figures have other names.
#include <math.h>
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "compare/read/lines.h"
#include "compare/read/read.h"

enum { MOST_COLUMNS = 16, HEADING = 48 };

struct table {
  char headings[MOST_COLUMNS][HEADING];
  size_t count;
  char op[16]; // WRITE, READ, SEND, ATOMIC
  char connection[16];
  bool titled, both; // both: the test moves data in both directions
  double qps;
};

static bool is_perftest(const struct compare_text *text) {
  return !text->json && lines_have(text, "#bytes") && lines_have(text, "#iterations");
}

// A heading ends with "]", or is one word that begins with '#'. "99% percentile[usec]" is one heading.
static void read_headings(struct table *table, char *line) {
  char *words[LINES_WORDS];
  size_t count = lines_words(line, words), used = 0;
  table->count = 0;
  for (size_t i = 0; i < count && table->count < MOST_COLUMNS; i++) {
    char *heading = table->headings[table->count];
    used += (size_t)snprintf(heading + used, used < HEADING ? HEADING - used : 0, "%s%s", used ? " " : "", words[i]);
    if (words[i][0] == '#' || words[i][strlen(words[i]) - 1] == ']' || used >= HEADING) {
      table->count++;
      used = 0;
    }
  }
}

// Reads titles such as "RDMA_Write BW Test", "Send Bidirectional Post List BW Test" and "RDMA_Read Latency Test".
static void read_title(struct table *table, const char *line) {
  static const struct {
    const char *word, *op;
  } ops[] = {{"Write", "WRITE"}, {"Read", "READ"}, {"Send", "SEND"}, {"Atomic", "ATOMIC"}};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (strstr(line, ops[i].word))
      snprintf(table->op, sizeof table->op, "%s", ops[i].op);
  table->titled = true;
  table->both = strstr(line, "Bidirectional") != NULL;
}

static void read_setting(struct table *table, const char *line) {
  static const char connection[] = "Connection type : ";
  const char *found = strstr(line, connection);
  if (found)
    snprintf(table->connection, sizeof table->connection, "%.*s", (int)strcspn(found + sizeof connection - 1, " "),
             found + sizeof connection - 1);
  if (strstr(line, "Number of qps"))
    lines_number_after(line, " : ", &table->qps);
}

// The figure that a column becomes, and the factor for its numbers. NULL: the column becomes none.
struct meaning {
  const char *figure, *unit;
  bool higher, detail;
  double factor;
};

static struct meaning meaning_of(const char *heading, bool both) {
  static const struct {
    const char *begins;
    struct meaning meaning;
  } known[] = {
      {"BW average[MB/sec]", {"bandwidth", "GB/s", true, false, 1048576 / 1e9}},
      {"BW average[MiB/sec]", {"bandwidth", "GB/s", true, false, 1048576 / 1e9}},
      {"BW average[Gb/sec]", {"bandwidth", "GB/s", true, false, 1 / 8.0}},
      {"MsgRate[Mpps]", {"messages", "1/s", true, false, 1e6}},
      {"t_avg[usec]", {"latency", "us", false, false, 1}},
      {"t_typical[usec]", {"latency_p50", "us", false, true, 1}},
      {"99% percentile[usec]", {"latency_p99", "us", false, true, 1}},
      {"99.9% percentile[usec]", {"latency_p999", "us", false, true, 1}},
      {"CPU_Util[%]", {"cpu", "percent", false, false, 1}},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(heading, known[i].begins) == 0) {
      struct meaning meaning = known[i].meaning;
      if (both && meaning.higher)
        meaning.figure = strcmp(meaning.figure, "messages") == 0 ? "both_messages" : "both_bandwidth";
      return meaning;
    }
  return (struct meaning){0};
}

static json_t *keys_of(const struct table *table, double bytes) {
  json_t *keys = json_pack("{s:I}", "bytes", (json_int_t)bytes);
  if (keys && *table->op)
    json_object_set_new(keys, "op", json_string(table->op));
  if (keys && table->titled)
    json_object_set_new(keys, "bidirectional", json_boolean(table->both));
  if (keys && *table->connection)
    json_object_set_new(keys, "connection", json_string(table->connection));
  if (keys && table->qps > 0)
    json_object_set_new(keys, "qps", json_integer((json_int_t)table->qps));
  return keys;
}

static bool has(const struct table *table, const char *heading) {
  for (size_t i = 0; i < table->count; i++)
    if (strcmp(table->headings[i], heading) == 0)
      return true;
  return false;
}

static int add_row(struct compare_run *run, const struct table *table, const double *values, uint32_t base) {
  double iterations = 0, deviation = -1;
  for (size_t i = 0; i < table->count; i++)
    if (strcmp(table->headings[i], "#iterations") == 0)
      iterations = values[i];
    else if (strcmp(table->headings[i], "t_stdev[usec]") == 0)
      deviation = values[i];
  struct compare_row *row = compare_run_row(run, keys_of(table, values[0]));
  int err = row ? 0 : WEFT_ERR_NOMEM;
  for (size_t i = 1; !err && i < table->count; i++) {
    struct meaning meaning = meaning_of(table->headings[i], table->both);
    struct compare_figure one = {.name = meaning.figure,
                                 .unit = meaning.unit,
                                 .higher = meaning.higher,
                                 .detail = meaning.detail,
                                 .value = values[i] * meaning.factor,
                                 .error = -1,
                                 .count = (uint64_t)iterations};
    if (strcmp(table->headings[i], "t_avg[usec]") == 0 && deviation >= 0 && iterations > 1)
      one.error = deviation / sqrt(iterations);
    // Releases without t_avg have only the median.
    if (strcmp(table->headings[i], "t_typical[usec]") == 0 && !has(table, "t_avg[usec]")) {
      one.name = "latency";
      one.detail = false;
    }
    if (one.name)
      err = compare_row_add(run, row, base, &one);
  }
  return err;
}

static int read_row(struct compare_run *run, const struct table *table, const struct lines *lines, char **words,
                    size_t count, uint32_t base) {
  double values[MOST_COLUMNS];
  int err = 0;
  if (count != table->count)
    err = fail(WEFT_ERR_PROTOCOL, "line %u: has %zu numbers under %zu headings", lines->number, count, table->count);
  for (size_t i = 0; !err && i < count; i++)
    err = lines_want_number(lines, table->headings[i], words[i], &values[i]);
  if (!err && (values[0] >= 9e15 || values[1] >= 9e15))
    err = fail(WEFT_ERR_PROTOCOL, "line %u: a size or a count that is too large", lines->number);
  return err ? err : add_row(run, table, values, base);
}

static int read_perftest(struct compare_run *run, const struct compare_text *text, uint32_t base) {
  struct lines lines = lines_of(text);
  struct table table = {.count = 0};
  char *words[LINES_WORDS];
  double number;
  int err = compare_run_repeats(run, base + 1, 0);
  while (!err && lines_next(&lines)) {
    if (strstr(lines.line, "#bytes"))
      read_headings(&table, lines.line);
    else if (strstr(lines.line, " Test"))
      read_title(&table, lines.line);
    else if (strstr(lines.line, " : ") || strstr(lines.line, "---"))
      read_setting(&table, lines.line);
    else if (table.count >= 3) {
      size_t count = lines_words(lines.line, words);
      if (count >= 3 && lines_number(words[0], &number) && lines_number(words[1], &number))
        err = read_row(run, &table, &lines, words, count, base);
    }
  }
  return err;
}

const struct compare_reader compare_read_perftest = {
    .name = "perftest table",
    .is = is_perftest,
    .read = read_perftest,
};
