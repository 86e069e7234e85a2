// Writes the pages to a stream or to a file.
#include "page/page.h"

#include <string.h>

#include "base/fail.h"
#include "measure/whole_file.h"
#include "page/assemble.h"
#include "page/documents.h"

int page_check(const char *path) {
  int err = page_has_library();
  return err ? err : whole_file_check(path);
}

int page_check_files(const char *html, const char *prometheus) {
  if (html && prometheus && whole_file_is_one(html, prometheus))
    return fail(WEFT_ERR_INVALID, "--html and --prometheus are both %s: want a file for each", html);
  int err = html ? page_check(html) : 0;
  return !err && prometheus ? whole_file_check(prometheus) : err;
}

int page_of_run(FILE *out, const struct results *results) {
  char title[128];
  snprintf(title, sizeof title, "weft elastic: %s, %s", results->job, results->started);
  return page_assemble(out, title, page_run_document(results));
}

int page_of_figures(FILE *out, const struct figures *const *list, const char *const *labels, size_t count) {
  char title[256];
  if (count == 1)
    snprintf(title, sizeof title, "weft %s%s, %s", strcmp(list[0]->kind, "p2p") == 0 ? "" : "bench ", list[0]->kind,
             list[0]->started);
  else
    snprintf(title, sizeof title, "weft: %zu runs", count);
  return page_assemble(out, title, page_figures_document(list, labels, count));
}

// A document of another program may lack members that the page's script reads.
static int check_comparison(const json_t *comparison) {
  static const char *const words[] = {"figure", "unit", "verdict", "run"};
  json_t *rows = json_object_get(comparison, "rows"), *row;
  size_t i;
  if (!json_is_integer(json_object_get(comparison, "weft_comparison")))
    return fail(WEFT_ERR_INVALID, "weft_comparison: is missing or not an integer: this is not a comparison of weft");
  if (!json_is_array(rows))
    return fail(WEFT_ERR_PROTOCOL, "rows: is missing or not a list");
  json_array_foreach(rows, i, row) {
    if (!json_is_object(json_object_get(row, "keys")))
      return fail(WEFT_ERR_PROTOCOL, "rows[%zu].keys: is missing or not an object", i);
    if (!json_is_number(json_object_get(row, "change_percent")) &&
        !json_is_null(json_object_get(row, "change_percent")))
      return fail(WEFT_ERR_PROTOCOL, "rows[%zu].change_percent: is missing or neither a number nor null", i);
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
      if (!json_is_string(json_object_get(row, words[w])))
        return fail(WEFT_ERR_PROTOCOL, "rows[%zu].%s: is missing or not a text", i, words[w]);
  }
  return 0;
}

int page_of_comparison(FILE *out, const json_t *comparison) {
  int err = check_comparison(comparison);
  return err ? err : page_assemble(out, "weft compare", page_comparison_document(comparison));
}

// --- files ---

static int write_run(FILE *out, const void *arg) {
  return page_of_run(out, arg);
}

int page_save_run(const char *path, const struct results *results) {
  return whole_file_save(path, write_run, results);
}

struct several {
  const struct figures *const *list;
  const char *const *labels;
  size_t count;
};

static int write_figures(FILE *out, const void *arg) {
  const struct several *several = arg;
  return page_of_figures(out, several->list, several->labels, several->count);
}

int page_save_figures(const char *path, const struct figures *const *list, const char *const *labels, size_t count) {
  struct several several = {list, labels, count};
  return whole_file_save(path, write_figures, &several);
}

static int write_comparison(FILE *out, const void *arg) {
  return page_of_comparison(out, arg);
}

int page_save_comparison(const char *path, const json_t *comparison) {
  return whole_file_save(path, write_comparison, comparison);
}

struct batch {
  const char *name;
  json_t *document;
};

static int write_batch(FILE *out, const void *arg) {
  const struct batch *batch = arg;
  char title[160];
  snprintf(title, sizeof title, "weft slurm: %s", batch->name);
  return page_assemble(out, title, json_incref(batch->document));
}

int page_save_batch(const char *path, const char *name, json_t *document) {
  struct batch batch = {name, document};
  int err = whole_file_save(path, write_batch, &batch);
  json_decref(document);
  return err;
}
