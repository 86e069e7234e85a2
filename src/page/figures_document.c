// Figures of benchmarks and comparisons as documents of pages.
#include "page/assemble.h"
#include "page/documents.h"

// Samples are only for comparisons; no chart shows each of a thousand samples.
static void drop_samples(json_t *document) {
  size_t r, f;
  json_t *row, *figure;
  json_array_foreach(json_object_get(document, "rows"), r, row)
      json_array_foreach(json_object_get(row, "figures"), f, figure) json_object_del(figure, "samples");
}

static int add_run(json_t *runs, const struct figures *figures, const char *label) {
  json_t *document = figures_to_json(figures);
  if (!document)
    return -1;
  drop_samples(document);
  return json_array_append_new(runs, json_pack("{s:o, s:o}", "label", page_string(label), "figures", document));
}

json_t *page_figures_document(const struct figures *const *list, const char *const *labels, size_t count) {
  json_t *runs = json_array();
  bool whole = runs != NULL;
  for (size_t i = 0; i < count && whole; i++)
    whole = add_run(runs, list[i], labels && labels[i] ? labels[i] : list[i]->kind) == 0;
  json_t *document = whole ? json_pack("{s:s, s:O}", "page", "figures", "runs", runs) : NULL;
  json_decref(runs);
  return document;
}

json_t *page_comparison_document(const json_t *comparison) {
  return json_pack("{s:s, s:O}", "page", "comparison", "comparison", (json_t *)comparison);
}
