// The table. Its columns have fixed widths, because a row appears as soon as it is measured. It fits 100 columns.
#include "p2p/report.h"

#include <string.h>

#include "base/text/table.h"
#include "base/text/wrap.h"

enum { GAP = 2, MIN_SIZE = 4, CELL = 48, WIDTH = 100 };

enum column { OP, SIZE, P50, P99, P999, MAX, DEPTH, RATE, OWN, PEER, BOUND, DATA, VIA, COLUMNS };

static const char latency_group[] = "latency (us)", rate_group[] = "several under way";

static const struct {
  const char *heading;
  const char *group; // heading over this column and its neighbours of the same group
  int width;
  bool right;
} columns[COLUMNS] = {
    [OP] = {"op", NULL, 6, false},
    [SIZE] = {"size", NULL, 0, true},
    [P50] = {"p50", latency_group, 7, true},
    [P99] = {"p99", latency_group, 7, true},
    [P999] = {"p99.9", latency_group, 7, true},
    [MAX] = {"max", latency_group, 7, true},
    [DEPTH] = {"depth", rate_group, 5, true},
    [RATE] = {"1/s", rate_group, 8, true},
    [OWN] = {"GB/s", rate_group, 7, true},
    [PEER] = {"peer's", rate_group, 7, true},
    [BOUND] = {"bound", rate_group, 5, true},
    [DATA] = {"data", NULL, 4, false},
    [VIA] = {"via", NULL, 0, false},
};

// With the peer's rate there is no room for the largest latency; CSV and JSON have it.
static bool shown(const struct p2p_report *report, enum column column) {
  return column == PEER ? report->config->bidirectional : column == MAX ? !report->config->bidirectional : true;
}

static int width_of(const struct p2p_report *report, enum column column) {
  if (column != SIZE)
    return columns[column].width;
  return report->size_width > MIN_SIZE ? report->size_width : MIN_SIZE;
}

static void put(const struct p2p_report *report, enum column column, enum table_style style, const char *text) {
  int width = width_of(report, column), used = (int)table_width(text);
  fprintf(report->out, "%*s", column > OP ? GAP : 0, "");
  fprintf(report->out, "%*s", columns[column].right && used < width ? width - used : 0, "");
  table_print_text(report->out, report->config->color, style, text, columns[column].right ? 0 : (size_t)width);
}

// "--- name ---" of so many columns.
static void put_group(const struct p2p_report *report, const char *group, int width) {
  char line[4 * CELL];
  int rules = width - (int)strlen(group) - 2, used = 0;
  for (int i = 0; i < rules; i++) {
    used += i == rules / 2 ? snprintf(line + used, sizeof line - (size_t)used, " %s ", group) : 0;
    used += snprintf(line + used, sizeof line - (size_t)used, "%s", report->config->unicode ? "─" : "-");
  }
  table_print_text(report->out, report->config->color, TABLE_DIM, line, 0);
}

// Prints each group over its columns, without blanks after the last one.
static void put_groups(const struct p2p_report *report) {
  int blanks = 0, end = 0;
  for (int k = 0; k < COLUMNS; k = end) {
    const char *group = columns[k].group;
    int width = -GAP;
    for (end = k; end < COLUMNS && columns[end].group == group; end++)
      width += shown(report, end) ? width_of(report, end) + GAP : 0;
    if (group) {
      fprintf(report->out, "%*s", blanks, "");
      put_group(report, group, width);
    }
    blanks = GAP + (group ? 0 : blanks + width);
  }
  fputc('\n', report->out);
}

// Prints between which ends the bytes move, if a reader could mistake them.
static void put_ends(const struct p2p_report *report) {
  const struct p2p_ends *ends = &report->ends;
  if (ends->same_gpu)
    fprintf(report->out, "both ends are on GPU %s: copies within the memory of one GPU, without a link\n",
            strchr(ends->here, ':') + 1);
  else if (strchr(ends->here, ':') || strchr(ends->there, ':'))
    fprintf(report->out, "initiator: %s, target: %s\n", ends->here, ends->there);
}

