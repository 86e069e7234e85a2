// weft bench limits: measures the bounds of transfers on this host, and keeps them.
#include "base/fail.h"
#include "base/text/digits.h"
#include "base/text/table.h"
#include "cli/commands/commands.h"
#include "cli/process/terminal.h"
#include "limits/measured/measured.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time/clock.h"

#define FIELD(member) OPTION_FIELD(struct options, member)

struct options {
  const char *path;
  uint32_t seconds;
  bool json, show, forget, quiet;
  enum cli_terminal_color color;
};

static const struct cli_option rows[] = {
    {.name = "path",
     .operand = true,
     .type = OPTION_PATH,
     .metavar = "DIR",
     .preset_note = "no disk is measured",
     FIELD(path),
     .help = "a folder on the disk to measure, by an unnamed temporary file of at most 256 MiB"},
    {.name = "seconds",
     .type = OPTION_UINT,
     .metavar = "N",
     .min = 1,
     .max = 600,
     .unit = "s",
     .preset = "10",
     FIELD(seconds),
     .help =
         "about how long copies of host memory are measured; on a busy host a longer time gives more exact figures"},
    {.name = "show", .type = OPTION_FLAG, FIELD(show), .help = "measure nothing; print what is known"},
    {.name = "forget", .type = OPTION_FLAG, FIELD(forget), .help = "remove the kept results, and exit"},
    {.name = "json", .type = OPTION_FLAG, FIELD(json), .help = "print JSON, in the form of every benchmark"},
    {.name = "quiet", .letter = 'q', .type = OPTION_FLAG, FIELD(quiet), .help = "show no progress"},
    {.name = "color",
     .type = OPTION_ENUM,
     .metavar = "WHEN",
     .choices = cli_terminal_color_names,
     .preset = "auto",
     FIELD(color),
     .help = "colours in the table"},
};

static const struct cli_example examples[] = {
    {"weft bench limits", "measures this host, once; later benchmarks compare with it"},
    {"weft bench limits --path /mnt/nvme", "and the disk of that folder"},
    {"weft bench limits --show", "which bounds are known, and how each was found"},
    {NULL, NULL},
};

// --- signals and progress ---

static volatile sig_atomic_t stopped_by;

static void take(int number) {
  stopped_by = number;
}

// The second signal ends the process at once; no data is lost.
static void watch_signals(void) {
  struct sigaction action = {.sa_handler = take, .sa_flags = SA_RESTART | SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

static bool stopped(void *arg) {
  (void)arg;
  return stopped_by != 0;
}

static void show_progress(void *arg, const char *what, uint32_t percent) {
  (void)arg;
  if (percent < 100)
    fprintf(stderr, "\r\033[K%3u %%  %s", percent, what);
  else
    fputs("\r\033[K", stderr);
}

// --- output ---

static void print_missing(const struct cli_terminal *terminal, const char *missing) {
  for (const char *line = missing; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    char text[512];
    snprintf(text, sizeof text, "not measured: %.*s", (int)strcspn(line, "\n"), line);
    table_print_text(stdout, terminal->color, TABLE_DIM, text, 0);
    putchar('\n');
  }
}

static void add_row(struct table *table, const struct limits_entry *entry) {
  table_row(table);
  table_add(table, TABLE_PLAIN, "%s", entry->name);
  table_add(table, TABLE_BOLD, "%.2f", entry->gbps);
  table_add(table, entry->measured ? TABLE_GREEN : TABLE_PLAIN, "%s", entry->measured ? "measured" : "described");
  table_add(table, TABLE_DIM, "%s", entry->detail);
}

static int print_table(const struct limits *limits, const struct options *options, const char *missing) {
  static const struct table_column columns[] = {{.heading = "bound"},
                                                {.heading = "GB/s", .right = true},
                                                {.heading = "from"},
                                                {.heading = "how", .wrap = true, .spare = 1}};
  struct cli_terminal terminal = cli_terminal_of(STDOUT_FILENO, options->color);
  struct table table = {.columns = columns, .num_columns = sizeof columns / sizeof *columns};
  for (int kind = LIMITS_COPY; kind <= LIMITS_NIC; kind++)
    for (uint32_t i = 0; i < limits->table.count; i++)
      if (limits->table.list[i].kind == (enum limits_kind)kind)
        add_row(&table, &limits->table.list[i]);
  bool failed = table.failed;
  const struct table_look look = {.color = terminal.color, .unicode = terminal.unicode, .width = terminal.width};
  if (table.num_rows > 0 && !failed)
    table_print(stdout, &table, &look);
  table_free(&table);
  print_missing(&terminal, missing);
  printf("%s\n", limits_origin(limits));
  return failed ? fail(WEFT_ERR_NOMEM, "no memory for the table") : 0;
}

static json_t *list_missing(const char *missing) {
  json_t *list = json_array();
  for (const char *line = missing; *line; line += strcspn(line, "\n"), line += *line == '\n')
    json_array_append_new(list, json_stringn(line, strcspn(line, "\n")));
  return list;
}

static int print_json(const struct limits *limits, const struct options *options, const char *missing,
                      double elapsed_s) {
  struct figures figures;
  char host[256] = "";
  int rc = figures_begin(&figures, "limits");
  if (rc != 0)
    return rc;
  figures.elapsed_s = elapsed_s;
  figures.complete = figures.passed = true;
  gethostname(host, sizeof host - 1);
  json_array_append_new(figures.hosts, json_string(host));
  json_object_set_new(figures.settings, "seconds", json_integer(options->seconds));
  json_object_set_new(figures.settings, "path", options->path ? json_string(options->path) : json_null());
  json_object_set_new(figures.settings, "not_measured", list_missing(missing));
  rc = limits_to_figures(limits, &figures);
  json_t *json = rc == 0 ? figures_to_json(&figures) : NULL;
  if (rc == 0 && !json)
    rc = WEFT_ERR_NOMEM;
  if (rc == 0 && json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS_IN_JSON)) != 0)
    rc = fail(WEFT_ERR_SYSTEM, "cannot write the results");
  putchar('\n');
  json_decref(json);
  figures_free(&figures);
  return rc;
}

