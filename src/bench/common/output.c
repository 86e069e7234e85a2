// Writes the rows of a benchmark to its outputs.
#include "bench/common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/printable.h"
#include "base/text/digits.h"
#include "base/time/clock.h"
#include "bench/common/output_files.h"
#include "bench/common/output_table.h"

static bool is_dash(const char *path) {
  return path && strcmp(path, "-") == 0;
}

void bench_output_init(struct bench_output *output, const struct bench_options *options) {
  *output = (struct bench_output){.json = options->json,
                                  .csv = options->csv,
                                  .html = options->html,
                                  .prometheus = options->prometheus,
                                  .width = 100};
}

int bench_output_begin(struct bench_output *output, const struct figures *figures) {
  bool taken = is_dash(output->json) || is_dash(output->csv);
  if (!output->out && !taken)
    output->out = stdout;
  int err = bench_output_check_pages(output);
  if (!err && output->csv)
    err = bench_output_csv_open(output);
  if (!err && output->json && !is_dash(output->json))
    err = figures_save(figures, output->json);
  return err;
}

// Prints an error once, when it happens; the end of the benchmark returns it again.
static void note(struct bench_output *output, int err) {
  if (!err || output->saved_err)
    return;
  output->saved_err = err;
  snprintf(output->saved_why, sizeof output->saved_why, "%s", weft_last_error());
  if (output->progress)
    bench_progress_hide(output->progress);
  fprintf(stderr, "weft bench: %s; the measurements continue\n", output->saved_why);
}

static void print_row(struct bench_output *output, const struct figures_row *row) {
  if (!output->out)
    return;
  if (output->progress)
    bench_progress_hide(output->progress);
  if (!output->headed) {
    if (bench_output_table_begin(output, row) != 0)
      return;
    bench_output_table_head(output);
  }
  output->headed = true;
  bench_output_table_row(output, row);
  if (fflush(output->out) != 0)
    note(output, fail_errno(errno, "cannot write the table to standard output"));
}

// Writes the whole document after each row. Its size grows with the rows: if writing takes long, the next row that is
// written comes so much later that writing takes at most a tenth of the time.
static void save_json(struct bench_output *output, const struct figures *figures) {
  uint64_t begin = clock_ns();
  if (!output->json || is_dash(output->json) || begin < output->next_save_ns)
    return;
  int err = figures_save(figures, output->json);
  uint64_t now = clock_ns();
  output->next_save_ns = now - begin > BENCH_OUTPUT_QUICK_NS ? now + 10 * (now - begin) : 0;
  note(output, err);
}

void bench_output_row(struct bench_output *output, const struct figures *figures, const struct figures_row *row) {
  output->refused = output->refused || row->refused[0];
  print_row(output, row);
  if (output->csv_file)
    note(output, bench_output_csv_row(output, row));
  save_json(output, figures);
}

static int print_json(const struct figures *figures) {
  json_t *json = figures_to_json(figures);
  if (!json)
    return WEFT_ERR_NOMEM;
  int err = json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS_IN_JSON)) != 0 || putchar('\n') < 0 ||
                    fflush(stdout) != 0
                ? fail_errno(errno, "cannot write the figures to standard output")
                : 0;
  json_decref(json);
  return err;
}

// If the file cannot be written, for instance because the disk is full, writes the figures to another place, and the
// error names that place.
static int save_last(const struct figures *figures, const char *path) {
  char why[FAIL_DETAIL_SIZE], elsewhere[256];
  const char *directory = getenv("TMPDIR");
  int err = figures_save(figures, path);
  if (!err || figures->num_rows == 0)
    return err;
  snprintf(why, sizeof why, "%s", weft_last_error());
  snprintf(elsewhere, sizeof elsewhere, "%.200s/weft-bench-%d.json", directory && *directory ? directory : "/tmp",
           (int)getpid());
  if (figures_save(figures, elsewhere) == 0)
    return fail(err, "%s; the figures are in %s instead", why, elsewhere);
  return fail(err, "%s; nor can they be written to %s", why, elsewhere);
}

// Keeps the first error with its sentence, and prints each further one.
static void keep_error(int *first, char why[FAIL_DETAIL_SIZE], int err) {
  if (err && *first)
    fprintf(stderr, "weft bench: %s\n", weft_last_error());
  else if (err)
    snprintf(why, FAIL_DETAIL_SIZE, "%s", weft_last_error());
  *first = *first ? *first : err;
}

void bench_output_uses(struct bench_output *output, struct figures *figures, const char *peer_uses,
                       const struct limits_route *route) {
  if (output->progress)
    bench_progress_hide(output->progress);
  limits_uses_note(&output->uses, peer_uses, route);
  printable_line(output->uses.text); // another host may have sent it
  if (output->uses.text[0])
    json_object_set_new(figures->settings, "uses", json_string(output->uses.text));
}

int bench_output_end(struct bench_output *output, const struct figures *figures) {
  char why[FAIL_DETAIL_SIZE] = "";
  int err = 0;
  if (output->progress)
    bench_progress_hide(output->progress);
  if (output->out && !figures->complete)
    fprintf(output->out, "cut short%s%s: rows that were not measured are missing above\n",
            figures->cut_short[0] ? " by " : "", figures->cut_short);
  if (output->out && output->uses.text[0])
    fprintf(output->out, "uses: %s\n", output->uses.text);
  if (is_dash(output->json))
    keep_error(&err, why, print_json(figures));
  else if (output->json)
    keep_error(&err, why, save_last(figures, output->json));
  keep_error(&err, why, bench_output_write_pages(output, figures));
  keep_error(&err, why, bench_output_csv_close(output));
  // The error of an earlier row. It does not matter for a JSON file, which has been written again since.
  if (!err && output->saved_err && (output->csv || output->out)) {
    err = output->saved_err;
    snprintf(why, sizeof why, "%s", output->saved_why);
  }
  free(output->table);
  output->table = NULL;
  return err ? fail(err, "%s", why) : 0;
}

int bench_output_result(const struct bench_output *output, int err, const char *why, int written) {
  if (!err)
    return written;
  if (written && strcmp(weft_last_error(), why) != 0 && strcmp(weft_last_error(), output->saved_why) != 0)
    fprintf(stderr, "weft bench: %s\n", weft_last_error());
  return fail(err, "%s", why);
}

bool bench_output_refused(const struct bench_output *output) {
  return output->refused;
}
