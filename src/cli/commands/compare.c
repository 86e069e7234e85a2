// weft compare: shows the changes between runs, and whether they are more than noise.
#include "compare/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/digits.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"
#include "compare/input.h"
#include "compare/operands.h"
#include "compare/read/baseline.h"
#include "measure/json_file.h"
#include "measure/whole_file.h"
#include "page/page.h"

struct options {
  struct cli_words runs, repeats, figures, only, ignore;
  const char *baseline, *save_baseline, *limit, *floor, *html;
  uint32_t resamples;
  uint64_t seed;
  enum compare_pairing paired;
  enum cli_terminal_color color;
  bool percentiles, json, csv, markdown;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

static const char *const pairings[] = {
    [COMPARE_PAIR_AUTO] = "auto", [COMPARE_PAIR_YES] = "yes", [COMPARE_PAIR_NO] = "no", NULL};

// clang-format off
static const struct cli_option rows[] = {
  {.name = "runs", .operand = true, .type = OPTION_WORDS, .metavar = "RUN", FIELD(runs),
   .help = "FILE, a run's directory, or - for standard input; FILE,FILE are repeats of one run, and LABEL=FILE,FILE "
   "gives the run a name; the other runs are compared with the first one"},
  {.name = "repeats", .type = OPTION_WORDS, .metavar = "LABEL=FILE,FILE", FIELD(repeats),
   .help = "more repeats of a run, or one more run; may be given several times"},
  {.name = "baseline", .type = OPTION_PATH, .metavar = "FILE", FIELD(baseline),
   .help = "file of the first run: one that --save-baseline wrote, or any other result"},
  {.name = "save-baseline", .type = OPTION_PATH, .metavar = "FILE", FIELD(save_baseline),
   .help = "write the last run as a small file for a repository: without the samples, but with how much they varied"},
  {.name = "limit", .type = OPTION_STRING, .metavar = "PERCENT", FIELD(limit), .preset_note = "no limit",
   .help = "exit with status 1 if a figure is worse by more than this, and the change is more than noise", .section =
   "Judging"},
  {.name = "floor", .type = OPTION_STRING, .metavar = "PERCENT", FIELD(floor), .preset = "1",
   .help = "smaller changes count as no change, even if they are significant"},
  {.name = "paired", .type = OPTION_ENUM, .metavar = "WHEN", .choices = pairings, .preset = "auto", FIELD(paired),
   .help = "compare repeats pair by pair; auto: if the runs took turns, A B A B"},
  {.name = "resamples", .type = OPTION_UINT, .metavar = "N", .min = 200, .max = 1000000, .preset = "1000",
   FIELD(resamples), .help = "draws of the bootstrap for each figure"},
  {.name = "seed", .type = OPTION_UINT, .metavar = "N", .preset = "1", FIELD(seed),
   .help = "seed of the draws: the same seed gives the same intervals"},
  {.name = "figure", .type = OPTION_WORDS, .metavar = "NAME", FIELD(figures),
   .help = "compare this figure only, such as latency, bandwidth or latency_p99; may be given several times",
   .section = "Choosing"},
  {.name = "percentiles", .type = OPTION_FLAG, FIELD(percentiles),
   .help = "compare percentiles too"},
  {.name = "only", .type = OPTION_WORDS, .metavar = "KEY=VALUE", FIELD(only),
   .help = "compare only rows with this value, such as op=WRITE; may be given several times"},
  {.name = "ignore", .type = OPTION_WORDS, .metavar = "KEY", FIELD(ignore),
   .help = "treat rows as the same that differ only in this key, such as transport; may be given several times"},
  {.name = "json", .type = OPTION_FLAG, FIELD(json), .help = "print JSON", .section = "Output"},
  {.name = "csv", .type = OPTION_FLAG, FIELD(csv), .help = "print one CSV record for each figure"},
  {.name = "markdown", .type = OPTION_FLAG, FIELD(markdown), .help = "print a table for a pull request"},
  {.name = "html", .type = OPTION_PATH, .metavar = "FILE", FIELD(html),
   .help = "also write a page with pictures to this file; it opens in a browser without a network"},
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto",
   FIELD(color), .help = "colours in the table"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft compare before.json after.json", "what changed"},
    {"weft compare A=a1.json,a2.json,a3.json B=b1.json,b2.json,b3.json",
     "three repeats of each, which show how much runs differ"},
    {"weft compare --baseline base.json new.json --limit 5",
     "for CI: exit status 1 if a figure is worse by more than 5 %"},
    {"weft compare new.json --save-baseline base.json", "make the baseline for the command above"},
    {"weft compare nixlbench.txt bench.json --only op=WRITE --figure bandwidth",
     "read the output of another benchmark"},
    {NULL, NULL},
};

static int read_runs(const struct options *options, struct operands *operands) {
  int err = options->baseline ? operands_add(operands, options->baseline) : 0;
  operands->baseline = options->save_baseline; // it may replace the older baseline, but no other run
  for (uint32_t i = 0; !err && i < options->runs.count; i++)
    err = operands_add(operands, options->runs.list[i]);
  for (uint32_t i = 0; !err && i < options->repeats.count; i++)
    err = operands_add(operands, options->repeats.list[i]);
  size_t least = options->save_baseline ? 1 : 2;
  if (!err && operands->count < least)
    err = fail(WEFT_ERR_INVALID, "%s: want two or more: weft compare BEFORE AFTER, or --baseline FILE AFTER",
               operands->count ? "there is only one run, and no other to compare it with" : "no run is given");
  for (uint32_t i = 0; !err && i < options->only.count; i++) {
    char key[COMPARE_NAME];
    const char *value;
    err = operands_pair(options->only.list[i], key, sizeof key, &value);
    for (size_t k = 0; !err && k < operands->count; k++)
      err = input_keep(&operands->runs[k], key, value);
  }
  return err;
}

static int save_baseline(const struct operands *operands, const char *path) {
  json_t *json = compare_baseline_json(&operands->runs[operands->count - 1]);
  int err = json ? json_file_save(json, AT_FDCWD, path) : WEFT_ERR_NOMEM;
  json_decref(json);
  return err;
}

static int write_json(const struct comparison *comparison) {
  json_t *json = compare_to_json(comparison);
  bool written = json && json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS_IN_JSON)) == 0;
  json_decref(json);
  if (!json)
    return WEFT_ERR_NOMEM;
  return written && fputc('\n', stdout) != EOF && fflush(stdout) == 0
             ? 0
             : fail_errno(errno, "cannot write the comparison");
}

