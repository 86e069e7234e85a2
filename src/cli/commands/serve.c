// weft serve: runs the embedded store as a separate server.
#include "base/fail.h"
#include "base/signal/stop.h"
#include "cli/commands/commands.h"
#include "metrics/server.h"
#include "run/common/own_address.h"
#include "secure/secret.h"
#include "store/server/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/store.h>

struct serve {
  struct weft_store_server_options server;
  const char *metrics, *metrics_bearer_file;
  const char *write_token;
  bool insecure;
};

#define FIELD(member) OPTION_FIELD(struct serve, member)

// clang-format off
static const struct cli_option rows[] = {
  {.name = "listen", .type = OPTION_STRING, .metavar = "ADDRESS", .preset = "127.0.0.1", .variable = "WEFT_LISTEN",
   FIELD(server.address), .help = "numeric address, or HOST:PORT"},
  {.name = "port", .type = OPTION_UINT, .metavar = "PORT", .min = 0, .max = 65535, .preset = "2379",
   .variable = "WEFT_STORE_PORT", FIELD(server.port), .help = "port; 0 takes any free one"},
  {.name = "token", .type = OPTION_STRING, .metavar = "TOKEN", .variable = "WEFT_TOKEN", .secret = true,
   FIELD(server.token), .preset_note = "a random one, printed on standard error",
   .help = "token that clients must show; the variable, WEFT_TOKEN_FILE and WEFT_TOKEN_FD keep it out of the process "
           "list"},
  {.name = "token-file", .type = OPTION_SECRET_FILE, .metavar = "FILE", FIELD(server.token),
   .help = "file with the token in its first line, which no other user may read"},
  {.name = "write-token", .type = OPTION_PATH, .metavar = "FILE", FIELD(write_token),
   .help = "write the token to this new file, which only its owner can read, instead of printing it; the file is "
   "removed when the server ends"},
  {.name = "tls-cert", .type = OPTION_PATH, .metavar = "FILE", FIELD(server.cert_file),
   .preset_note = "a certificate derived from the token, which clients with the token accept",
   .help = "the server's certificate (PEM), together with --tls-key; clients need the CA that signed it"},
  {.name = "tls-key", .type = OPTION_PATH, .metavar = "FILE", FIELD(server.key_file),
   .help = "the certificate's key (PEM)"},
  {.name = "metrics", .type = OPTION_STRING, .metavar = "HOST:PORT", FIELD(metrics),
   .help = "serve counters as OpenMetrics at http://HOST:PORT/metrics; an address that is not loopback needs a token"},
  {.name = "metrics-bearer-file", .type = OPTION_PATH, .metavar = "FILE", FIELD(metrics_bearer_file),
   .help = "write the bearer token with which clients read these counters (Authorization: Bearer) to this new file, "
   "which only its owner can read; the file is removed when the server ends"},
  {.name = "insecure", .type = OPTION_FLAG, FIELD(insecure),
   .help = "use no token and no TLS: every process of this host may read and change everything; only for a loopback "
   "address"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft serve", "a store on https://127.0.0.1:2379, and its token"},
    {"weft serve --port 0 --write-token token",
     "on any free port; clients need the URL, which is the first line of output, and WEFT_TOKEN_FILE=token"},
    {"weft serve --listen 0.0.0.0 --token-file token", "for other hosts, which have the token already"},
    {"weft serve --metrics 127.0.0.1:9100 --metrics-bearer-file bearer",
     "with counters for Prometheus; its credentials_file is the bearer file"},
    {"weft serve --insecure", "on http://127.0.0.1:2379, which etcd's own tools can use too"},
    {NULL, NULL},
};

// Blocks the signals that end the server, before its threads start, so that only wait_for_end() receives them.
static sigset_t block_ends(void) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  if (!stop_hangup_is_ignored())
    sigaddset(&ends, SIGHUP);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  return ends;
}

// Prints a token that was made here, but not to a log that other users can read.
static int print_token(const char *token) {
  int err = secret_check_shown(STDERR_FILENO, "standard error", "--write-token, or a token given (--token-file)");
  if (err)
    return err;
  fprintf(stderr, "export WEFT_TOKEN=%s\n", token);
  return 0;
}

static int announce(const struct serve *serve, const weft_store_server_t *server) {
  int err = 0;
  if (!serve->server.token && !serve->insecure && !serve->write_token)
    err = print_token(weft_store_server_token(server));
  if (err)
    return err;
  printf("%s\n", weft_store_server_url(server));
  return fflush(stdout) == 0 ? 0
                             : fail_errno(errno, "cannot write the URL to standard output"); // no client could find it
}

static void write_metrics(void *server, struct text *text) {
  server_metrics_write(server, text);
}

