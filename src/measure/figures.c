// Figures and their JSON form.
#include "measure/figures.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/weft.h>

#include "base/fail.h"
#include "measure/fields.h"
#include "measure/json_file.h"
#include "measure/whole_file.h"

enum { FORMAT = 1 }; // of the document: its member "weft_figures"

static const char *const better_names[] = {[FIGURE_LOWER] = "lower", [FIGURE_HIGHER] = "higher", NULL};

#define FIGURE(member) FIELD_OF(struct figure, member)
static const struct field figure_fields[] = {
    {FIGURE(name), .type = FIELD_TEXT},
    {FIGURE(unit), .type = FIELD_TEXT},
    {FIGURE(better), .type = FIELD_NAME, .names = better_names},
    {FIGURE(value), .type = FIELD_REAL},
    {FIGURE(count), .type = FIELD_U64},
    {FIGURE(min), .type = FIELD_DURATION},
    {FIGURE(p50), .type = FIELD_DURATION},
    {FIGURE(p95), .type = FIELD_DURATION},
    {FIGURE(p99), .type = FIELD_DURATION},
    {FIGURE(p999), .type = FIELD_DURATION},
    {FIGURE(max), .type = FIELD_DURATION},
    {FIGURE(bound), .type = FIELD_DURATION},
    {FIGURE(bound_name), .type = FIELD_TEXT},
    {FIGURE(samples), .type = FIELD_ARRAY, .optional = true},
    FIELD_END,
};

#define ROW(member) FIELD_OF(struct figures_row, member)
static const struct field row_fields[] = {
    {ROW(keys), .type = FIELD_OBJECT},
    {ROW(run), .type = FIELD_U32},
    {ROW(slowest), .type = FIELD_TEXT},
    {ROW(refused), .type = FIELD_TEXT},
    {FIELD_LIST_OF(struct figures_row, figures, struct figure, num_figures), .fields = figure_fields},
    FIELD_END,
};

#define BOUND(member) FIELD_OF(struct figures_bound, member)
static const struct field bound_fields[] = {
    {BOUND(name), .type = FIELD_TEXT},
    {BOUND(value), .type = FIELD_REAL},
    {BOUND(measured), .type = FIELD_BOOL},
    {BOUND(detail), .type = FIELD_TEXT},
    FIELD_END,
};

#define FIGURES(member) FIELD_OF(struct figures, member)
static const struct field figures_fields[] = {
    {FIGURES(kind), .type = FIELD_TEXT},
    {FIGURES(version), .type = FIELD_TEXT},
    {FIGURES(started), .type = FIELD_TEXT},
    {FIGURES(elapsed_s), .type = FIELD_REAL},
    {FIGURES(complete), .type = FIELD_BOOL},
    {FIGURES(cut_short), .type = FIELD_TEXT},
    {FIGURES(passed), .type = FIELD_BOOL},
    {FIGURES(error), .type = FIELD_TEXT},
    {FIGURES(hosts), .type = FIELD_ARRAY},
    {FIGURES(settings), .type = FIELD_OBJECT},
    {FIELD_LIST_OF(struct figures, bounds, struct figures_bound, num_bounds), .fields = bound_fields},
    {FIELD_LIST_OF(struct figures, rows, struct figures_row, num_rows), .fields = row_fields},
    FIELD_END,
};

static void free_row(struct figures_row *row) {
  for (uint32_t i = 0; i < row->num_figures; i++)
    json_decref(row->figures[i].samples);
  free(row->figures);
  json_decref(row->keys);
}

void figures_free(struct figures *figures) {
  for (uint32_t i = 0; i < figures->num_rows; i++)
    free_row(&figures->rows[i]);
  free(figures->rows);
  free(figures->bounds);
  json_decref(figures->hosts);
  json_decref(figures->settings);
  *figures = (struct figures){0};
}

