// weft serve: the embedded store, as a server of its own.
#include "base/fail.h"
#include "cli/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <weft/store.h>

#define FIELD(member) OPTION_FIELD(struct weft_store_server_options, member)

// clang-format off
static const struct cli_option rows[] = {
  {.name = "listen", .type = OPTION_STRING, .metavar = "ADDRESS", .preset = "127.0.0.1", .variable = "WEFT_LISTEN",
   FIELD(address), .help = "numeric address; any but a loopback address wants a token"},
  {.name = "port", .type = OPTION_UINT, .metavar = "PORT", .min = 0, .max = 65535, .preset = "2379",
   .variable = "WEFT_STORE_PORT", FIELD(port), .help = "port; 0 takes any free one"},
  {.name = "token", .type = OPTION_STRING, .metavar = "TOKEN", .variable = "WEFT_TOKEN", .secret = true, FIELD(token),
   .help = "token that clients must show; the variable keeps it out of the process list"},
};
// clang-format on

static const struct cli_example examples[] = {
    {"weft serve", "a store on http://127.0.0.1:2379, where etcd's own tools reach it too"},
    {"weft serve --port 0", "on any free port; the first line of output is its URL"},
    {"WEFT_TOKEN=SECRET weft serve --listen 0.0.0.0", "for other hosts, which must know the token"},
    {NULL, NULL},
};

// The signals that end the server. Blocked before its threads start, so that they come to wait_for_end() only.
static sigset_t block_ends(void) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGHUP);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  return ends;
}

static int serve(const struct weft_store_server_options *options) {
  sigset_t ends = block_ends();
  weft_store_server_t *server = NULL;
  int err = weft_store_server_start(&server, options);
  if (err)
    return err;
  printf("%s\n", weft_store_server_url(server));
  if (fflush(stdout) != 0) // nobody would learn where it is
    err = fail_errno(errno, "cannot write the URL to standard output");
  int signal_number = 0;
  if (!err)
    sigwait(&ends, &signal_number);
  weft_store_server_stop(server);
  return err;
}

static int run(const struct cli_command *command, int argc, char **argv) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  int status = 0;
  if (!cli_command_options(command, &options, argc, argv, &status))
    return status;
  signal(SIGPIPE, SIG_IGN); // a client that goes away is the server's everyday life
  int err = serve(&options);
  return err ? cli_command_failed(command, err) : 0;
}

const struct cli_command cli_serve = {
    .name = "serve",
    .summary = "run a store for agents and ranks, in memory",
    .description =
        "Serves a key-value store with leases, transactions and watches, in the protocol of etcd's v3 JSON gateway. "
        "Prints its URL when it is ready and runs until SIGINT, SIGTERM or SIGHUP; all keys are then gone.",
    .options = OPTION_TABLE(rows),
    .examples = examples,
    .run = run,
};
