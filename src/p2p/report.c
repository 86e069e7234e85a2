// Results for programs, as JSON, CSV and figures; the table for people is in report_table.c.
#include "p2p/report.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/csv.h"
#include "base/text/digits.h"
#include "base/time/clock.h"
#include "p2p/bound.h"

// --- CSV ---

static void csv_head(FILE *out) {
  fputs("operation,bytes,iterations,latency_min_us,latency_p50_us,latency_p99_us,latency_p999_us,latency_max_us,"
        "latency_avg_us,at_once,per_second,gb_per_second,peer_gb_per_second,checked,transport,initiator_memory,"
        "target_memory,same_gpu,bound,bound_gb_per_second,bound_percent,refused\n",
        out);
}

static void csv_number(FILE *out, double value) {
  fprintf(out, "%.*g,", DIGITS_IN_JSON, digits_rounded(value));
}

static void csv_rate(FILE *out, double gbps) { // writes nothing if nothing was measured
  if (gbps > 0)
    csv_number(out, gbps);
  else
    fputc(',', out);
}

static void csv_row(const struct p2p_report *report, const struct p2p_result *one) {
  FILE *out = report->out;
  const struct histogram *latency = &one->latency;
  const double times[] = {p2p_us((double)latency->min), p2p_percentile_us(one, 50),   p2p_percentile_us(one, 99),
                          p2p_percentile_us(one, 99.9), p2p_us((double)latency->max), p2p_us(histogram_mean(latency))};
  fprintf(out, "%s,%" PRIu64 ",%u,", p2p_op_names[one->op], one->bytes, one->iterations);
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    csv_number(out, times[i]);
  fprintf(out, "%u,", one->depth);
  csv_rate(out, one->per_second);
  csv_rate(out, one->gbps);
  csv_rate(out, one->peer_gbps);
  fprintf(out, "%s,%s,%s,%s,%s,", one->checked ? "yes" : "no", one->transport, report->ends.here, report->ends.there,
          report->ends.same_gpu ? "yes" : "no");
  csv_write_text(out, one->bound.name); // it may contain a folder's name
  fputc(',', out);
  csv_rate(out, one->bound.gbps);
  csv_rate(out, one->percent);
  csv_write_text(out, one->refused);
  fputc('\n', out);
}

// --- JSON ---

// Adds nothing if nothing was measured, or the value is not known.
static void add_rate(json_t *object, const char *name, double value) {
  if (object && value > 0)
    json_object_set_new(object, name, json_real(digits_rounded(value)));
}

static json_t *describe(const struct p2p_result *one) {
  json_t *object =
      json_pack("{s:s, s:I, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:s}", "operation", p2p_op_names[one->op],
                "bytes", (json_int_t)one->bytes, "iterations", one->iterations, "at_once", one->depth, "latency_min_us",
                p2p_us((double)one->latency.min), "latency_p50_us", p2p_percentile_us(one, 50), "latency_p99_us",
                p2p_percentile_us(one, 99), "latency_p999_us", p2p_percentile_us(one, 99.9), "latency_max_us",
                p2p_us((double)one->latency.max), "latency_avg_us", p2p_us(histogram_mean(&one->latency)), "checked",
                one->checked, "transport", one->transport);
  add_rate(object, "per_second", one->per_second);
  add_rate(object, "gb_per_second", one->gbps);
  add_rate(object, "peer_gb_per_second", one->peer_gbps);
  add_rate(object, "bound_gb_per_second", one->bound.gbps);
  add_rate(object, "bound_percent", one->percent);
  if (object && *one->bound.name)
    json_object_set_new(object, "bound",
                        json_pack("{s:s, s:b, s:s}", "name", one->bound.name, "measured", one->bound.measured, "detail",
                                  one->bound.detail));
  if (object && *one->refused)
    json_object_set_new(object, "refused", json_string(one->refused));
  return object;
}

