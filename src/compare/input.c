// Reads files, recognises their formats, and removes rows that were not asked for.
#include "compare/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/err.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "compare/read/read.h"
#include "measure/json_file.h"

static const struct compare_reader *const readers[] = {
    &compare_read_figures,  &compare_read_figures_csv, &compare_read_results, &compare_read_baseline,
    &compare_read_p2p_json, &compare_read_p2p_csv,     &compare_read_ep,      &compare_read_nixlbench,
    &compare_read_nccl,     &compare_read_perftest,
};
enum { READERS = sizeof readers / sizeof *readers };

static int no_format(const struct compare_text *text) {
  struct text names = {0};
  for (size_t i = 0; i < READERS; i++)
    text_add(&names, "%s%s", i == 0 ? "" : i + 1 < READERS ? ", " : " or ", readers[i]->name);
  int err = fail(WEFT_ERR_PROTOCOL, "%s holds no result: want %s",
                 text->size == 0                                  ? "it is empty, so it"
                 : json_object_get(text->json, "weft_comparison") ? "it is a comparison, which"
                 : text->json                                     ? "it is JSON of another kind, which"
                                                                  : "it",
                 names.data ? names.data : "one of weft's");
  text_free(&names);
  return err;
}

// If the text looks like JSON but is not valid, reports where the error is.
static int check_json(const char *data, const json_error_t *where) {
  const char *first = data + strspn(data, " \t\r\n");
  if (*first != '{')
    return 0;
  return fail(WEFT_ERR_PROTOCOL, "not JSON: line %d, column %d: %s", where->line, where->column, where->text);
}

static int no_rows(const struct compare_reader *reader, const struct compare_run *run) {
  if (run->left_out)
    return fail(WEFT_ERR_PROTOCOL,
                "its benchmark refused every row, the first because %s: want a run with a row that can be believed "
                "(read as %s)",
                run->why_left, reader->name);
  return fail(WEFT_ERR_PROTOCOL, "it has no row%s%s: want a run that measured something (read as %s)",
              *run->remark ? ", as " : "", run->remark, reader->name);
}

static int read_as(const struct compare_reader *reader, struct compare_run *run, const struct compare_text *text) {
  size_t rows = run->num_rows;
  uint32_t base = run->num_repeats;
  int err = reader->read(run, text, base);
  if (err)
    return err;
  if (run->num_rows == rows && base == 0)
    return no_rows(reader, run);
  if (*run->format && strcmp(run->format, reader->name) != 0)
    snprintf(run->format, sizeof run->format, "several formats");
  else
    snprintf(run->format, sizeof run->format, "%s", reader->name);
  return 0;
}

int input_add_text(struct compare_run *run, const char *name, const char *data, size_t size) {
  json_error_t where;
  json_t *json = json_loadb(data, size, 0, &where);
  struct compare_text text = {.data = data, .size = size, .json = json_is_object(json) ? json : NULL};
  int err = json ? 0 : check_json(data, &where);
  const struct compare_reader *reader = NULL;
  for (size_t i = 0; !err && i < READERS && !reader; i++)
    if (readers[i]->is(&text))
      reader = readers[i];
  if (!err)
    err = reader ? read_as(reader, run, &text) : no_format(&text);
  json_decref(json);
  return err ? fail_context(err, "%s", name) : 0;
}

// Reads the whole file and adds a NUL.
static int read_whole(FILE *file, const char *name, struct text *text) {
  static const size_t most = (size_t)1 << 30;
  char *block = malloc(1 << 16);
  size_t got = 0;
  errno = 0;
  while (block && text->size <= most && !text->failed && (got = fread(block, 1, 1 << 16, file)) > 0)
    text_add_bytes(text, block, got);
  free(block);
  if (ferror(file))
    return fail_errno(errno, "%s: cannot read it", name);
  if (text->size > most)
    return fail(WEFT_ERR_LIMIT, "%s: is larger than 1 GiB: results are never that large", name);
  text_add_bytes(text, "", 0);
  return block && !text->failed ? 0 : fail(WEFT_ERR_NOMEM, "%s: no memory to read it", name);
}