static int serve_metrics(const struct serve *serve, weft_store_server_t *server, struct metrics_server **metrics) {
  const struct metrics_source source = {.of = "the store",
                                        .token = serve->metrics_bearer_file ? weft_store_server_token(server)
                                                                            : serve->server.token,
                                        .write = write_metrics,
                                        .arg = server};
  uint16_t port = 0;
  if (!serve->metrics)
    return 0;
  int err = metrics_server_open(&source, serve->metrics, &port, metrics);
  if (err)
    return fail_context(err, "--metrics %s", serve->metrics);
  char url[320];
  metrics_url(serve->metrics, port, url, sizeof url);
  fprintf(stderr, "metrics: %s\n", url);
  return 0;
}

static int run_server(const struct serve *serve) {
  sigset_t ends = block_ends();
  weft_store_server_t *server = NULL;
  struct metrics_server *metrics = NULL;
  int err = weft_store_server_start(&server, &serve->server);
  if (err)
    return run_listen_failed(err, serve->server.address);
  bool bears = false;
  if (serve->metrics_bearer_file) {
    err = metrics_bearer_to_file(weft_store_server_token(server), "--metrics-bearer-file", serve->metrics_bearer_file);
    bears = !err;
  }
  if (!err)
    err = serve_metrics(serve, server, &metrics);
  bool written = false;
  if (!err && serve->write_token) {
    err = secret_to_file("--write-token", serve->write_token, weft_store_server_token(server));
    written = !err;
  }
  if (!err)
    err = announce(serve, server);
  int signal_number = 0;
  if (!err)
    sigwait(&ends, &signal_number);
  if (written)
    unlink(serve->write_token);
  if (bears)
    unlink(serve->metrics_bearer_file);
  metrics_server_close(metrics);
  weft_store_server_stop(server);
  return err;
}

static int serve(const struct serve *serve) {
  const struct weft_store_server_options *server = &serve->server;
  if (serve->insecure && (server->token || server->cert_file || server->key_file))
    return fail(WEFT_ERR_INVALID, "--insecure and %s contradict each other: want one of them",
                server->token       ? "a token (--token, --token-file, WEFT_TOKEN)"
                : server->cert_file ? "--tls-cert"
                                    : "--tls-key");
  if (!server->cert_file != !server->key_file)
    return fail(WEFT_ERR_INVALID, "--tls-%s is given without --tls-%s: a certificate and its key go together",
                server->cert_file ? "cert" : "key", server->cert_file ? "key" : "cert");
  if (serve->insecure && serve->write_token)
    return fail(WEFT_ERR_INVALID, "--insecure: there is no token for --write-token");
  if (serve->metrics_bearer_file && (serve->insecure || !serve->metrics))
    return fail(WEFT_ERR_INVALID, "--metrics-bearer-file is given %s: want --metrics HOST:PORT and a token",
                serve->insecure ? "with --insecure" : "without --metrics");
  return run_server(serve);
}

// --listen HOST:PORT: its port has precedence over --port. Afterwards `address` points into `host`.
static int split_address(struct weft_store_server_options *options, char **host) {
  const char *text = options->address, *colon = text ? strrchr(text, ':') : NULL;
  bool bracketed = colon && colon > text && text[0] == '[' && colon[-1] == ']';
  if (!colon || (strchr(text, ':') != colon && !bracketed))
    return 0; // no port: a name, or an IPv6 address alone
  char *end;
  unsigned long port = strtoul(colon + 1, &end, 10);
  if (colon[1] < '0' || colon[1] > '9' || *end || port > UINT16_MAX)
    return fail(WEFT_ERR_INVALID, "--listen %s: \"%s\" is no port; want 0 to 65535", text, colon + 1);
  *host = strndup(text + bracketed, (size_t)(colon - text) - 2 * (size_t)bracketed);
  if (!*host)
    return fail(WEFT_ERR_NOMEM, "no memory for an address");
  options->address = *host;
  options->port = (uint16_t)port;
  return 0;
}

static int run(const struct cli_call *call) {
  struct serve options = {.server = WEFT_STORE_SERVER_OPTIONS_INIT};
  int status = 0;
  if (!cli_command_options(call, &options, &status))
    return status;
  options.server.flags = options.insecure ? WEFT_STORE_SERVER_INSECURE : 0;
  signal(SIGPIPE, SIG_IGN); // clients may disconnect at any time
  char *host = NULL;
  int err = split_address(&options.server, &host);
  if (!err)
    err = serve(&options);
  free(host);
  return err ? cli_command_failed(call, err) : 0;
}

const struct cli_command cli_serve = {
    .name = "serve",
    .summary = "run a store for agents and ranks, in memory",
    .description =
        "Serves a key-value store with leases, transactions and watches, in the protocol of etcd's v3 JSON gateway, "
        "over HTTPS. Clients that have its token may do everything. The server prints its URL when it is ready, and "
        "runs until SIGINT, SIGTERM or SIGHUP (unless nohup ignores SIGHUP); then all keys are lost.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
