// Results for programs, as JSON, CSV and figures; the table for people is in report_table.c.
#include "p2p/report.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/digits.h"
#include "base/time/clock.h"
#include "measure/prometheus.h"
#include "p2p/stop.h"
#include "page/page.h"

static double us(double ns) {
  return digits_rounded(ns / 1e3);
}

static double percentile_us(const struct p2p_result *result, double percent) {
  return us((double)histogram_percentile(&result->latency, percent));
}

// --- CSV ---

static void csv_head(FILE *out) {
  fputs("operation,bytes,iterations,latency_min_us,latency_p50_us,latency_p99_us,latency_p999_us,latency_max_us,"
        "latency_avg_us,at_once,per_second,gb_per_second,peer_gb_per_second,checked,transport,initiator_memory,"
        "target_memory,same_gpu\n",
        out);
}

static void csv_number(FILE *out, double value) {
  fprintf(out, "%.*g,", DIGITS_IN_JSON, digits_rounded(value));
}

static void csv_rate(FILE *out, double gbps) { // nothing where nothing was measured
  if (gbps > 0)
    csv_number(out, gbps);
  else
    fputc(',', out);
}

static void csv_row(const struct p2p_report *report, const struct p2p_result *one) {
  FILE *out = report->out;
  const struct histogram *latency = &one->latency;
  const double times[] = {us((double)latency->min), percentile_us(one, 50),   percentile_us(one, 99),
                          percentile_us(one, 99.9), us((double)latency->max), us(histogram_mean(latency))};
  fprintf(out, "%s,%" PRIu64 ",%u,", p2p_op_names[one->op], one->bytes, one->iterations);
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    csv_number(out, times[i]);
  fprintf(out, "%u,", one->depth);
  csv_number(out, one->per_second);
  csv_rate(out, one->gbps);
  csv_rate(out, one->peer_gbps);
  fprintf(out, "%s,%s,%s,%s,%s\n", one->checked ? "yes" : "no", one->transport, report->ends.here, report->ends.there,
          report->ends.same_gpu ? "yes" : "no");
}

// --- JSON ---

static json_t *describe(const struct p2p_result *one) {
  json_t *object =
      json_pack("{s:s, s:I, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:s}", "operation", p2p_op_names[one->op],
                "bytes", (json_int_t)one->bytes, "iterations", one->iterations, "at_once", one->depth, "latency_min_us",
                us((double)one->latency.min), "latency_p50_us", percentile_us(one, 50), "latency_p99_us",
                percentile_us(one, 99), "latency_p999_us", percentile_us(one, 99.9), "latency_max_us",
                us((double)one->latency.max), "latency_avg_us", us(histogram_mean(&one->latency)), "per_second",
                digits_rounded(one->per_second), "checked", one->checked, "transport", one->transport);
  if (object && one->gbps > 0)
    json_object_set_new(object, "gb_per_second", json_real(digits_rounded(one->gbps)));
  if (object && one->peer_gbps > 0)
    json_object_set_new(object, "peer_gb_per_second", json_real(digits_rounded(one->peer_gbps)));
  return object;
}

static int write_json(struct p2p_report *report, bool complete) {
  const struct p2p_config *config = report->config;
  json_t *all =
      json_pack("{s:s, s:s, s:s, s:b, s:b, s:b, s:O}", "memory", p2p_memory_names[config->memory], "initiator_memory",
                report->ends.here, "target_memory", report->ends.there, "same_gpu", report->ends.same_gpu,
                "bidirectional", config->bidirectional, "complete", complete, "results", report->list);
  bool written = all && json_dumpf(all, report->out, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS_IN_JSON)) == 0;
  fputc('\n', report->out);
  json_decref(all);
  return written ? 0 : fail(WEFT_ERR_SYSTEM, "cannot write the results");
}

// --- figures ---

static bool wants_figures(const struct p2p_report *report) {
  return report->config->html || report->config->prometheus;
}

static int begin_figures(struct p2p_report *report) {
  const struct p2p_config *config = report->config;
  char host[256] = "";
  int rc = figures_begin(&report->figures, "p2p");
  if (rc != 0)
    return rc;
  gethostname(host, sizeof host - 1);
  json_array_append_new(report->figures.hosts, json_string(host));
  if (config->mode == P2P_INITIATOR)
    json_array_append_new(report->figures.hosts, json_string(config->host));
  json_t *settings =
      json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:b}", "mode", p2p_mode_names[config->mode], "op",
                p2p_op_names[config->op], "memory", p2p_memory_names[config->memory], "buffer-sizes", config->sizes,
                "iterations", (int)config->iterations, "warmup", (int)config->warmup, "depth", (int)config->depth,
                "bidirectional", config->bidirectional, "no-check", config->no_check);
  rc = settings ? json_object_update(report->figures.settings, settings) : -1;
  json_decref(settings);
  return rc == 0 ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the results");
}

