// HTTP for the client: setting up handles, one exchange with one endpoint, and the errors for failures.
#ifndef STORE_CLIENT_HTTP_H
#define STORE_CLIENT_HTTP_H

#include "store/client/client.h"
#include <curl/curl.h>

// One use of a curl handle. Initialise it with zeros; client_transfer_end() frees its content.
struct client_transfer {
  struct text body;  // received bytes, at most CLIENT_MAX_REPLY of them
  bool too_big;      // more was received
  bool needs_leader; // in: an etcd that is cut off from its cluster has to refuse the request
  bool once;         // in: never send the request a second time, not even on a fresh connection
  bool to_itself;    // the connection leads to the client's own socket; nothing was sent
  unsigned sent;     // how often the request was sent over an established connection
  struct curl_slist *headers;
  char reason[CURL_ERROR_SIZE]; // curl's own text for a failure
  long os_errno;                // why a connection failed; 0: not known
};

void client_transfer_end(struct client_transfer *transfer);

// Sets curl up for the process, once. [any]
void client_http_init(void);

// Makes and frees a handle for this client. NULL: no memory.
CURL *client_http_handle(const struct client *client);

// Sets the endpoint of `handle`. `body` NULL: a GET; it is not copied. `authorization` "": none.
int client_http_prepare(CURL *handle, struct client_transfer *transfer, const char *endpoint, const char *path,
                        const struct text *body, const char *authorization);

// A pool keeps idle handles with their connections, for any number of threads. NULL: no memory.
struct client_pool *client_pool_create(void);
void client_pool_free(struct client_pool *pool);

// One exchange with one endpoint, which ends at the deadline. 0: a complete HTTP answer was received; its status is in
// `*status`, its body in the transfer.
int client_http_exchange(struct client *client, struct client_transfer *transfer, const char *endpoint,
                         const struct client_request *request, const char *authorization, uint64_t deadline_ns,
                         long *status);

// Fails with the error for a failure of curl: UNREACHABLE, TIMEOUT, AUTH or PROTOCOL, with endpoint and reason.
int client_http_failure(CURLcode code, const struct client_transfer *transfer, const char *endpoint);

#endif
