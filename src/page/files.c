// Makes pages from saved documents.
#include <stdlib.h>

#include "base/fail.h"
#include "measure/json_file.h"
#include "page/page.h"

static const char want[] = "a document of weft bench or weft compare";

enum page_file page_file_kind(const json_t *json) {
  if (figures_is_json(json))
    return PAGE_FILE_FIGURES;
  return json_is_integer(json_object_get(json, "weft_comparison")) ? PAGE_FILE_COMPARISON : PAGE_FILE_OTHER;
}

static int save_comparison(const char *path, const char *file) {
  json_t *json = NULL;
  int err = json_file_load(file, want, &json);
  if (!err)
    err = page_save_comparison(path, json);
  json_decref(json);
  return err;
}

static int save_figures(const char *path, const char *const *files, size_t count) {
  struct figures *loaded = calloc(count, sizeof *loaded);
  const struct figures **list = calloc(count, sizeof *list);
  int err = loaded && list ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the figures of a page");
  for (size_t i = 0; i < count && !err; i++) {
    list[i] = &loaded[i];
    err = figures_load(&loaded[i], files[i]);
  }
  if (!err)
    err = page_save_figures(path, list, files, count);
  for (size_t i = 0; i < count && loaded; i++)
    figures_free(&loaded[i]);
  free(list);
  free(loaded);
  return err;
}

int page_save_files(const char *path, const char *const *files, size_t count) {
  json_t *json = NULL;
  int err = json_file_load(files[0], want, &json);
  enum page_file kind = page_file_kind(json);
  json_decref(json);
  if (err)
    return err;
  if (kind != PAGE_FILE_COMPARISON)
    return save_figures(path, files, count);
  if (count > 1)
    return fail(WEFT_ERR_INVALID, "%s is a comparison, which needs a page of its own: want no other file beside it",
                files[0]);
  return save_comparison(path, files[0]);
}
