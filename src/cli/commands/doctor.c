// weft doctor: reports problems for Weft on this host, and on the connection to another host.
#include "doctor/doctor.h"
#include "base/fail.h"
#include "base/signal/stop.h"
#include "cli/commands/commands.h"
#include "cli/commands/doctor_text.h"
#include "cli/process/terminal.h"
#include "doctor/peer/listener.h"
#include "secure/lobby.h"
#include "secure/secret.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct options {
  const char *peer, *listen;
  const char *store, *token, *ca, *cert, *key, *user, *password;
  uint32_t timeout_ms, startup_timeout_s;
  bool json;
  enum cli_terminal_color color;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

// clang-format off
static const struct cli_option rows[] = {
  {.name = "peer", .type = OPTION_STRING, .metavar = "HOST[:PORT]", FIELD(peer),
   .help = "also check the way to another host, on which 'weft doctor --listen PORT' runs; the port is " DOCTOR_PORT
   " unless given"},
  {.name = "listen", .type = OPTION_STRING, .metavar = "PORT", FIELD(listen),
   .help = "act as the other side of --peer: listen at this port of all addresses (0: any free port) until SIGINT or "
   "SIGTERM, and check nothing"},
  {.name = "timeout-ms", .type = OPTION_UINT, .metavar = "N", .min = 10, .max = 600000, .unit = "ms",
   .preset = "3000", FIELD(timeout_ms), .help = "longest time of each step"},
  {.name = "startup-timeout", .type = OPTION_UINT, .metavar = "N", .max = 86400, .unit = "s", .preset = "0",
   FIELD(startup_timeout_s), .help = "how long --peer is tried again while nothing listens there; 0: it is tried once"},
  {.name = "json", .type = OPTION_FLAG, FIELD(json), .help = "print JSON"},
  {.name = "color", .type = OPTION_ENUM, .metavar = "WHEN", .choices = cli_terminal_color_names, .preset = "auto",
   FIELD(color), .help = "colours in the text"},

  {.section = "Store", .name = "store", .alias = "etcd-server", .type = OPTION_URL, .metavar = "URL",
   .variable = "WEFT_STORE", FIELD(store), .help = "also check this store: etcd or 'weft serve'"},
  {.name = "token", .type = OPTION_STRING, .metavar = "TOKEN", .variable = "WEFT_TOKEN", .secret = true,
   FIELD(token), .help = "token of 'weft serve', and the secret that --listen and --peer share; the variable keeps it "
   "out of the process list"},
  {.name = "token-file", .type = OPTION_SECRET_FILE, .metavar = "FILE", FIELD(token),
   .help = "file with the token in its first line, which no other user may read"},
  {.name = "ca", .type = OPTION_PATH, .metavar = "FILE", .variable = "WEFT_CA", .preset_note = "those of the system",
   FIELD(ca), .help = "certificates (PEM) of the CA that signed etcd's certificate"},
  {.name = "cert", .type = OPTION_PATH, .metavar = "FILE", .variable = "WEFT_CERT", FIELD(cert),
   .help = "client certificate (PEM) for etcd, together with --key"},
  {.name = "key", .type = OPTION_PATH, .metavar = "FILE", .variable = "WEFT_KEY", FIELD(key),
   .help = "key (PEM) of the client certificate"},
  {.name = "user", .type = OPTION_STRING, .metavar = "NAME", .variable = "WEFT_USER", FIELD(user),
   .help = "etcd user, together with --password"},
  {.name = "password", .type = OPTION_STRING, .metavar = "TEXT", .variable = "WEFT_PASSWORD", .secret = true,
   FIELD(password), .help = "password of the etcd user; the variable keeps it out of the process list"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft doctor", "checks everything on this host that Weft uses; exit status 3 if there is a problem"},
    {"weft doctor --listen 5555", "on the other host: prints the command for this host, which is like the next one"},
    {"WEFT_TOKEN=SECRET weft doctor --peer node7:5555 --store http://node0:2379",
     "also checks the way to that host and back, and the store"},
    {"weft doctor --json | jq '.findings[] | select(.grade == \"problem\")'", "for a script: only the problems"},
    {NULL, NULL},
};

static void examine(struct doctor_report *report, const struct options *options) {
  struct weft_store_options store = WEFT_STORE_OPTIONS_INIT;
  store.endpoints = options->store;
  // With a peer the token belongs to the two doctors: an etcd, which has plain HTTP or a user here, does not get it.
  bool etcd = options->store && (options->user || strncasecmp(options->store, "http://", 7) == 0);
  store.token = options->peer && etcd ? NULL : options->token;
  store.ca_file = options->ca;
  store.cert_file = options->cert;
  store.key_file = options->key;
  store.user = options->user;
  store.password = options->password;
  store.connect_timeout_ms = store.request_timeout_ms = options->timeout_ms;
  struct doctor_place place = {.peer = options->peer,
                               .token = options->token,
                               .store = options->store ? &store : NULL,
                               .timeout_ms = options->timeout_ms,
                               .startup_timeout_s = options->startup_timeout_s};
  struct doctor_facts *facts = malloc(sizeof *facts);
  if (!facts) {
    report->failed = true;
    return;
  }
  doctor_gather(facts, &place);
  doctor_judge(facts, report);
  doctor_facts_free(facts);
  free(facts);
}

static int print_json(const struct doctor_report *report) {
  json_t *description = doctor_report_describe(report);
  if (!description)
    return fail(WEFT_ERR_NOMEM, "no memory for the findings");
  json_dumpf(description, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(description);
  return 0;
}

static int check(const struct cli_call *call, const struct options *options) {
  struct doctor_report report = {0};
  examine(&report, options);
  int err = report.failed ? fail(WEFT_ERR_NOMEM, "no memory for the findings") : 0;
  if (!err && options->json)
    err = print_json(&report);
  else if (!err)
    cli_doctor_print(stdout, &report, cli_terminal_of(STDOUT_FILENO, options->color));
  errno = 0;
  if (!err && (fflush(stdout) != 0 || ferror(stdout))) // also beside a problem, which has the same exit status
    err = fail_errno(errno ? errno : EIO, "cannot write the findings to standard output");
  int status = doctor_count(&report, DOCTOR_PROBLEM) ? 3 : 0;
  doctor_report_free(&report);
  return err ? cli_command_failed(call, err) : status;
}

// Opens a descriptor that becomes readable when a signal asks this process to end.
static int open_ends(void) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  if (!stop_hangup_is_ignored())
    sigaddset(&ends, SIGHUP);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  return signalfd(-1, &ends, SFD_CLOEXEC);
}

// Prints the command for the other host, with the token if it was `made` here.
static void print_command(uint16_t port, const char *made) {
  char host[HOST_NAME_MAX + 1] = "HOST";
  gethostname(host, sizeof host - 1);
  printf("on the other host: WEFT_TOKEN=%s weft doctor --peer %s:%u\n", made ? made : "...", host, port);
}

static int serve(const struct options *options) {
  char made[SECRET_DIGITS + 1] = "";
  char *end;
  errno = 0;
  unsigned long port = strtoul(options->listen, &end, 10);
  if (errno || *end || end == options->listen || *options->listen == '-' || port > 65535)
    return fail(WEFT_ERR_INVALID, "--listen: \"%s\" is not a port; want 0 to 65535", options->listen);
  struct doctor_listener listener;
  int err = options->token
                ? 0
                : secret_check_shown(STDOUT_FILENO, "standard output", "a token given (WEFT_TOKEN or --token-file)");
  if (err)
    return err;
  lobby_raise_limit(0);
  if (!options->token)
    secret_make(made);
  err = doctor_listener_open(&listener, (uint16_t)port, options->token ? options->token : made);
  if (err)
    return err;
  int ends = open_ends();
  if (ends < 0)
    err = fail_errno(errno, "signalfd");
  printf("%u\n", listener.port);
  print_command(listener.port, options->token ? NULL : made);
  if (!err && fflush(stdout) != 0) // otherwise no caller could find out the port
    err = fail_errno(errno, "cannot write the port to standard output");
  if (!err)
    doctor_listener_serve(&listener, ends, options->timeout_ms);
  if (ends >= 0)
    close(ends);
  doctor_listener_close(&listener);
  return err;
}

static int run(const struct cli_call *call) {
  struct options options = {0};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  if (options.listen && options.peer)
    return cli_command_failed(call, fail(WEFT_ERR_INVALID, "--listen and --peer are both given: want one of them"));
  if (options.peer && !options.token)
    return cli_command_failed(call, fail(WEFT_ERR_INVALID, "--peer wants the token that 'weft doctor --listen' "
                                                           "prints: set WEFT_TOKEN, or give --token"));
  signal(SIGPIPE, SIG_IGN);
  if (!options.listen)
    return check(call, &options);
  int err = serve(&options);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_doctor = {
    .name = "doctor",
    .summary = "find problems for Weft on this host, and how to fix them",
    .description =
        "Checks driver and GPUs, NICs and RDMA devices, limits of memory and files, what the kernel allows, UCX and "
        "libfabric, the store, and the way to a peer. Each finding is ok, a note (works, but not as well as it could) "
        "or a problem; it says what the finding means and how to fix it. The exit status is 3 if there is a problem.\n"
        "With --listen the command acts as the other side of --peer. It prints its port, then the command for the "
        "other host (with a new token, unless one is given). It sends back what it receives, and tries to connect to "
        "the caller, which checks the way back too. A caller with the token learns the MTU of this host and nothing "
        "else.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
