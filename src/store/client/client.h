// The inside of the client, shared by the files of this folder: it reaches a store through etcd's v3 JSON gateway.
//
// The path of a request: client.c (an operation) -> call.c (failover, tokens, the call's deadline) -> http.c (one
// exchange with one endpoint). A separate thread drives watches: watch.c.
#ifndef STORE_CLIENT_CLIENT_H
#define STORE_CLIENT_CLIENT_H

#include "base/text/text.h"
#include "secure/certificate.h"
#include "store/vtable.h"
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
  CLIENT_MAX_ENDPOINTS = 16,
  CLIENT_MAX_REPLY = 16 << 20, // bytes of one answer, or of one message of a watch; more is PROTOCOL
  CLIENT_MAX_TOKEN = 4096,     // bytes of a token: a JWT fits
};

struct client_pool;
struct client_watcher;

struct client {
  struct weft_store base;
  struct client *next_left_behind;       // in a forked child
  char *endpoints[CLIENT_MAX_ENDPOINTS]; // "http://host:port", without a slash at the end
  size_t num_endpoints;
  atomic_size_t current; // the endpoint with which calls begin
  char *ca_file;         // NULL if not given, like the next ones
  char *cert_file;
  char *key_file;
  char *user;
  char *password;
  char *bearer;
  char pin[CERTIFICATE_PIN]; // pin of the certificate that is derived from `bearer` and that https:// has to present;
                             // "": a CA signs it
  uint32_t connect_timeout_ms;
  uint32_t request_timeout_ms;
  struct client_pool *pool;
  pthread_mutex_t lock;           // guards what follows
  char token[CLIENT_MAX_TOKEN];   // the token from etcd for user and password; "": none yet
  struct client_watcher *watcher; // NULL until the first watch
};

// options.c -----------------------------------------------------------------------------------------------

// Checks the options and copies them. INVALID says which one is wrong and what would be right. After a failure
// client_options_free() frees what was copied.
int client_options_set(struct client *client, const struct weft_store_options *options);
void client_options_free(struct client *client);

// call.c --------------------------------------------------------------------------------------------------

struct client_request {
  const char *path;        // "/v3/kv/range"
  const struct text *body; // NULL: a GET
  bool modifies;           // never sent twice: without an answer its outcome is unknown
};

// Sends the request until an endpoint answers it, within the client's request time limit. The caller frees `*answer`, a
// JSON object.
int client_call(struct client *client, const struct client_request *request, json_t **answer);

// The endpoint to use now.
size_t client_endpoint(struct client *client);

// Makes the next endpoint the current one, if the current one is still `failed`.
void client_endpoint_failed(struct client *client, size_t failed);

// auth.c --------------------------------------------------------------------------------------------------

// Writes the value of the Authorization header for `endpoint` into `out`: "" if none is to be sent. False: the client
// first has to get a token from etcd.
bool client_auth_header(struct client *client, const char *endpoint, char out[CLIENT_MAX_TOKEN + 8]);

// Body of the request for a token, for an empty `body`. Free it with text_wipe(), since it has the password.
int client_auth_request(const struct client *client, struct text *body);

// Keeps the token of an answer. PROTOCOL: it has none.
int client_auth_answer(struct client *client, const json_t *answer);

// Forgets the token.
void client_auth_forget(struct client *client);

// watch.c -------------------------------------------------------------------------------------------------

int client_watch_open(weft_store_t *store, const char *prefix, int64_t from, weft_store_watch_fn fn, void *arg,
                      weft_store_watch_t **watch);
void client_watch_close(weft_store_watch_t *watch);
void client_watch_free(weft_store_watch_t *watch);

// Ends the thread and every watch; the owners keep the watches' handles. NULL is legal.
void client_watcher_stop(struct client_watcher *watcher);

#endif
