// HTTP as the client needs it: handles set up alike, one exchange with one endpoint, and what a failure means.
#ifndef STORE_CLIENT_HTTP_H
#define STORE_CLIENT_HTTP_H

#include "store/client/client.h"
#include <curl/curl.h>

// One use of a curl handle. Zero-initialise; client_transfer_end() frees what it holds.
struct client_transfer {
  struct text body; // what came, at most CLIENT_MAX_REPLY bytes of it
  bool too_big;     // more came
  bool once;        // in: never send the request a second time, not even on a fresh connection
  unsigned sent;    // how often a connection stood and the request went out
  struct curl_slist *headers;
  char reason[CURL_ERROR_SIZE]; // curl's own words for a failure
};

void client_transfer_end(struct client_transfer *transfer);

// Sets curl up for the process, once. [any]
void client_http_init(void);

// A handle for this client, and its end. NULL: no memory.
CURL *client_http_handle(const struct client *client);

// Points `handle` at an endpoint. `body` NULL: a GET; it is not copied. `authorization` "": none.
int client_http_prepare(CURL *handle, struct client_transfer *transfer, const char *endpoint, const char *path,
                        const struct text *body, const char *authorization);

// A pool keeps idle handles with their connections, for any number of threads. NULL: no memory.
struct client_pool *client_pool_create(void);
void client_pool_free(struct client_pool *pool);

// One exchange with one endpoint, ended by the deadline. 0: an HTTP answer came whole; its status goes to `*status`,
// its body is in the transfer.
int client_http_exchange(struct client *client, struct client_transfer *transfer, const char *endpoint,
                         const struct client_request *request, const char *authorization, uint64_t deadline_ns,
                         long *status);

// Says what curl's failure means: UNREACHABLE, TIMEOUT, AUTH or PROTOCOL, with endpoint and reason.
int client_http_failure(CURLcode code, const struct client_transfer *transfer, const char *endpoint);

#endif
