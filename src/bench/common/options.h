// Options that all commands of `weft bench` share: the struct, and its rows for their tables.
#ifndef BENCH_COMMON_OPTIONS_H
#define BENCH_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct bench_options {
  const char *store;       // URLs of an existing store; NULL: --rank-server, else a store in this process
  const char *rank_server; // HOST[:PORT] of the worker that has the store
  // numeric address of the store in this process; NULL: loopback, or all addresses if others are expected
  const char *listen;
  uint16_t store_port; // 0: any free port, or BENCH_STORE_PORT if others are expected
  const char *group;   // the benchmark's name in the store
  const char *token, *ca_file, *cert_file, *key_file, *user, *password;
  uint32_t startup_timeout_s; // time limit until all workers have arrived
  uint32_t timeout_ms;        // time limit of a transfer or an answer
  uint32_t repeat;
  const char *json, *csv, *html, *prometheus; // files; "-": standard output, of json and csv
  bool quiet;
  unsigned color; // enum cli_terminal_color
};

enum { BENCH_STORE_PORT = 9999 };

// The rows, for a table of struct cli_option of a command whose target has the struct as a member. Used where
// cli/option/option.h and cli/process/terminal.h are included; FIELD_ is the member of TARGET.
// clang-format off
#define BENCH_OPTION_ROWS_STORE(TARGET, FIELD_) \
  {.section = "Store, where workers meet", .name = "store", .alias = "etcd-endpoints", .type = OPTION_URL, \
   .metavar = "URL", \
   .variable = "WEFT_STORE", .preset_note = "an embedded one in this worker", OPTION_FIELD(TARGET, FIELD_.store), \
   .help = "store that is there already, etcd or 'weft serve'"}, \
  {.name = "rank-server", .type = OPTION_STRING, .metavar = "HOST[:PORT]", OPTION_FIELD(TARGET, FIELD_.rank_server), \
   .help = "host of the worker that was started first, which has the embedded store; that worker prints this " \
   "command"}, \
  {.name = "listen", .type = OPTION_STRING, .metavar = "ADDRESS", .variable = "WEFT_LISTEN", \
   .preset_note = "127.0.0.1; if other workers are expected, 0.0.0.0, or :: without IPv4", \
   OPTION_FIELD(TARGET, FIELD_.listen), \
   .help = "numeric address of the embedded store"}, \
  {.name = "store-port", .type = OPTION_UINT, .metavar = "PORT", .max = 65535, .variable = "WEFT_STORE_PORT", \
   .preset_note = "any free one; 9999 if other workers are expected", \
   OPTION_FIELD(TARGET, FIELD_.store_port), \
   .help = "port of the embedded store; also of --rank-server, if that names no port"}, \
  {.name = "benchmark-group", .type = OPTION_STRING, .metavar = "NAME", .preset = "default", \
   OPTION_FIELD(TARGET, FIELD_.group), \
   .help = "name of the benchmark in the store: workers with the same name meet"}, \
  {.name = "token", .type = OPTION_STRING, .metavar = "TOKEN", .variable = "WEFT_TOKEN", .secret = true, \
   .preset_note = "a random one for each run", OPTION_FIELD(TARGET, FIELD_.token), \
   .help = "token of the embedded store, the same for all workers; the variable keeps it out of the process list"}, \
  {.name = "token-file", .type = OPTION_SECRET_FILE, .metavar = "FILE", OPTION_FIELD(TARGET, FIELD_.token), \
   .help = "file with the token in its first line, which no other user may read"}, \
  {.name = "ca", .type = OPTION_PATH, .metavar = "FILE", .variable = "WEFT_CA", \
   .preset_note = "those of the system", \
   OPTION_FIELD(TARGET, FIELD_.ca_file), .help = "certificates (PEM) of the CA that signed etcd's certificate"}, \
  {.name = "cert", .type = OPTION_PATH, .metavar = "FILE", .variable = "WEFT_CERT", OPTION_FIELD(TARGET, \
   FIELD_.cert_file), \
   .help = "client certificate (PEM) for etcd, together with --key"}, \
  {.name = "key", .type = OPTION_PATH, .metavar = "FILE", .variable = "WEFT_KEY", OPTION_FIELD(TARGET, \
   FIELD_.key_file), \
   .help = "key (PEM) of the client certificate"}, \
  {.name = "user", .type = OPTION_STRING, .metavar = "NAME", .variable = "WEFT_USER", OPTION_FIELD(TARGET, \
   FIELD_.user), \
   .help = "etcd user, together with --password"}, \
  {.name = "password", .type = OPTION_STRING, .metavar = "TEXT", .variable = "WEFT_PASSWORD", .secret = true, \
   OPTION_FIELD(TARGET, FIELD_.password), \
   .help = "password of the etcd user; the variable keeps it out of the process list"}, \
  {.name = "startup-timeout", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 86400, .unit = "s", \
   .preset = "60", \
   .variable = "WEFT_STARTUP_TIMEOUT", OPTION_FIELD(TARGET, FIELD_.startup_timeout_s), \
   .help = "time within which all workers must have joined"}

#define BENCH_OPTION_ROWS_OUTPUT(TARGET, FIELD_) \
  {.section = "Repeats and output", .name = "repeat", .type = OPTION_UINT, .metavar = "N", .min = 1, .max = 1000, \
   .preset = "1", OPTION_FIELD(TARGET, FIELD_.repeat), \
   .help = "measure everything this many times, in turn, so that 'weft compare' can tell a change from noise"}, \
  {.name = "timeout-ms", .type = OPTION_UINT, .metavar = "N", .min = 10, .max = 600000, .unit = "ms", \
   .preset = "30000", .variable = "WEFT_TIMEOUT_MS", OPTION_FIELD(TARGET, FIELD_.timeout_ms), \
   .help = "time within which a transfer must end, or another worker must answer"}, \
  {.name = "json", .type = OPTION_PATH, .metavar = "FILE", OPTION_FIELD(TARGET, FIELD_.json), \
   .help = "write all figures as JSON, for 'weft compare'; - writes them to standard output instead of the table"}, \
  {.name = "csv", .type = OPTION_PATH, .metavar = "FILE", OPTION_FIELD(TARGET, FIELD_.csv), \
   .help = "write each row as CSV as soon as it is measured; - writes to standard output instead of the table"}, \
  {.name = "html", .type = OPTION_PATH, .metavar = "FILE", OPTION_FIELD(TARGET, FIELD_.html), \
   .help = "write a page with pictures, which opens without a network"}, \
  {.name = "prometheus", .type = OPTION_PATH, .metavar = "FILE", OPTION_FIELD(TARGET, FIELD_.prometheus), \
   .help = "write the figures as text for the textfile collector of a Prometheus node exporter"}, \
  {.name = "quiet", .letter = 'q', .type = OPTION_FLAG, OPTION_FIELD(TARGET, FIELD_.quiet), \
   .help = "show no progress"}, \
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto", \
   OPTION_FIELD(TARGET, FIELD_.color), .help = "colours in the table"}
// clang-format on

// Checks combinations of options: --json and --csv both to standard output, two outputs to one file, --cert without
// --key, --user without --password or --store, --store and --rank-server. INVALID.
int bench_options_check(const struct bench_options *options);

// INVALID: an output is the file `input`, which is to be read. `input` may be NULL.
int bench_options_check_input(const struct bench_options *options, const char *input);

#endif