static int write_json(struct p2p_report *report, bool complete) {
  const struct p2p_config *config = report->config;
  json_t *all =
      json_pack("{s:s, s:s, s:s, s:b, s:b, s:b, s:O}", "memory", p2p_memory_names[config->memory], "initiator_memory",
                report->ends.here, "target_memory", report->ends.there, "same_gpu", report->ends.same_gpu,
                "bidirectional", config->bidirectional, "complete", complete, "results", report->list);
  if (!all)
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  if (*report->uses.text)
    json_object_set_new(all, "uses", json_string(report->uses.text));
  bool written = json_dumpf(all, report->out, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS_IN_JSON)) == 0 &&
                 fputc('\n', report->out) != EOF && fflush(report->out) == 0;
  int cause = errno;
  json_decref(all);
  return written ? 0 : fail_errno(cause, "cannot write the results");
}

// --- all of them ---

int p2p_report_begin(struct p2p_report *report, FILE *out, const struct p2p_config *config,
                     const struct p2p_sizes *sizes) {
  char text[32];
  *report = (struct p2p_report){.out = out, .config = config, .list = json_array(), .begun_ns = clock_ns()};
  if (!report->list)
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  for (uint32_t i = 0; i < sizes->count; i++) {
    int width = (int)strlen(p2p_size_text(sizes->bytes[i], text, sizeof text));
    report->size_width = width > report->size_width ? width : report->size_width;
  }
  int rc = limits_open(&report->limits);
  return rc == 0 && p2p_figures_wanted(report) ? p2p_figures_begin(report) : rc;
}

// Keeps a bound for the foot of the table, which lists each once.
static void keep_bound(struct p2p_report *report, const struct limits_bound *bound) {
  for (uint32_t i = 0; i < report->num_bounds; i++)
    if (strcmp(report->bounds[i].name, bound->name) == 0)
      return;
  if (*bound->name && report->num_bounds < P2P_BOUNDS)
    report->bounds[report->num_bounds++] = *bound;
}

int p2p_report_row(struct p2p_report *report, struct p2p_result *result) {
  bool first = report->rows++ == 0;
  p2p_bound_judge(report, result);
  keep_bound(report, &result->bound);
  p2p_bound_note_uses(report, result);
  report->refused += *result->refused != '\0';
  int rc = p2p_figures_wanted(report) ? p2p_figures_row(report, result) : 0;
  if (rc != 0)
    return rc;
  if (report->config->format == P2P_JSON)
    return json_array_append_new(report->list, describe(result)) == 0
               ? 0
               : fail(WEFT_ERR_NOMEM, "no memory for the results");
  if (report->config->format == P2P_CSV) {
    if (first)
      csv_head(report->out);
    csv_row(report, result);
  } else {
    if (first)
      p2p_table_head(report);
    p2p_table_row(report, result);
  }
  return fflush(report->out) == 0 ? 0 : fail_errno(errno, "cannot write the results");
}

// Keeps the first error with its sentence, and prints each further one.
static void keep_error(int *first, char why[FAIL_DETAIL_SIZE], int err) {
  if (err != 0 && *first != 0)
    fprintf(stderr, "weft p2p: %s\n", weft_last_error());
  else if (err != 0)
    snprintf(why, FAIL_DETAIL_SIZE, "%s", weft_last_error());
  *first = *first != 0 ? *first : err;
}

int p2p_report_end(struct p2p_report *report, int err) {
  bool complete = err == 0;
  char why[FAIL_DETAIL_SIZE] = "";
  int first = 0;
  keep_error(&first, why, err);
  keep_error(&first, why, report->config->format == P2P_JSON ? write_json(report, complete) : 0); // also without rows
  if (complete && report->rows > 0 && report->config->format == P2P_TEXT)
    p2p_table_foot(report);
  // Without rows, too, since the files of an earlier run would be taken for this one's; but not for wrong options.
  bool writes = p2p_figures_wanted(report) && (report->rows > 0 || err != WEFT_ERR_INVALID);
  if (first != 0)
    fail(first, "%s", why); // what the figures say
  keep_error(&first, why, writes ? p2p_figures_write(report, complete) : 0);
  int refused = report->refused > 0 ? P2P_REFUSED : 0;
  figures_free(&report->figures);
  json_decref(report->list);
  limits_close(report->limits);
  *report = (struct p2p_report){0};
  return first != 0 ? fail(first, "%s", why) : refused;
}
