// weft report: prints the report of a run again.
#include "base/fail.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"
#include "measure/json_file.h"
#include "measure/prometheus.h"
#include "measure/results.h"
#include "measure/whole_file.h"
#include "page/page.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
  const char *dir, *html, *prometheus;
  struct cli_words more;
  enum report_format format;
  enum cli_terminal_color color;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

static const char *const formats[] = {[REPORT_TEXT] = "text", [REPORT_JSON] = "json", [REPORT_CSV] = "csv", NULL};

// clang-format off
static const struct cli_option rows[] = {
  {.name = "run-dir", .operand = true, .required = true, .type = OPTION_PATH, .metavar = "DIR", FIELD(dir),
   .help = "run directory, or a results.json; for --html and --prometheus also a JSON file of 'weft bench'; for "
   "--html also one of 'weft compare'"},
  {.name = "more", .operand = true, .type = OPTION_WORDS, .metavar = "FILE", FIELD(more),
   .help = "further JSON files of 'weft bench', which are shown in the same page"},
  {.name = "format", .letter = 'f', .type = OPTION_ENUM, .metavar = "FORMAT", .choices = formats, .preset = "text",
   FIELD(format), .help = "tables for people, JSON, or one CSV row for each phase and rank"},
  {.name = "html", .type = OPTION_PATH, .metavar = "FILE", FIELD(html),
   .help = "write a page with pictures to this file instead, which opens in a browser without a network"},
  {.name = "prometheus", .type = OPTION_PATH, .metavar = "FILE", FIELD(prometheus),
   .help = "write the figures to this file instead, for the textfile collector of a node exporter"},
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto",
   FIELD(color), .help = "colours in the text"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft report weft-run/DIR", "the report that 'weft elastic' printed at its end"},
    {"weft report weft-run/DIR --format csv > ranks.csv", "one row for each phase and rank, for a spreadsheet"},
    {"weft report weft-run/DIR --html run.html",
     "a page with pictures: ranks and phases, latencies, bandwidths, stalls"},
    {"weft report before.json after.json --html both.html", "two documents of 'weft bench' in one page"},
    {NULL, NULL},
};

// For a directory of run directories, such as weft-run, the sentence names the newest run: names begin with the time.
static int refuse_directory(const char *dir) {
  char newest[NAME_MAX + 1] = "", path[PATH_MAX];
  DIR *folder = opendir(dir);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    int length = snprintf(path, sizeof path, "%s/%s/results.json", dir, entry->d_name);
    if (entry->d_name[0] != '.' && length < (int)sizeof path && access(path, F_OK) == 0 &&
        strcmp(entry->d_name, newest) > 0)
      snprintf(newest, sizeof newest, "%s", entry->d_name);
  }
  if (folder)
    closedir(folder);
  size_t size = strlen(dir);
  return fail(WEFT_ERR_SYSTEM, "%s is not the directory of a run: it has no results.json%s%s%s%s", dir,
              *newest ? "; want one in it, such as " : "", *newest ? dir : "",
              *newest && size > 0 && dir[size - 1] != '/' ? "/" : "", newest);
}

static int load(struct results *results, const char *dir) {
  struct stat info;
  if (stat(dir, &info) != 0)
    return fail_errno(errno, "cannot read the run directory %s", dir);
  if (!S_ISDIR(info.st_mode))
    return results_load(results, dir);
  char *path = NULL, *events = NULL;
  if (asprintf(&path, "%s/results.json", dir) < 0 || asprintf(&events, "%s/events.jsonl", dir) < 0) {
    free(path);
    return fail(WEFT_ERR_NOMEM, "no memory for a path");
  }
  int err = 0;
  if (access(path, F_OK) == 0 || errno != ENOENT)
    err = results_load(results, path);
  else if (access(events, F_OK) == 0)
    err = fail(WEFT_ERR_SYSTEM, "the run in %s has no results.json: it has not ended yet, or was killed", dir);
  else
    err = refuse_directory(dir);
  free(path);
  free(events);
  return err;
}

// --- documents of weft bench and weft compare ---

static bool is_document(const char *path) {
  struct stat info;
  json_t *json = NULL;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || json_file_load(path, "results", &json) != 0)
    return false; // load() says why
  bool is = page_file_kind(json) != PAGE_FILE_OTHER;
  json_decref(json);
  return is;
}

static int save_prometheus(const struct options *options) {
  struct figures figures = {0};
  if (options->more.count > 0)
    return fail(WEFT_ERR_INVALID, "--prometheus takes one document, but %s is a second one: write a FILE.prom for each",
                options->more.list[0]);
  int err = figures_load(&figures, options->dir);
  if (!err)
    err = figures_save_prometheus(options->prometheus, &figures);
  figures_free(&figures);
  return err;
}

static int report_documents(const struct options *options) {
  const char *files[1 + sizeof options->more.list / sizeof *options->more.list] = {options->dir};
  if (!options->html && !options->prometheus)
    return fail(WEFT_ERR_INVALID,
                "%s is not the result of a run; for a file of weft bench or weft compare, want --html FILE (or "
                "--prometheus FILE)",
                options->dir);
  for (uint32_t i = 0; i < options->more.count; i++)
    files[1 + i] = options->more.list[i];
  int err = options->html ? page_save_files(options->html, files, 1 + options->more.count) : 0;
  return !err && options->prometheus ? save_prometheus(options) : err;
}

// --- runs ---

static int write_files(const struct options *options, const struct results *results) {
  int err = options->html ? page_save_run(options->html, results) : 0;
  if (!err && options->prometheus)
    err = results_save_prometheus(options->prometheus, results);
  return err;
}

// Checks that no output file would overwrite an input.
static int check_outputs(const struct options *options) {
  for (uint32_t i = 0; i <= options->more.count; i++) {
    const char *input = i == 0 ? options->dir : options->more.list[i - 1];
    int err = whole_file_check_input("html", options->html, input);
    if (!err)
      err = whole_file_check_input("prometheus", options->prometheus, input);
    if (err)
      return err;
  }
  return page_check_files(options->html, options->prometheus);
}

// The user named the file: one that holds no results is wrong input, as for weft compare.
static int failed(const struct cli_call *call, int err) {
  bool no_results = err == WEFT_ERR_PROTOCOL || err == WEFT_ERR_VERSION;
  return cli_command_failed(call, no_results ? WEFT_ERR_INVALID : err);
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  struct results results = {0};
  int err = check_outputs(&options);
  if (!err && is_document(options.dir)) {
    err = report_documents(&options);
    return err ? failed(call, err) : 0;
  }
  if (err)
    return failed(call, err);
  err = options.more.count > 0 && access(options.dir, F_OK) == 0 // load() reports a missing file
            ? fail(WEFT_ERR_INVALID, "%s is one file too many: a report is of one run", options.more.list[0])
            : load(&results, options.dir);
  if (err)
    return failed(call, err);
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, options.color);
  struct report_options look = {
      .format = options.format, .color = terminal.color, .unicode = terminal.unicode, .width = terminal.width};
  bool files = options.html || options.prometheus;
  err = files ? write_files(&options, &results) : report_write(stdout, &results, &look);
  results_free(&results);
  return err ? failed(call, err) : 0;
}

const struct cli_command cli_report = {
    .name = "report",
    .summary = "print the report of a run again",
    .description =
        "Reads the results in a run directory and writes them as text, JSON or CSV, as a page with pictures or for a "
        "node exporter. Exit status 0 means that the report could be made, even if the run failed; 2 means that a file "
        "holds no results, or results of another version.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
