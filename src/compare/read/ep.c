// Reads the output of the tests of DeepEP and NIXL EP about dispatch and combine. Each rank prints its own line; a row
// here is the mean over the ranks. A rank that prints a line again begins the next phase.
//
//   [rank 0] Dispatch + combine bandwidth: 256.81 GB/s, avg_t=85.85 us, min_t=76.42 us, max_t=106.50 us
//   [rank 0] Dispatch bandwidth: 88.01 GB/s, avg_t=84.10 us | Combine bandwidth: 68.61 GB/s, avg_t=210.00 us
//   [rank 0] Dispatch send/recv time: 27.25 + 7.71 us | Combine send/recv time: 32.48 + 9.45 us
//   [rank 0] HybridEP dispatch+permute torch API (BF16): 281.20 GB/s (NVL), t: 208.40 us, nvl_recv_bytes: 58.60 MB
//   [rank 0] HybridEP dispatch kernel(NVL) (BF16): 301.5 GB/s, avg_t=194.3 us | HybridEP combine kernel(NVL): ...
//   [tuning] Best dispatch (FP8): SMs 24, NVL chunk 8, RDMA chunk 16: 43.24 GB/s (RDMA), 141.14 GB/s (NVL)
//      * EP:   0/8 | dispatch: 0 GB/s (SO), 300 GB/s (SU), 85.100 us, 25000000 bytes | copy: 900 GB/s, 3.100 us
//   Data Plane (e2e): 8/8 ranks passed / Bandwidth (GB/s): avg=42.88, ... / Latency (us): avg=519.3, ...
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "base/printable.h"
#include "compare/read/lines.h"
#include "compare/read/read.h"

enum { MOST_RANKS = 4096, MOST_SUMS = 48 };

// One figure of one operation, summed over the ranks that have printed it in this phase.
struct sum {
  char op[48], figure[32], unit[8];
  uint32_t phase, ranks;
  double total;
  unsigned char seen[MOST_RANKS / 8];
};

struct reading {
  struct compare_run *run;
  uint32_t base;
  struct sum *sums; // [MOST_SUMS]
  size_t num_sums;
  char data_plane[32];         // the operation that the line before named
  double tokens, hidden, topk; // of NIXL EP's performance test; 0: unknown
};

static bool is_ep(const struct compare_text *text) {
  static const char *const marks[] = {"Dispatch + combine bandwidth: ", "] Dispatch bandwidth: ",
                                      "[tuning] Best dispatch", "Data Plane (", "] HybridEP dispatch"};
  for (size_t i = 0; !text->json && i < sizeof marks / sizeof *marks; i++)
    if (lines_have(text, marks[i]))
      return true;
  return !text->json && lines_have(text, " EP: ") && lines_have(text, "GB/s (SU)");
}

static int add(struct reading *reading, json_t *keys, const char *figure, const char *unit, double value) {
  struct compare_row *row = compare_run_row(reading->run, keys);
  struct compare_figure one = {
      .name = figure, .unit = unit, .higher = strcmp(unit, "GB/s") == 0, .value = value, .error = -1};
  return row ? compare_row_add(reading->run, row, reading->base, &one) : WEFT_ERR_NOMEM;
}

// --- lines of ranks ---

static int end_phase(struct reading *reading, struct sum *sum) {
  if (sum->ranks == 0)
    return 0;
  json_t *keys = json_pack("{s:s, s:i, s:i}", "op", sum->op, "phase", (int)sum->phase, "ranks", (int)sum->ranks);
  int err = add(reading, keys, sum->figure, sum->unit, sum->total / sum->ranks);
  sum->phase++;
  sum->ranks = 0;
  sum->total = 0;
  memset(sum->seen, 0, sizeof sum->seen);
  return err;
}

static int add_rank(struct reading *reading, unsigned rank, const char *op, const char *figure, const char *unit,
                    double value) {
  struct sum *sum = NULL;
  for (size_t i = 0; i < reading->num_sums && !sum; i++)
    if (strcmp(reading->sums[i].op, op) == 0 && strcmp(reading->sums[i].figure, figure) == 0)
      sum = &reading->sums[i];
  if (!sum && reading->num_sums == MOST_SUMS)
    return fail(WEFT_ERR_LIMIT, "more than %d figures of ranks", MOST_SUMS);
  if (!sum) {
    sum = &reading->sums[reading->num_sums++];
    snprintf(sum->op, sizeof sum->op, "%s", op);
    snprintf(sum->figure, sizeof sum->figure, "%s", figure);
    snprintf(sum->unit, sizeof sum->unit, "%s", unit);
  }
  unsigned char bit = (unsigned char)(1U << (rank % 8));
  int err = sum->seen[rank / 8] & bit ? end_phase(reading, sum) : 0;
  sum->seen[rank / 8] |= bit;
  sum->ranks++;
  sum->total += value;
  return err;
}

