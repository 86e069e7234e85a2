// Reads the documents of `weft bench` (measure/figures.h).
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/err.h>

#include "base/fail.h"
#include "compare/read/read.h"
#include "measure/figures.h"

static bool is_figures(const struct compare_text *text) {
  return text->json && figures_is_json(text->json);
}

// Seconds since 1970 of an RFC 3339 time in UTC; 0 for another text.
static uint64_t seconds_of(const char *started) {
  struct tm utc = {0};
  const char *end = strptime(started, "%Y-%m-%dT%H:%M:%SZ", &utc);
  time_t at = end && *end == '\0' ? timegm(&utc) : 0;
  return at > 0 ? (uint64_t)at : 0;
}

static int take_samples(const struct figure *figure, struct compare_figure *to) {
  size_t count = json_array_size(figure->samples);
  if (count == 0)
    return 0;
  to->samples = malloc(count * sizeof *to->samples);
  if (!to->samples)
    return fail(WEFT_ERR_NOMEM, "no memory for samples");
  to->num_samples = count;
  for (size_t i = 0; i < count; i++) {
    const json_t *sample = json_array_get(figure->samples, i);
    if (!json_is_number(sample)) {
      free(to->samples);
      return fail(WEFT_ERR_PROTOCOL, "samples[%zu] of %s is not a number", i, figure->name);
    }
    to->samples[i] = json_number_value(sample);
  }
  return 0;
}

static int add_percentile(struct compare_run *run, struct compare_row *row, uint32_t repeat,
                          const struct figure *figure, const char *which, double percentile, double value) {
  char name[COMPARE_NAME];
  snprintf(name, sizeof name, "%s_%s", figure->name, which);
  struct compare_figure one = {.name = name,
                               .unit = figure->unit,
                               .higher = figure->better == FIGURE_HIGHER,
                               .detail = true,
                               .value = value,
                               .percentile = percentile,
                               .error = -1,
                               .count = figure->count};
  int err = value >= 0 ? take_samples(figure, &one) : 0;
  return err || value < 0 ? err : compare_row_add(run, row, repeat, &one);
}

static int add_figure(struct compare_run *run, struct compare_row *row, uint32_t repeat, const struct figure *figure) {
  struct compare_figure one = {.name = figure->name,
                               .unit = figure->unit,
                               .higher = figure->better == FIGURE_HIGHER,
                               .value = figure->value,
                               .error = -1,
                               .count = figure->count};
  int err = take_samples(figure, &one);
  if (!err)
    err = compare_row_add(run, row, repeat, &one);
  const struct {
    const char *name;
    double percentile, value;
  } percentiles[] = {
      {"p50", 0.5, figure->p50}, {"p95", 0.95, figure->p95}, {"p99", 0.99, figure->p99}, {"p999", 0.999, figure->p999}};
  for (size_t i = 0; !err && figure->count > 0 && i < sizeof percentiles / sizeof *percentiles; i++)
    err =
        add_percentile(run, row, repeat, figure, percentiles[i].name, percentiles[i].percentile, percentiles[i].value);
  return err;
}

static int add_row(struct compare_run *run, uint32_t base, const struct figures_row *from) {
  if (!from->keys)
    return fail(WEFT_ERR_PROTOCOL, "keys: want an object");
  if (*from->refused) {
    if (run->left_out++ == 0)
      snprintf(run->why_left, sizeof run->why_left, "%s", from->refused);
    return 0;
  }
  struct compare_row *row = compare_run_row(run, json_incref(from->keys));
  int err = row ? 0 : WEFT_ERR_NOMEM;
  for (uint32_t i = 0; !err && i < from->num_figures; i++)
    if (strcmp(from->figures[i].name, COMPARE_READ_DIFFERENCE) != 0)
      err = add_figure(run, row, base + from->run, &from->figures[i]);
  return err;
}

static void remark(struct compare_run *run, const struct figures *figures) {
  if (!figures->complete)
    snprintf(run->remark, sizeof run->remark, "not all was measured: the benchmark was cut short%s%.64s",
             *figures->cut_short ? " by " : "", figures->cut_short);
  else if (!figures->passed)
    snprintf(run->remark, sizeof run->remark, "the run did not pass%s%.200s", *figures->error ? ": " : "",
             figures->error);
}

static int read_figures(struct compare_run *run, const struct compare_text *text, uint32_t base) {
  struct figures figures = {0};
  int err = figures_from_json(&figures, text->json);
  if (err)
    return err;
  enum { MOST_REPEATS = 10000 };
  remark(run, &figures);
  err = compare_run_made(run, figures.hosts, figures.version);
  for (uint32_t i = 0; !err && i < figures.num_rows; i++) {
    const struct figures_row *row = &figures.rows[i];
    if (row->run >= MOST_REPEATS)
      err =
          fail(WEFT_ERR_PROTOCOL, "rows[%u].run: %u is beyond the %d repeats that are read", i, row->run, MOST_REPEATS);
    if (!err)
      err = compare_run_repeats(run, base + row->run + 1, seconds_of(figures.started));
    if (!err)
      err = add_row(run, base, row);
    if (err)
      fail_context(err, "rows[%u]", i);
  }
  figures_free(&figures);
  return err;
}

const struct compare_reader compare_read_figures = {
    .name = "weft figures",
    .is = is_figures,
    .read = read_figures,
};
