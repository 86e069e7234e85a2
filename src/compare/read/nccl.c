// Reads the table of nccl-tests (and of rccl-tests, which is the same): for each size one row out of place and one in
// place. If it reports single iterations, their spread gives the error of the mean.
#include <math.h>
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "compare/read/lines.h"
#include "compare/read/read.h"

enum { SIDES = 2 };
static const char *const sides[SIDES] = {"out-of-place", "in-place"};

struct table {
  char head[LINES_MAX];
  char *names[LINES_WORDS]; // names of the columns, without the '#'
  size_t count;
  size_t side[SIDES]; // index of the side's first column, "time"; 0: the side is missing
  char collective[64];
  double iterations;
};

static bool is_nccl(const struct compare_text *text) {
  return !text->json && lines_have(text, "algbw") && lines_have(text, "busbw");
}

static void read_heading(struct table *table, const char *line) {
  snprintf(table->head, sizeof table->head, "%s", line + strspn(line, "# "));
  table->count = lines_words(table->head, table->names);
  size_t found = 0;
  memset(table->side, 0, sizeof table->side);
  for (size_t i = 0; i < table->count && found < SIDES; i++)
    if (strcmp(table->names[i], "time") == 0 || strcmp(table->names[i], "cputime") == 0)
      table->side[found++] = i;
}

// Reads facts about the whole run from lines with '#'.
static void read_comment(struct table *table, const char *line) {
  static const char starting[] = "Collective test starting: ";
  const char *name = strstr(line, starting);
  if (name) {
    name += sizeof starting - 1;
    snprintf(table->collective, sizeof table->collective, "%.*s", (int)strcspn(name, " "), name);
  }
  lines_number_after(line, " iters: ", &table->iterations);
  const char *again = strstr(line, "warmup iters: "); // the line has "iters:" twice; the first is the warm-up
  if (again)
    lines_number_after(again + 8, " iters: ", &table->iterations);
}

// The word of the row under that heading of a side; NULL: there is none. Some collectives print nothing under redop and
// root.
static const char *word_of(const struct table *table, char *const *words, size_t count, size_t side, const char *name) {
  size_t missing = table->count > count ? table->count - count : 0;
  size_t end = side == 0 && table->side[1] ? table->side[1] : table->count;
  for (size_t i = table->side[side]; i < end; i++)
    if (strcmp(table->names[i], name) == 0)
      return i >= missing && i - missing < count ? words[i - missing] : NULL;
  return NULL;
}

static json_t *keys_of(const struct table *table, char *const *words, size_t count, size_t side) {
  double bytes = 0;
  lines_number(words[0], &bytes);
  json_t *keys = json_pack("{s:I, s:s, s:s}", "bytes", (json_int_t)bytes, "type", words[2], "place", sides[side]);
  if (keys && *table->collective)
    json_object_set_new(keys, "op", json_string(table->collective));
  // If there are fewer words than headings, nothing is under redop.
  if (keys && table->side[0] >= 5 && strcmp(table->names[3], "redop") == 0 && count >= table->count)
    json_object_set_new(keys, "redop", json_string(words[3]));
  return keys;
}

static int add_side(struct compare_run *run, const struct table *table, const struct lines *lines, char *const *words,
                    size_t count, size_t side, uint32_t base) {
  static const struct {
    const char *heading, *figure, *unit;
    bool higher;
  } columns[] = {{"time", "latency", "us", false},
                 {"cputime", "cpu_time", "us", false},
                 {"algbw", "algorithm_bandwidth", "GB/s", true},
                 {"busbw", "bus_bandwidth", "GB/s", true}};
  const char *wrong = word_of(table, words, count, side, "#wrong"), *cv = word_of(table, words, count, side, "i_cv%");
  double bad = 0, spread = 0;
  if (wrong && lines_number(wrong, &bad) && bad > 0) {
    if (run->left_out++ == 0)
      snprintf(run->why_left, sizeof run->why_left, "line %u: %.0f wrong values", lines->number, bad);
    return 0;
  }
  struct compare_row *row = compare_run_row(run, keys_of(table, words, count, side));
  int err = row ? 0 : WEFT_ERR_NOMEM;
  for (size_t i = 0; !err && i < sizeof columns / sizeof *columns; i++) {
    const char *word = word_of(table, words, count, side, columns[i].heading);
    struct compare_figure one = {.name = columns[i].figure,
                                 .unit = columns[i].unit,
                                 .higher = columns[i].higher,
                                 .error = -1,
                                 .count = (uint64_t)table->iterations};
    if (!word || strcmp(word, "N/A") == 0)
      continue;
    err = lines_want_number(lines, columns[i].heading, word, &one.value);
    // Only the time was measured: the other figures follow from it.
    if (!err && i == 0 && cv && table->iterations > 1 && lines_number(cv, &spread))
      one.error = one.value * spread / 100 / sqrt(table->iterations);
    if (!err)
      err = compare_row_add(run, row, base, &one);
  }
  return err;
}

static int read_nccl(struct compare_run *run, const struct compare_text *text, uint32_t base) {
  enum { LEAST_WORDS = 6 }; // size, count, type, time and two bandwidths
  struct lines lines = lines_of(text);
  struct table table = {.count = 0};
  char *words[LINES_WORDS];
  double number;
  int err = compare_run_repeats(run, base + 1, 0);
  while (!err && lines_next(&lines)) {
    if (strchr(lines.line, '#') && strstr(lines.line, "algbw"))
      read_heading(&table, lines.line);
    else if (lines.line[strspn(lines.line, " ")] == '#')
      read_comment(&table, lines.line);
    else if (table.side[0] > 0) {
      size_t count = lines_words(lines.line, words);
      bool row = count >= LEAST_WORDS && lines_number(words[0], &number) && lines_number(words[1], &number);
      if (row && count + 2 < table.count)
        err = fail(WEFT_ERR_PROTOCOL, "line %u: has %zu words under %zu headings", lines.number, count, table.count);
      for (size_t side = 0; !err && row && side < SIDES && table.side[side]; side++)
        err = add_side(run, &table, &lines, words, count, side, base);
    }
  }
  return err;
}

const struct compare_reader compare_read_nccl = {.name = "nccl-tests table", .is = is_nccl, .read = read_nccl};