// "NAME bandwidth: X GB/s, avg_t=Y us"
static int read_bandwidth(struct reading *reading, unsigned rank, const char *line, const char *name, const char *op) {
  double gbps, us;
  const char *part = strstr(line, name);
  if (!part || !lines_number_after(part, name, &gbps) || !lines_number_after(part, "avg_t=", &us))
    return 0;
  int err = add_rank(reading, rank, op, "logical_bandwidth", "GB/s", gbps);
  return err ? err : add_rank(reading, rank, op, "latency", "us", us);
}

// "NAME send/recv time: X + Y us"
static int read_halves(struct reading *reading, unsigned rank, const char *line, const char *name, const char *op) {
  double send, recv;
  char half[32];
  const char *part = strstr(line, name);
  if (!part || !lines_number_after(part, name, &send) || !lines_number_after(part, " + ", &recv))
    return 0;
  snprintf(half, sizeof half, "%s_send", op);
  int err = add_rank(reading, rank, half, "latency", "us", send);
  snprintf(half, sizeof half, "%s_recv", op);
  return err ? err : add_rank(reading, rank, half, "latency", "us", recv);
}

// "HybridEP NAME: X GB/s (NVL), t: Y us, ...", with (IB) the bandwidth over the network in the same time, or
// "HybridEP NAME: X GB/s, avg_t=Y us". The operation is NAME in lower case, with _ between its words.
static int read_hybrid(struct reading *reading, unsigned rank, const char *part) {
  char op[48];
  size_t length = 0;
  part += strlen("HybridEP ");
  for (const char *c = part; *c && *c != ':' && length + 1 < sizeof op; c++)
    if (isalnum((unsigned char)*c))
      op[length++] = (char)tolower((unsigned char)*c);
    else if (length > 0 && op[length - 1] != '_')
      op[length++] = '_';
  while (length > 0 && op[length - 1] == '_')
    length--;
  op[length] = '\0';
  double value;
  int err = 0;
  if (lines_number_before(part, "GB/s (IB)", &value))
    return add_rank(reading, rank, op, "rdma_bandwidth", "GB/s", value);
  if (lines_number_before(part, "GB/s (NVL)", &value))
    err = add_rank(reading, rank, op, "nvlink_bandwidth", "GB/s", value);
  else if (lines_number_before(part, "GB/s,", &value))
    err = add_rank(reading, rank, op, "logical_bandwidth", "GB/s", value);
  if (!err && (lines_number_after(part, ", t: ", &value) || lines_number_after(part, "avg_t=", &value)))
    err = add_rank(reading, rank, op, "latency", "us", value);
  return err;
}

static int read_rank(struct reading *reading, unsigned rank, char *line) {
  char *hybrid = strstr(line, "HybridEP ");
  if (hybrid) {
    char *second = strstr(hybrid, " | HybridEP ");
    if (second)
      *second = '\0';
    int err = read_hybrid(reading, rank, hybrid);
    return err || !second ? err : read_hybrid(reading, rank, second + strlen(" | "));
  }
  int err = read_bandwidth(reading, rank, line, "Dispatch + combine bandwidth: ", "both");
  if (!err)
    err = read_bandwidth(reading, rank, line, "Dispatch bandwidth: ", "dispatch");
  if (!err)
    err = read_bandwidth(reading, rank, line, "Combine bandwidth: ", "combine");
  if (!err)
    err = read_halves(reading, rank, line, "Dispatch send/recv time: ", "dispatch");
  return err ? err : read_halves(reading, rank, line, "Combine send/recv time: ", "combine");
}

// "EP:   0/8 | expanded dispatch: X GB/s (SO), Y GB/s (SU), Z us, ... | copy: C GB/s, T us"
static int read_second_version(struct reading *reading, unsigned rank, char *line) {
  char *part = strstr(line, " | ");
  char *more = part ? strstr(part + 3, " | ") : NULL;
  if (!part)
    return 0;
  part += 3;
  if (more)
    *more = '\0';
  char op[32];
  size_t length = strcspn(part, ":");
  double value;
  snprintf(op, sizeof op, "%.*s", (int)(length < sizeof op ? length : sizeof op - 1), part);
  printable_line(op); // its last character may be incomplete
  for (char *c = op; *c; c++)
    if (*c == ' ')
      *c = '_';
  int err = 0;
  if (lines_number_before(part, "GB/s (SO)", &value))
    err = add_rank(reading, rank, op, "scaleout_bandwidth", "GB/s", value);
  if (!err && lines_number_before(part, "GB/s (SU)", &value))
    err = add_rank(reading, rank, op, "scaleup_bandwidth", "GB/s", value);
  if (!err && lines_number_before(part, "us,", &value))
    err = add_rank(reading, rank, op, "latency", "us", value);
  if (!err && more && lines_number_before(more + 3, "us", &value))
    err = add_rank(reading, rank, op, strncmp(more + 3, "reduce", 6) == 0 ? "reduce" : "copy", "us", value);
  return err;
}