static int save_page(const struct comparison *comparison, const char *path) {
  json_t *json = compare_to_json(comparison);
  int err = json ? page_save_comparison(path, json) : WEFT_ERR_NOMEM;
  json_decref(json);
  return err;
}

static int print(const struct options *options, const struct comparison *comparison) {
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, options->color);
  struct compare_look look = {.color = terminal.color, .unicode = terminal.unicode, .width = terminal.width};
  if (options->json)
    return write_json(comparison);
  if (options->csv)
    return compare_write_csv(stdout, comparison);
  if (options->markdown)
    return compare_write_markdown(stdout, comparison);
  return compare_write_table(stdout, comparison, &look);
}

// Checks the options before any file is read.
static int settings_of(const struct options *options, struct compare_options *settings) {
  *settings = (struct compare_options){.limit = -1,
                                       .resamples = options->resamples,
                                       .seed = options->seed,
                                       .pairing = options->paired,
                                       .num_figures = options->figures.count,
                                       .figures = options->figures.list,
                                       .percentiles = options->percentiles,
                                       .match = {options->ignore.count, options->ignore.list}};
  if (options->json + options->csv + options->markdown > 1)
    return fail(WEFT_ERR_INVALID, "want one of --json, --csv and --markdown");
  if (options->html && options->save_baseline && whole_file_is_one(options->html, options->save_baseline))
    return fail(WEFT_ERR_INVALID, "--html and --save-baseline are both %s: want a file for each", options->html);
  int err = options->html ? page_check(options->html) : 0;
  if (err)
    return err;
  err = options->limit ? operands_percent("limit", options->limit, &settings->limit) : 0;
  return err ? err : operands_percent("floor", options->floor, &settings->floor);
}

static int compare(const struct cli_call *call, const struct options *options, const struct operands *operands,
                   const struct compare_options *settings) {
  enum { BEYOND_LIMIT = 1, WRONG_INPUT = 2 };
  struct comparison comparison = {0};
  int err = compare_runs(operands->runs, operands->count, settings, &comparison);
  if (err) {
    cli_command_failed(call, err);
    return WRONG_INPUT;
  }
  err = print(options, &comparison);
  if (!err && options->html)
    err = save_page(&comparison, options->html);
  if (!err && options->save_baseline)
    err = save_baseline(operands, options->save_baseline);
  int status = err ? cli_command_failed(call, err) : comparison.beyond > 0 ? BEYOND_LIMIT : 0;
  compare_free(&comparison);
  return status;
}

static int run(const struct cli_call *call) {
  enum { WRONG_INPUT = 2 };
  struct options options = {0};
  struct compare_options settings;
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  struct operands *operands = calloc(1, sizeof *operands);
  int err = operands ? settings_of(&options, &settings) : fail(WEFT_ERR_NOMEM, "no memory for the runs");
  if (!err) {
    operands->html = options.html;
    err = read_runs(&options, operands);
  }
  if (err) {
    cli_command_failed(call, err);
    status = WRONG_INPUT;
  } else if (options.save_baseline && (err = whole_file_check_place(options.save_baseline))) {
    status = cli_command_failed(call, err);
  } else if (operands->count > 1) {
    status = compare(call, &options, operands, &settings);
  } else if ((err = save_baseline(operands, options.save_baseline))) {
    status = cli_command_failed(call, err);
  }
  if (operands)
    operands_free(operands);
  free(operands);
  return status;
}

const struct cli_command cli_compare = {
    .name = "compare",
    .summary = "what changed between runs, and whether it is more than noise",
    .description =
        "Reads two or more runs and compares each figure of each row with the first run's: the change, its confidence "
        "interval, and whether the change is more than noise. A run is a file that weft bench, elastic or p2p (--json, "
        "--csv) wrote, a baseline, or the text that nixlbench, nccl-tests, perftest, or the tests of DeepEP and NIXL "
        "EP print; the command recognizes each by its content.\n"
        "Exit status 0: no figure is worse by more than --limit; 1: a figure is; 2: a file holds no result that can be "
        "read, or the runs have nothing in common.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