static int add_stream(struct compare_run *run, FILE *file, const char *name) {
  struct text text = {0};
  int err = read_whole(file, name, &text);
  if (!err)
    err = input_add_text(run, name, text.data ? text.data : "", text.size);
  text_free(&text);
  return err;
}

// The file to read: of a directory, the results.json in it.
static int path_of(const char *given, char **path) {
  struct stat info;
  bool directory = stat(given, &info) == 0 && S_ISDIR(info.st_mode);
  if (asprintf(path, directory ? "%s/results.json" : "%s", given) < 0)
    return fail(WEFT_ERR_NOMEM, "no memory for a path");
  if (directory && stat(*path, &info) != 0) {
    int err = fail(WEFT_ERR_SYSTEM, "%s is not the directory of a run that has ended: it has no results.json", given);
    free(*path);
    return err;
  }
  return 0;
}

int input_add_file(struct compare_run *run, const char *given) {
  char *path = NULL;
  FILE *file = NULL;
  if (strcmp(given, "-") == 0)
    return add_stream(run, stdin, "standard input");
  int err = path_of(given, &path);
  if (err)
    return err;
  err = json_file_open(path, "the results of a benchmark", &file);
  if (!err) {
    err = add_stream(run, file, path);
    fclose(file);
  }
  free(path);
  return err;
}

// --- choice of rows ---

static bool is_value(const json_t *value, const char *text) {
  if (json_is_string(value))
    return strcmp(json_string_value(value), text) == 0;
  char *dump = json_dumps(value, JSON_ENCODE_ANY);
  bool equal = dump && strcmp(dump, text) == 0;
  free(dump);
  return equal;
}

// Reports that no row has the value, and lists the values of the key; if no row has the key, lists the keys.
static int none_left(const struct compare_run *run, const char *key, const char *value) {
  json_t *seen = json_object();
  for (size_t i = 0; seen && i < run->num_rows; i++) {
    const json_t *has = json_object_get(run->rows[i].keys, key);
    char *dump = has ? json_dumps(has, JSON_ENCODE_ANY) : NULL;
    if (dump)
      json_object_set_new(seen, dump, json_true());
    free(dump);
  }
  bool known = json_object_size(seen) > 0;
  const char *name;
  json_t *one;
  struct text list = {0};
  size_t listed = 0;
  json_object_foreach(known ? seen : run->num_rows ? run->rows[0].keys : seen, name, one) {
    if (listed++ < 20)
      text_add(&list, "%s%s", list.size ? ", " : "", name);
  }
  int err = known ? fail(WEFT_ERR_NOT_FOUND, "%s has no row with %s=%s: its values are %s", run->label, key, value,
                         list.data ? list.data : "none")
                  : fail(WEFT_ERR_NOT_FOUND, "%s has no key %s: its keys are %s", run->label, key,
                         list.data ? list.data : "none");
  text_free(&list);
  json_decref(seen);
  return err;
}

int input_keep(struct compare_run *run, const char *key, const char *value) {
  size_t kept = 0, matching = 0;
  for (size_t i = 0; i < run->num_rows; i++)
    matching += is_value(json_object_get(run->rows[i].keys, key), value);
  if (matching == 0)
    return none_left(run, key, value);
  // Rows that are kept move to the front, in their order; the others are freed together.
  for (size_t i = 0; i < run->num_rows; i++)
    if (is_value(json_object_get(run->rows[i].keys, key), value)) {
      struct compare_row row = run->rows[i];
      memmove(&run->rows[kept + 1], &run->rows[kept], (i - kept) * sizeof row);
      run->rows[kept++] = row;
    }
  struct compare_run rest = {.rows = malloc((run->num_rows - kept + 1) * sizeof *rest.rows)};
  if (!rest.rows)
    return fail(WEFT_ERR_NOMEM, "no memory to choose rows");
  rest.num_rows = run->num_rows - kept;
  memcpy(rest.rows, &run->rows[kept], rest.num_rows * sizeof *rest.rows);
  compare_run_free(&rest);
  run->num_rows = kept;
  json_decref(run->index); // the index is stale, and no rows are added any more
  run->index = NULL;
  return 0;
}