int figures_begin(struct figures *figures, const char *kind) {
  time_t now = time(NULL);
  struct tm utc;
  *figures = (struct figures){.hosts = json_array(), .settings = json_object()};
  if (!figures->hosts || !figures->settings) {
    figures_free(figures);
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  }
  snprintf(figures->kind, sizeof figures->kind, "%s", kind);
  snprintf(figures->version, sizeof figures->version, "%s", weft_version());
  strftime(figures->started, sizeof figures->started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  return 0;
}

// Appends a zeroed element to a list of `count`. NULL if memory ran out.
static void *grow(void **list, uint32_t *count, size_t size) {
  char *longer = realloc(*list, (*count + (size_t)1) * size);
  if (!longer) {
    fail(WEFT_ERR_NOMEM, "no memory for the results");
    return NULL;
  }
  *list = longer;
  return memset(longer + (*count)++ * size, 0, size);
}

struct figures_row *figures_add_row(struct figures *figures, json_t *keys, uint32_t run) {
  struct figures_row *row = grow((void **)&figures->rows, &figures->num_rows, sizeof *figures->rows);
  if (row) {
    row->keys = json_incref(keys);
    row->run = run;
  }
  return row;
}

struct figure *figures_add(struct figures_row *row, const char *name, const char *unit, enum figure_better better,
                           double value) {
  struct figure *figure = grow((void **)&row->figures, &row->num_figures, sizeof *row->figures);
  if (!figure)
    return NULL;
  *figure = (struct figure){.better = better, .value = value, .bound = -1};
  figure->min = figure->p50 = figure->p95 = figure->p99 = figure->p999 = figure->max = -1;
  snprintf(figure->name, sizeof figure->name, "%s", name);
  snprintf(figure->unit, sizeof figure->unit, "%s", unit);
  return figure;
}

void figures_withdraw_rates(struct figures_row *row) {
  for (uint32_t i = 0; i < row->num_figures; i++) {
    struct figure *figure = &row->figures[i];
    if (strcmp(figure->unit, "GB/s") == 0 || strcmp(figure->unit, "1/s") == 0)
      figure->value = NAN;
  }
}

int figures_add_bound(struct figures *figures, const char *name, double value, bool measured, const char *detail) {
  struct figures_bound *bound = NULL;
  for (uint32_t i = 0; i < figures->num_bounds && !bound; i++)
    if (strcmp(figures->bounds[i].name, name) == 0)
      bound = &figures->bounds[i];
  if (!bound)
    bound = grow((void **)&figures->bounds, &figures->num_bounds, sizeof *figures->bounds);
  if (!bound)
    return WEFT_ERR_NOMEM;
  *bound = (struct figures_bound){.value = value, .measured = measured};
  snprintf(bound->name, sizeof bound->name, "%s", name);
  snprintf(bound->detail, sizeof bound->detail, "%s", detail);
  return 0;
}

const struct figure *figures_find(const struct figures_row *row, const char *name) {
  for (uint32_t i = 0; i < row->num_figures; i++)
    if (strcmp(row->figures[i].name, name) == 0)
      return &row->figures[i];
  return NULL;
}

json_t *figures_to_json(const struct figures *figures) {
  return fields_to_document(figures_fields, figures, "weft_figures", FORMAT);
}

bool figures_is_json(const json_t *json) {
  return json_object_get(json, "weft_figures") != NULL;
}

int figures_from_json(struct figures *out, const json_t *json) {
  struct figures figures = {0};
  int err = fields_check_document(json, "weft_figures", FORMAT, "figures");
  if (err)
    return err;
  err = fields_from_json(figures_fields, &figures, json);
  if (err)
    figures_free(&figures);
  else
    *out = figures;
  return err;
}

int figures_save(const struct figures *figures, const char *path) {
  int err = whole_file_check_place(path);
  if (err)
    return err;
  json_t *json = figures_to_json(figures);
  if (!json)
    return fail_context(WEFT_ERR_NOMEM, "%s", path);
  err = json_file_save(json, AT_FDCWD, path);
  json_decref(json);
  return err;
}

int figures_load(struct figures *figures, const char *path) {
  json_t *json = NULL;
  int err = json_file_load(path, "figures of weft bench", &json);
  if (err)
    return err;
  err = figures_from_json(figures, json);
  json_decref(json);
  return err ? fail_context(err, "%s", path) : 0;
}
