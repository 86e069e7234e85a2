// A client of the store: puts, gets, watches, and attaches a key to a lease.
//
// Without an argument the program starts an embedded server and connects to it over HTTPS, so that it needs no other
// store.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

enum { TIMEOUT_MS = 10000, LEASE_S = 10 };

static const char usage[] =
    "usage: store_client [URL]\n"
    "Uses the store at URL (etcd, or `weft serve` with its token in WEFT_TOKEN); default: a store of its own.\n"
    "Exit status: 0 all is as expected, 2 wrong usage, 4 wrong data; others: weft_err_exit_status().\n";

// Reports a failed call of the library, with the library's sentence.
static int report(const char *what, int err) {
  if (err)
    fprintf(stderr, "store_client: %s: %s: %s\n", what, weft_strerror(err), weft_last_error());
  return err;
}

// Reports a failure that this program itself has found; weft_last_error() does not describe it.
static int complain(const char *what, int err) {
  fprintf(stderr, "store_client: %s: %s\n", what, weft_strerror(err));
  return err;
}

// Reads one key; `*found` says whether it exists; the value is written to value[cap], followed by a NUL.
static int get(weft_store_t *store, const char *key, bool *found, char *value, size_t cap) {
  struct weft_store_list *list;
  int err = report("get", weft_store_range(store, key, false, 0, &list));
  if (err)
    return err;
  *found = list->count == 1;
  if (*found)
    snprintf(value, cap, "%s", (const char *)list->kvs[0]->value);
  weft_store_list_free(list);
  return 0;
}

// Checks that a key has the value `wanted`, or that it is absent if `wanted` is NULL.
static int expect_value(weft_store_t *store, const char *key, const char *wanted) {
  char value[64];
  bool found;
  int err = get(store, key, &found, value, sizeof value);
  if (err)
    return err;
  if (found != (wanted != NULL) || (found && strcmp(value, wanted) != 0)) {
    fprintf(stderr, "store_client: %s is '%s', not '%s'\n", key, found ? value : "(absent)",
            wanted ? wanted : "(absent)");
    return WEFT_ERR_DATA;
  }
  printf("get %s: %s\n", key, found ? value : "(absent)");
  return 0;
}

// Runs on a thread of the store, which must not block. It writes the kind of the event to a pipe.
static void on_event(void *arg, const struct weft_store_event *event) {
  unsigned char kind = (unsigned char)event->kind;
  const int *out = arg;
  if (write(*out, &kind, 1) != 1)
    fprintf(stderr, "store_client: an event was dropped\n");
}

// Waits for the next event of this kind. It ignores events about the connection.
static int wait_for(int in, enum weft_store_event_kind wanted) {
  struct pollfd ready = {.fd = in, .events = POLLIN};
  unsigned char kind;
  do {
    if (poll(&ready, 1, TIMEOUT_MS) != 1 || read(in, &kind, 1) != 1) {
      fprintf(stderr, "store_client: the watch reported no %s within %d ms\n",
              wanted == WEFT_STORE_EVENT_PUT ? "put" : "deletion", TIMEOUT_MS);
      return WEFT_ERR_TIMEOUT;
    }
  } while (kind != wanted);
  printf("watch: %s\n", kind == WEFT_STORE_EVENT_PUT ? "put" : "delete");
  return 0;
}

// A key without a lease stays until a client deletes it.
static int put_and_get(weft_store_t *store, const char *key, int events) {
  int64_t revision;
  int err = report("put", weft_store_put(store, key, "hello", 5, 0, &revision));
  if (!err)
    err = wait_for(events, WEFT_STORE_EVENT_PUT);
  if (!err)
    err = expect_value(store, key, "hello");
  if (!err)
    err = report("delete", weft_store_delete(store, key, false, NULL));
  if (!err)
    err = wait_for(events, WEFT_STORE_EVENT_DELETE);
  return err ? err : expect_value(store, key, NULL);
}

// The store deletes a key with a lease when the lease ends: its owner revokes it, or has died and does not renew it.
static int lease(weft_store_t *store, const char *key, int events) {
  int64_t id, left;
  int err = report("grant", weft_store_lease_grant(store, LEASE_S, &id, NULL));
  if (err)
    return err;
  err = report("put", weft_store_put(store, key, "alive", 5, id, NULL));
  if (!err)
    err = wait_for(events, WEFT_STORE_EVENT_PUT);
  if (!err)
    err = expect_value(store, key, "alive");
  if (!err)
    err = report("keepalive", weft_store_lease_keepalive(store, id, &left)); // an owner does this every few seconds
  int revoked = report("revoke", weft_store_lease_revoke(store, id));
  if (!err)
    err = revoked;
  if (!err)
    err = wait_for(events, WEFT_STORE_EVENT_DELETE);
  return err ? err : expect_value(store, key, NULL);
}

static int use(weft_store_t *store) {
  char prefix[64], key[80];
  snprintf(prefix, sizeof prefix, "/weft/examples/%ld/", (long)getpid()); // two runs use different keys
  snprintf(key, sizeof key, "%sgreeting", prefix);
  int ends[2];
  if (pipe(ends) != 0)
    return complain("pipe", WEFT_ERR_SYSTEM);
  weft_store_watch_t *watch = NULL;
  int err = report("watch", weft_store_watch_open(store, prefix, 0, on_event, &ends[1], &watch));
  if (!err)
    err = put_and_get(store, key, ends[0]);
  if (!err)
    err = lease(store, key, ends[0]);
  weft_store_watch_close(watch); // no callback runs after this, so the pipe can be closed
  close(ends[0]);
  close(ends[1]);
  return err;
}

static int run(const char *url) {
  weft_store_server_t *server = NULL;
  weft_store_t *store = NULL;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  int err = 0;
  if (url) {
    options.endpoints = url;
    options.token = getenv("WEFT_TOKEN");
  } else {
    struct weft_store_server_options serve = WEFT_STORE_SERVER_OPTIONS_INIT;
    err = report("server", weft_store_server_start(&server, &serve));
    if (err)
      return err;
    options.endpoints = weft_store_server_url(server);
    options.token = weft_store_server_token(server);
  }
  err = report("open", weft_store_open(&store, &options));
  if (!err)
    err = use(store);
  weft_store_close(store);
  weft_store_server_stop(server);
  return err;
}

int main(int argc, char **argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    fputs(usage, stderr);
    return 2;
  }
  int err = run(argc == 2 ? argv[1] : NULL);
  if (!err)
    printf("passed: put, get, watch and lease\n");
  return weft_err_exit_status(err);
}
