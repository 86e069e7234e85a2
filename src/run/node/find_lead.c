// Finds the live run of the job for a node that follows. The node may be given two stores: an existing one (--store),
// and the one inside the lead (--rank-server). It joins the run in the store that has it first. So one command finds a
// lead that uses an etcd as well as a lead with an embedded store.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "run/common/lead_address.h"
#include "run/node/node.h"

enum {
  RETRY_MS = 50,
  GRACE_MS = 3000, // time for a store that is started together with this node
  MAX_PLACES = 2,
};

// A store in which the run may be, and the credentials for it. The token is for an embedded server.
struct place {
  weft_store_t *client;
  char *endpoints;
  const char *token, *user, *password;
  bool of_lead;
  int err; // of the last look
};

struct search {
  struct place places[MAX_PLACES];
  uint32_t count;
  char *closed;   // the lead's own store, not asked without a token; NULL: it is among the places, or not given
  int said;       // state of the places in the last message: 1 one answers, -1 none does; 0: there was no message
  uint64_t since; // when the search began
  uint64_t deadline;
};

int node_open_client(struct node *node, const char *endpoints, weft_store_t **client) {
  const struct run_config *config = &node->config;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = endpoints;
  options.request_timeout_ms = RUN_REQUEST_MS;
  options.token = config->token;
  options.ca_file = config->ca_file;
  options.cert_file = config->cert_file;
  options.key_file = config->key_file;
  options.user = config->user;
  options.password = config->password;
  return weft_store_open(client, &options);
}

// Takes over `endpoints`.
static int add_place(struct node *node, struct search *search, char *endpoints, bool of_lead) {
  struct run_config *config = &node->config, given = *config;
  struct place *place = &search->places[search->count++];
  *place = (struct place){.endpoints = endpoints, .of_lead = of_lead};
  if (!endpoints)
    return fail(WEFT_ERR_NOMEM, "no memory for a URL");
  // If both stores are given, the token is for the lead's store and is not sent to the other one over plain HTTP. User
  // and password are for etcd.
  bool both = config->lead && config->store, plain = strncasecmp(endpoints, "http://", 7) == 0;
  if (both && of_lead)
    config->user = config->password = NULL;
  else if (both && (plain || config->user))
    config->token = NULL;
  place->token = config->token;
  place->user = config->user;
  place->password = config->password;
  int err = node_open_client(node, endpoints, &place->client);
  config->token = given.token;
  config->user = given.user;
  config->password = given.password;
  return err;
}

static int add_places(struct node *node, struct search *search) {
  const struct run_config *config = &node->config;
  if (config->store) {
    int err = add_place(node, search, strdup(config->store), false);
    if (err)
      return err;
  }
  if (!config->lead)
    return 0;
  char *url = run_lead_url(config->lead, config->store_port ? config->store_port : RUN_DEFAULT_PORT);
  if (config->token || !config->store)
    return add_place(node, search, url, true);
  search->closed = url;
  return url ? 0 : fail(WEFT_ERR_NOMEM, "no memory for a URL");
}

static void close_place(struct place *place) {
  weft_store_close(place->client);
  free(place->endpoints);
  *place = (struct place){0};
}

// The store has the run: the node uses this store from now on.
static void choose(struct node *node, struct search *search, struct place *place) {
  const struct place *given = &search->places[0];
  if (place != given)
    progress_say(&node->progress, "the store %s %s; joins the run of the lead's own store, %s", given->endpoints,
                 given->err ? "does not answer" : "has no run of the job", place->endpoints);
  node->config.token = place->token;
  node->config.user = place->user;
  node->config.password = place->password;
  node->store.client = place->client;
  node->store.endpoints = place->endpoints;
  node->store.of_lead = place->of_lead;
  *place = (struct place){0};
}