static json_t *keys_of(const struct p2p_report *report, const struct p2p_result *one) {
  char op[16];
  size_t i = 0;
  for (const char *name = p2p_op_names[one->op]; *name && i + 1 < sizeof op; name++)
    op[i++] = (char)toupper((unsigned char)*name);
  op[i] = '\0';
  // How many are under way follows from the size, and would part one line of a chart in two: it is no key.
  json_t *keys = json_pack("{s:s, s:I, s:s, s:s, s:b}", "op", op, "bytes", (json_int_t)one->bytes, "initiator_memory",
                           report->ends.here, "target_memory", report->ends.there, "same_gpu", report->ends.same_gpu);
  if (one->op != P2P_OP_NOTIFY)
    json_object_set_new(keys, "transport", json_string(one->transport));
  return keys;
}

static bool fill_row(struct figures_row *row, const struct p2p_result *one) {
  struct figure *latency = figures_add(row, "latency", "us", FIGURE_LOWER, us(histogram_mean(&one->latency)));
  if (!latency)
    return false;
  latency->count = one->latency.count;
  latency->min = us((double)one->latency.min);
  latency->p50 = percentile_us(one, 50);
  latency->p95 = percentile_us(one, 95);
  latency->p99 = percentile_us(one, 99);
  latency->p999 = percentile_us(one, 99.9);
  latency->max = us((double)one->latency.max);
  return (one->gbps <= 0 || figures_add(row, "bandwidth", "GB/s", FIGURE_HIGHER, digits_rounded(one->gbps))) &&
         (one->peer_gbps <= 0 ||
          figures_add(row, "peer_bandwidth", "GB/s", FIGURE_HIGHER, digits_rounded(one->peer_gbps))) &&
         figures_add(row, "messages", "1/s", FIGURE_HIGHER, digits_rounded(one->per_second));
}

static int keep_figures(struct p2p_report *report, const struct p2p_result *one) {
  json_t *keys = keys_of(report, one);
  struct figures_row *row = keys ? figures_add_row(&report->figures, keys, 0) : NULL;
  json_decref(keys);
  return row && fill_row(row, one) ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the results");
}

// Of what was broken off, too, what was measured.
static int write_figures(struct p2p_report *report, bool complete) {
  const struct p2p_config *config = report->config;
  struct figures *figures = &report->figures;
  const struct figures *list[] = {figures};
  const char *label = "p2p";
  figures->elapsed_s = digits_rounded((double)(clock_ns() - report->begun_ns) / 1e9);
  figures->complete = figures->passed = complete;
  if (!complete && p2p_stopped())
    snprintf(figures->cut_short, sizeof figures->cut_short, "SIG%s", sigabbrev_np(p2p_stopped()));
  else if (!complete)
    snprintf(figures->error, sizeof figures->error, "%s", weft_last_error());
  int rc = config->html ? page_save_figures(config->html, list, &label, 1) : 0;
  return rc == 0 && config->prometheus ? figures_save_prometheus(config->prometheus, figures) : rc;
}

// --- all of them ---

int p2p_report_begin(struct p2p_report *report, FILE *out, const struct p2p_config *config,
                     const struct p2p_sizes *sizes) {
  char text[32];
  *report = (struct p2p_report){.out = out, .config = config, .list = json_array()};
  if (!report->list)
    return fail(WEFT_ERR_NOMEM, "no memory for the results");
  for (uint32_t i = 0; i < sizes->count; i++) {
    int width = (int)strlen(p2p_size_text(sizes->bytes[i], text, sizeof text));
    report->size_width = width > report->size_width ? width : report->size_width;
  }
  report->begun_ns = clock_ns();
  return wants_figures(report) ? begin_figures(report) : 0;
}

int p2p_report_row(struct p2p_report *report, const struct p2p_result *result) {
  bool first = report->rows++ == 0;
  int rc = wants_figures(report) ? keep_figures(report, result) : 0;
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
  return fflush(report->out) == 0 ? 0 : fail(WEFT_ERR_SYSTEM, "cannot write the results");
}

int p2p_report_end(struct p2p_report *report, bool complete) {
  int rc = report->rows > 0 && report->config->format == P2P_JSON ? write_json(report, complete) : 0;
  int unwritten = report->rows > 0 && wants_figures(report) ? write_figures(report, complete) : 0;
  rc = rc != 0 ? rc : unwritten;
  figures_free(&report->figures);
  json_decref(report->list);
  *report = (struct p2p_report){0};
  return rc;
}