// --- lines of the whole run ---

static int read_tuning(struct reading *reading, const char *line) {
  const char *op = strstr(line, "Best dispatch") ? "dispatch" : "combine", *dtype = strchr(line, '(');
  const char *colon = strchr(line, ':');
  char type[16] = "";
  double value;
  if (dtype && colon && dtype < colon)
    snprintf(type, sizeof type, "%.*s", (int)strcspn(dtype + 1, ")"), dtype + 1);
  printable_line(type);
  json_t *keys = *type ? json_pack("{s:s, s:s}", "op", op, "dtype", type) : json_pack("{s:s}", "op", op);
  int err = 0;
  if (lines_number_before(line, "GB/s (RDMA)", &value))
    err = add(reading, json_incref(keys), "rdma_bandwidth", "GB/s", value);
  if (!err && lines_number_before(line, "GB/s (NVL)", &value))
    err = add(reading, json_incref(keys), "nvlink_bandwidth", "GB/s", value);
  // "t: 245.31 us", "transmit: 245.31 us, notify: ...", or "12 + 245 us", the first of which is the notification.
  if (!err && (lines_number_after(line, ", t: ", &value) || lines_number_after(line, "transmit: ", &value) ||
               lines_number_after(line, " + ", &value)))
    err = add(reading, json_incref(keys), "latency", "us", value);
  json_decref(keys);
  return err;
}

static int read_data_plane(struct reading *reading, const char *line) {
  static const char mark[] = "Data Plane (";
  const char *name = strstr(line, mark);
  if (name) {
    name += sizeof mark - 1;
    snprintf(reading->data_plane, sizeof reading->data_plane, "%.*s",
             (int)(strcspn(name, ")") < sizeof reading->data_plane ? strcspn(name, ")") : 0), name);
    return 0;
  }
  lines_number_after(line, "Tokens: ", &reading->tokens);
  lines_number_after(line, "Hidden: ", &reading->hidden);
  lines_number_after(line, "TopK: ", &reading->topk);
  bool bandwidth = strncmp(line, "Bandwidth (GB/s):", 17) == 0, latency = strncmp(line, "Latency (", 9) == 0;
  double value;
  if (!*reading->data_plane || !(bandwidth || latency) || !lines_number_after(line, "avg=", &value))
    return 0;
  json_t *keys = json_pack("{s:s}", "op", strcmp(reading->data_plane, "e2e") ? reading->data_plane : "both");
  const double numbers[] = {reading->tokens, reading->hidden, reading->topk};
  static const char *const names[] = {"tokens", "hidden", "topk"};
  for (size_t i = 0; keys && i < 3; i++)
    if (numbers[i] > 0 && numbers[i] < 1e9)
      json_object_set_new(keys, names[i], json_integer((json_int_t)numbers[i]));
  return add(reading, keys, bandwidth ? "logical_bandwidth" : "latency", bandwidth ? "GB/s" : "us", value);
}

static int read_line(struct reading *reading, struct lines *lines) {
  double rank;
  char *line = lines->line;
  if (strstr(line, "[tuning] Best "))
    return read_tuning(reading, line);
  bool first = strstr(line, "[rank ") != NULL;
  if (!lines_number_after(line, first ? "[rank " : " EP: ", &rank))
    return read_data_plane(reading, line);
  if (rank >= MOST_RANKS)
    return fail(WEFT_ERR_PROTOCOL, "line %u: rank %.0f: want less than %d", lines->number, rank, MOST_RANKS);
  return first ? read_rank(reading, (unsigned)rank, line) : read_second_version(reading, (unsigned)rank, line);
}

static int read_ep(struct compare_run *run, const struct compare_text *text, uint32_t base) {
  struct lines lines = lines_of(text);
  struct reading reading = {.run = run, .base = base, .sums = calloc(MOST_SUMS, sizeof(struct sum))};
  int err = reading.sums ? compare_run_repeats(run, base + 1, 0) : fail(WEFT_ERR_NOMEM, "no memory to read ranks");
  while (!err && lines_next(&lines))
    err = read_line(&reading, &lines);
  for (size_t i = 0; !err && i < reading.num_sums; i++)
    err = end_phase(&reading, &reading.sums[i]);
  free(reading.sums);
  return err;
}

const struct compare_reader compare_read_ep = {
    .name = "DeepEP or NIXL EP test output",
    .is = is_ep,
    .read = read_ep,
};