// --- the options ---

static int forget(const struct limits *limits) {
  if (!*limits->path)
    return fail(WEFT_ERR_UNSUPPORTED, "neither XDG_CACHE_HOME nor HOME names a folder, so nothing is kept");
  if (unlink(limits->path) == 0) {
    printf("removed %s\n", limits->path);
    return 0;
  }
  if (errno != ENOENT)
    return fail_errno(errno, "cannot remove %s", limits->path);
  printf("no results are kept: there is no %s\n", limits->path);
  return 0;
}

// If HOME cannot be written, the host is measured nevertheless, with a message that later benchmarks will not have the
// bounds.
static int measure(struct limits *limits, const struct options *options, char *missing, size_t cap) {
  const struct limits_measure measure = {
      .path = options->path,
      .seconds = options->seconds,
      .progress = !options->quiet && isatty(STDERR_FILENO) ? show_progress : NULL,
      .stopped = stopped,
  };
  watch_signals();
  int rc = limits_measure_all(limits, &measure, missing, cap);
  if (rc != 0 && measure.progress)
    show_progress(NULL, "", 100);
  if (rc != 0)
    return rc;
  if (limits_keep(limits) != 0)
    fprintf(stderr, "weft bench limits: warning: the results cannot be kept: %s\n", weft_last_error());
  return 0;
}

static int run_all(const struct options *options) {
  struct limits *limits = NULL;
  char missing[2048] = "";
  uint64_t begun = clock_ns();
  int rc = limits_open(&limits);
  if (rc == 0 && options->forget) {
    rc = forget(limits);
    limits_close(limits);
    return rc;
  }
  if (rc == 0)
    rc = options->show ? limits_know_gpus(limits) : measure(limits, options, missing, sizeof missing);
  if (rc == 0)
    rc = options->json ? print_json(limits, options, missing, (double)(clock_ns() - begun) / 1e9)
                       : print_table(limits, options, missing);
  limits_close(limits);
  return rc;
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  int err = options.show && options.forget
                ? fail(WEFT_ERR_INVALID, "--show and --forget contradict each other: want one of them")
                : run_all(&options);
  if (err && stopped_by) {
    cli_command_failed(call, err);
    return 128 + stopped_by;
  }
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_bench_limits = {
    .name = "bench limits",
    .summary = "measure the limits of transfers on this host, and keep them",
    .description = "Every benchmark of weft compares its figures with what the hardware allows, and refuses a figure "
                   "that is above this bound. This command measures the bounds, once for a host: copies of host memory "
                   "by one processor and by several, within each cache and beyond the caches; TCP within the host; a "
                   "disk, without the page cache; copies within a GPU, between GPUs, and between host and GPU. One "
                   "host alone cannot measure some bounds, such as those of NIC links: these come from the hardware's "
                   "own description. On a host where this command never ran, all bounds come from there.\n"
                   "The result is kept in XDG_CACHE_HOME/weft (or ~/.cache/weft), in a file for this host. It is not "
                   "used on another host, or after the hardware has changed. Run the command while the host is idle: a "
                   "bound that is too low makes correct figures look impossible.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