static void put_note(const struct p2p_report *report, const char *before, const char *text) {
  fputs(before, report->out);
  wrap_write(report->out, text, strlen(before), strlen(before), WIDTH);
}

void p2p_table_head(const struct p2p_report *report) {
  put_ends(report);
  put_groups(report);
  for (enum column k = OP; k < COLUMNS; k++)
    if (shown(report, k))
      put(report, k, TABLE_DIM, columns[k].heading);
  fputc('\n', report->out);
}

// At most seven characters for times below ten seconds.
static const char *us(uint64_t ns, char out[CELL]) {
  double value = (double)ns / 1e3;
  snprintf(out, CELL, value < 1e3 ? "%.2f" : value < 1e5 ? "%.1f" : "%.0f", value);
  return out;
}

static const char *gbps(double value, char out[CELL]) {
  *out = '\0';
  if (value > 0)
    snprintf(out, CELL, value < 0.1 ? "%.5f" : "%.3f", value);
  return out;
}

static const char *rate(const struct p2p_result *one, char out[CELL]) {
  *out = '\0';
  if (one->per_second > 0)
    snprintf(out, CELL, "%.0f", one->per_second);
  return out;
}

static const char *percent(const struct p2p_result *one, char out[CELL]) {
  *out = '\0';
  if (one->percent >= 0 && !*one->refused)
    snprintf(out, CELL, one->percent < 0.05 ? "<0.1%%" : one->percent < 9.95 ? "%.1f%%" : "%.0f%%", one->percent);
  return out;
}

void p2p_table_row(const struct p2p_report *report, const struct p2p_result *one) {
  char text[CELL];
  put(report, OP, TABLE_PLAIN, p2p_op_names[one->op]);
  put(report, SIZE, TABLE_PLAIN, p2p_size_text(one->bytes, text, sizeof text));
  put(report, P50, TABLE_BOLD, us(histogram_percentile(&one->latency, 50), text));
  put(report, P99, TABLE_PLAIN, us(histogram_percentile(&one->latency, 99), text));
  put(report, P999, TABLE_PLAIN, us(histogram_percentile(&one->latency, 99.9), text));
  if (shown(report, MAX))
    put(report, MAX, TABLE_PLAIN, us(one->latency.max, text));
  snprintf(text, sizeof text, "%u", one->depth);
  put(report, DEPTH, TABLE_PLAIN, text);
  put(report, RATE, TABLE_PLAIN, rate(one, text));
  put(report, OWN, *one->refused ? TABLE_RED : TABLE_BOLD, *one->refused ? "refused" : gbps(one->gbps, text));
  if (shown(report, PEER))
    put(report, PEER, TABLE_PLAIN, gbps(one->peer_gbps, text));
  put(report, BOUND, TABLE_PLAIN, percent(one, text));
  put(report, DATA, one->checked ? TABLE_GREEN : TABLE_PLAIN, one->checked ? "ok" : "");
  put(report, VIA, TABLE_PLAIN, one->transport);
  fputc('\n', report->out);
  if (*one->refused)
    put_note(report, "refused: ", one->refused);
}

void p2p_table_foot(const struct p2p_report *report) {
  if (*report->uses.text)
    put_note(report, "uses: ", report->uses.text);
  for (uint32_t i = 0; i < report->num_bounds; i++) {
    const struct limits_bound *bound = &report->bounds[i];
    char text[LIMITS_DETAIL + 128];
    if (bound->gbps > 0)
      snprintf(text, sizeof text, "%s, %.4g GB/s: %s, %s", bound->name, bound->gbps,
               bound->measured ? "measured" : "described", bound->detail);
    else
      snprintf(text, sizeof text, "%s, not known: %s", bound->name, bound->detail);
    put_note(report, "bound: ", text);
  }
}