// Looks at every place once. `*live`: the run; NULL: no place has it. It returns only errors that remain when the look
// is repeated.
static int look(struct node *node, struct search *search, json_t **live) {
  int lasting = 0;
  char why[512] = "";
  for (uint32_t i = 0; i < search->count && !*live; i++) {
    struct place *place = &search->places[i];
    place->err = run_storage_get(place->client, node->keys.live, live);
    if (!place->err && *live)
      choose(node, search, place);
    else if (place->err && !run_storage_may_pass(place->err) && !lasting) {
      lasting = place->err;
      snprintf(why, sizeof why, "%s", weft_last_error());
    }
  }
  return *live || !lasting ? 0 : fail(lasting, "%s", why);
}

static void add_names(const struct search *search, const char *between, struct text *text) {
  for (uint32_t i = 0; i < search->count; i++)
    text_add(text, "%s%s", i ? between : "", search->places[i].endpoints);
}

static bool any_answers(const struct search *search) {
  for (uint32_t i = 0; i < search->count; i++)
    if (!search->places[i].err)
      return true;
  return false;
}

// Prints what the node waits for, and again when a store begins or ceases to answer.
static void say_waiting(struct node *node, struct search *search) {
  struct text names = {0};
  char until[32];
  bool answers = any_answers(search);
  int how = answers ? 1 : -1;
  time_t end = time(NULL) + (time_t)(clock_left_ms(search->deadline) / 1000);
  struct tm local;
  if (search->said == how)
    return;
  bool first = search->said == 0;
  search->said = how;
  strftime(until, sizeof until, "%H:%M:%S", localtime_r(&end, &local));
  add_names(search, " or ", &names);
  progress_say(&node->progress, "%s of job '%s' at %s, for up to %u s (until %s): %s",
               first ? "waits for the lead" : "still waits for the lead", node->job, names.data ? names.data : "?",
               node->config.startup_timeout_s, until,
               answers ? "the store answers, but has no run yet" : "no store answers there yet");
  text_free(&names);
}

static int too_late(const struct node *node, const struct search *search, const char *why) {
  struct text names = {0};
  uint32_t seconds = node->config.startup_timeout_s;
  const char *hint = search->places[search->count - 1].of_lead
                         ? ". Is the lead started, at an address that this host reaches (--listen) and at this port "
                           "(--store-port)?"
                         : "";
  int err = 0;
  add_names(search, ", nor in ", &names);
  if (any_answers(search))
    err = fail(WEFT_ERR_TIMEOUT, "no lead of job '%s' appeared in the store %s within %u s", node->job,
               names.data ? names.data : "?", seconds);
  else
    err = fail(search->places[0].err, "the lead's store did not answer within %u s: %s%s", seconds, why, hint);
  text_free(&names);
  return err;
}

// Fails if the given store does not answer, but the lead's own store does and this node has no token for it.
static int check_closed(const struct node *node, const struct search *search) {
  if (!search->closed || any_answers(search) || clock_ns() - search->since < GRACE_MS * UINT64_C(1000000) ||
      !run_url_is_open(search->closed))
    return 0;
  return fail(
      WEFT_ERR_INVALID,
      "the store %s does not answer, but the lead's own store, %s, does, and needs the token of its run: set it in "
      "WEFT_TOKEN, as in WEFT_TOKEN=TOKEN weft elastic --rank-server %s; or start the lead with --store %s",
      search->places[0].endpoints, search->closed, node->config.lead, search->places[0].endpoints);
}

static int wait_for_run(struct node *node, struct search *search, json_t **live) {
  for (;;) {
    char why[512];
    int err = look(node, search, live);
    if (err || *live)
      return err;
    snprintf(why, sizeof why, "%s", weft_last_error());
    say_waiting(node, search);
    err = check_closed(node, search);
    if (!err && clock_passed(search->deadline))
      err = too_late(node, search, why);
    if (!err)
      err = node_pause(node, RETRY_MS);
    if (err)
      return err;
  }
}

int node_find_lead(struct node *node, json_t **live) {
  struct search search = {.since = clock_ns(),
                          .deadline = clock_deadline_ms((uint64_t)node->config.startup_timeout_s * 1000)};
  int err = add_places(node, &search);
  if (!err)
    err = wait_for_run(node, &search, live);
  for (uint32_t i = 0; i < search.count; i++)
    close_place(&search.places[i]);
  free(search.closed);
  return err;
}
