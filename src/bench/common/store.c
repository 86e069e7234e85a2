// Finds or starts the store on which the workers meet.
#include "bench/common/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"
#include "run/common/lead_address.h"
#include "run/common/own_address.h"

enum { REQUEST_MS = 5000, TRIES = 3, RETRY_MS = 50 };

static void set_prefix(struct bench_store *store, const struct bench_options *options) {
  snprintf(store->prefix, sizeof store->prefix, "weft/bench/%s/", options->group ? options->group : "default");
}

static int open_client(struct bench_store *store, const struct bench_options *options, const char *token) {
  struct weft_store_options client = WEFT_STORE_OPTIONS_INIT;
  client.endpoints = store->url;
  client.request_timeout_ms = REQUEST_MS;
  client.token = token;
  client.ca_file = options->ca_file;
  client.cert_file = options->cert_file;
  client.key_file = options->key_file;
  client.user = options->user;
  client.password = options->password;
  return weft_store_open(&store->client, &client);
}

// If others start the store at the same time, it may not answer yet: then tries again for `wait_limit_s`, and reports
// that on standard error for `command`, unless that is NULL.
static int await_answer(const struct bench_store *store, uint32_t wait_limit_s, const char *command) {
  uint64_t deadline = clock_deadline_ms((uint64_t)wait_limit_s * 1000);
  for (int tries = 1;; tries++) {
    char version[64];
    int err = weft_store_version(store->client, version, sizeof version, NULL);
    if (!err || (err != WEFT_ERR_UNREACHABLE && err != WEFT_ERR_TIMEOUT))
      return err;
    if (tries >= TRIES && clock_passed(deadline))
      return fail_context(err, "the store %s, where the workers should meet, does not answer", store->url);
    if (tries == TRIES && command)
      fprintf(stderr, "%s: waits for the store %s of another worker, for up to %u s\n", command, store->url,
              wait_limit_s);
    err = stop_check();
    if (err)
      return err;
    usleep(RETRY_MS * 1000);
  }
}

static int open_given(struct bench_store *store, const struct bench_options *options, const char *command) {
  char *url = options->store
                  ? strdup(options->store)
                  : run_lead_url(options->rank_server, options->store_port ? options->store_port : BENCH_STORE_PORT);
  if (!url)
    return fail(WEFT_ERR_NOMEM, "no memory for a URL");
  store->follows = !options->store;
  int written = snprintf(store->url, sizeof store->url, "%s", url);
  free(url);
  if ((size_t)written >= sizeof store->url)
    return fail(WEFT_ERR_INVALID, "the URL of the store has %d characters: want less than %zu", written,
                sizeof store->url);
  int err = open_client(store, options, options->token);
  // A store that --store names has to answer already; a worker that runs the store itself may start later than this
  // one.
  return err ? err
             : await_answer(store, options->store ? 0 : options->startup_timeout_s, options->quiet ? NULL : command);
}

static int choose_token(struct bench_store *store, const struct bench_options *options, bool others) {
  if (options->token)
    return 0;
  if (others && (options->quiet || !isatty(STDERR_FILENO)))
    return fail(WEFT_ERR_INVALID,
                "the other workers need the token of the store of this worker, but %s: give all workers one token, in "
                "WEFT_TOKEN or by --token-file, or an existing store, by --store",
                options->quiet ? "--quiet does not show it" : "there is no terminal on which to show one");
  secret_make(store->made_token);
  return 0;
}

static void print_command_for_others(const struct bench_store *store, const char *command) {
  char *url = run_url_for_others(store->url);
  const char *at = url && strncasecmp(url, "https://", 8) == 0 ? url + 8 : store->url;
  fprintf(stderr,
          "%s: the workers meet on the store of this worker, %s; start the others with the same options by\n"
          "  WEFT_TOKEN=%s %s --rank-server %s\n",
          command, url ? url : store->url, store->made_token[0] ? store->made_token : "...", command, at);
  free(url);
}

static int start_server(struct bench_store *store, const struct bench_options *options, bool others,
                        const char *command) {
  struct weft_store_server_options server = WEFT_STORE_SERVER_OPTIONS_INIT;
  int err = choose_token(store, options, others);
  if (err)
    return err;
  const char *token = options->token ? options->token : store->made_token;
  server.address = options->listen ? options->listen : others ? run_any_address() : "127.0.0.1";
  server.port = options->store_port ? options->store_port : others ? BENCH_STORE_PORT : 0;
  server.token = token;
  err = weft_store_server_start(&store->server, &server);
  if (err == WEFT_ERR_BUSY)
    return fail(err,
                "the store of this worker cannot listen: port %u of %s is in use, perhaps by the store of another "
                "worker. Join that store by --rank-server, or give another port by --store-port",
                server.port, server.address);
  if (err)
    return run_listen_failed(err, options->listen);
  snprintf(store->url, sizeof store->url, "%s", weft_store_server_url(store->server));
  if (others && (!options->listen || strncmp(options->listen, "127.", 4) != 0) &&
      !run_host_address(store->address, sizeof store->address))
    store->address[0] = '\0';
  err = open_client(store, options, token);
  if (!err) // it may not be reachable: without the loopback interface no worker would meet another
    err = await_answer(store, 0, NULL);
  if (!err && others && !options->quiet)
    print_command_for_others(store, command);
  return err;
}

int bench_store_open(struct bench_store *store, const struct bench_options *options, bool others, const char *command) {
  *store = (struct bench_store){0};
  set_prefix(store, options);
  int err = options->store || options->rank_server ? open_given(store, options, command)
                                                   : start_server(store, options, others, command);
  if (err) {
    char why[FAIL_DETAIL_SIZE];
    snprintf(why, sizeof why, "%s", weft_last_error());
    bench_store_close(store);
    return fail(err, "%s", why);
  }
  return 0;
}

void bench_store_close(struct bench_store *store) {
  weft_store_close(store->client);
  weft_store_server_stop(store->server);
  explicit_bzero(store->made_token, sizeof store->made_token);
  store->client = NULL;
  store->server = NULL;
}

void bench_store_describe(const struct bench_store *store, const struct bench_options *options,
                          struct bench_store_place *place) {
  *place = (struct bench_store_place){0};
  snprintf(place->url, sizeof place->url, "%s", store->url);
  snprintf(place->token, sizeof place->token, "%s", options->token ? options->token : store->made_token);
  snprintf(place->address, sizeof place->address, "%s", store->address);
  place->follows = store->follows;
}

int bench_store_join(struct bench_store *store, const struct bench_options *options,
                     const struct bench_store_place *place) {
  *store = (struct bench_store){.follows = place->follows};
  set_prefix(store, options);
  snprintf(store->url, sizeof store->url, "%s", place->url);
  snprintf(store->address, sizeof store->address, "%s", place->address);
  return open_client(store, options, place->token[0] ? place->token : NULL);
}
