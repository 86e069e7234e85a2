// Reads matrices from text: each row is a sender, each column a receiver.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "bench/traffic/pattern.h"

enum { MAX_TEXT = 16 << 20, SHOWN = 32, MAX_DIGITS = 15 };

// By how many bits a unit shifts; -1 if it is no unit.
static int unit_shift(const char *unit, size_t size) {
  static const char letters[] = "kmgt";
  if (size == 0 || (size == 1 && (*unit | 0x20) == 'b'))
    return 0;
  const char *letter = strchr(letters, *unit | 0x20);
  if (!letter || !*letter)
    return -1;
  bool rest = size == 1 || (size == 2 && strncasecmp(unit + 1, "B", 1) == 0) ||
              (size == 3 && strncasecmp(unit + 1, "iB", 2) == 0);
  return rest ? 10 * (int)(letter - letters + 1) : -1;
}

static size_t digits_at(const char *text, size_t size) {
  size_t count = 0;
  while (count < size && text[count] >= '0' && text[count] <= '9')
    count++;
  return count;
}

bool traffic_size_parse(const char *text, size_t size, uint64_t *bytes) {
  size_t whole = digits_at(text, size), at = whole, fraction = 0;
  if (at < size && text[at] == '.') {
    fraction = digits_at(text + at + 1, size - at - 1);
    at += 1 + fraction;
  }
  int shift = unit_shift(text + at, size - at);
  if (whole == 0 || whole > MAX_DIGITS || fraction > MAX_DIGITS || text[at - 1] == '.' || shift < 0)
    return false;
  uint64_t count = 0;
  for (size_t i = 0; i < whole; i++)
    count = count * 10 + (uint64_t)(text[i] - '0');
  uint64_t part = 0, scale = 1; // the fraction is part / scale
  for (size_t i = 0; i < fraction; i++, scale *= 10)
    part = part * 10 + (uint64_t)(text[whole + 1 + i] - '0');
  if (count > TRAFFIC_MAX_PAIR >> shift)
    return false;
  for (int left = shift; left > 0; left -= 10) {
    part *= 1024;
    count = count * 1024 + part / scale;
    part %= scale;
  }
  *bytes = count;
  return *bytes <= TRAFFIC_MAX_PAIR;
}

// The position of the reader in the text.
struct reader {
  struct traffic_pattern *pattern;
  const char *source;
  const char *at, *end, *line_begin;
  uint32_t line; // from 1
  uint32_t workers;
  uint32_t rows, columns; // rows read; columns of the first row
};

static int complain(const struct reader *reader, const char *at, const char *format, uint32_t a, uint32_t b) {
  fail(WEFT_ERR_INVALID, format, a, b);
  return fail_context(WEFT_ERR_INVALID, "%s:%u:%zu", reader->source, reader->line,
                      (size_t)(at - reader->line_begin) + 1);
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static int refuse_size(const struct reader *reader, const char *word, size_t size) {
  char shown[SHOWN + 1];
  size_t count = size < SHOWN ? size : SHOWN;
  for (size_t i = 0; i < count; i++)
    shown[i] = word[i] >= ' ' && word[i] < 0x7f ? word[i] : '?';
  shown[count] = '\0';
  const char *why = *word == '-' ? "negative" : "not a size";
  fail(WEFT_ERR_INVALID, "\"%s\" is %s: want 0 to 1T bytes, such as 0, 4096, 64K, 1.5M or 2G", shown, why);
  return fail_context(WEFT_ERR_INVALID, "%s:%u:%zu", reader->source, reader->line,
                      (size_t)(word - reader->line_begin) + 1);
}

static int take_cell(struct reader *reader, const char *word, size_t size, uint32_t column) {
  struct traffic_pair pair = {.from = reader->rows, .to = column};
  uint64_t bytes;
  if (!traffic_size_parse(word, size, &bytes))
    return refuse_size(reader, word, size);
  uint32_t most = reader->workers ? reader->workers : TRAFFIC_MAX_RANKS;
  if (column >= most)
    return complain(reader, word,
                    most == 1 ? "a column is for worker %u, but there is only %u worker, counted from 0"
                              : "a column is for worker %u, but there are only %u workers, counted from 0",
                    column, most);
  if (reader->rows > 0 && column >= reader->columns)
    return complain(reader, word, "column %u of a matrix with %u: each row has as many columns as there are rows",
                    column + 1, reader->columns);
  traffic_pair_split(&pair, bytes, reader->pattern->shards);
  return bytes > 0 ? traffic_pattern_add(reader->pattern, &pair) : 0;
}

static int take_row(struct reader *reader, const char *end) {
  uint32_t column = 0;
  const char *at = reader->at;
  while (at < end && is_blank(*at))
    at++;
  if (at == end || *at == '#')
    return 0;
  if (reader->rows > 0 && reader->rows >= reader->columns)
    return complain(reader, at, "row %u of a matrix with %u columns: want as many rows as columns", reader->rows + 1,
                    reader->columns);
  while (at < end) {
    const char *word = at;
    while (at < end && !is_blank(*at))
      at++;
    int rc = take_cell(reader, word, (size_t)(at - word), column++);
    if (rc != 0)
      return rc;
    while (at < end && is_blank(*at))
      at++;
  }
  if (reader->rows == 0)
    reader->columns = column;
  if (column < reader->columns)
    return complain(reader, end, "the row ends after %u columns, but the first row has %u: want a square matrix",
                    column, reader->columns);
  reader->rows++;
  return 0;
}

int traffic_matrix_parse(struct traffic_pattern *pattern, const char *text, size_t size, const char *source,
                         uint32_t workers) {
  struct reader reader = {
      .pattern = pattern, .source = source, .at = text, .end = text + size, .line_begin = text, .workers = workers};
  int rc = 0;
  while (reader.at < reader.end && rc == 0) {
    const char *end = memchr(reader.at, '\n', (size_t)(reader.end - reader.at));
    end = end ? end : reader.end;
    reader.line++;
    reader.line_begin = reader.at;
    rc = take_row(&reader, end);
    reader.at = end < reader.end ? end + 1 : end;
  }
  if (rc != 0)
    return rc;
  reader.line += reader.line == 0; // if the text is empty
  if (reader.rows < reader.columns || reader.rows == 0)
    return complain(&reader, reader.line_begin, "the matrix has %u rows, but %u columns: want as many rows as columns",
                    reader.rows, reader.columns);
  if (pattern->num_pairs == 0)
    return complain(&reader, reader.line_begin, "all %u x %u sizes are 0: there is nothing to move", reader.rows,
                    reader.rows);
  pattern->ranks = reader.rows;
  return 0;
}

int traffic_matrix_load(struct traffic_pattern *pattern, const char *path, uint32_t workers) {
  char *text = NULL;
  size_t size = 0;
  int rc = traffic_file_read(path, "a matrix: a row of sizes for each sender", MAX_TEXT, &text, &size);
  if (rc != 0)
    return rc;
  rc = traffic_matrix_parse(pattern, text, size, path, workers);
  free(text);
  const char *base = strrchr(path, '/');
  base = base ? base + 1 : path;
  if (rc == 0 && !*pattern->name)
    memccpy(pattern->name, base, '\0', sizeof pattern->name - 1); // the rest of the name is zero already
  return rc;
}
