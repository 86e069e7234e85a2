// What an HTTP answer of the gateway means.
#ifndef STORE_CLIENT_STATUS_H
#define STORE_CLIENT_STATUS_H

#include <stdbool.h>
#include <stddef.h>

// What may be done about a failed request.
enum client_remedy {
  CLIENT_FINAL,     // nothing: the caller's answer
  CLIENT_ELSEWHERE, // ask another endpoint: this one did not see the request
  CLIENT_MAYBE,     // ask another endpoint, if the request may run twice: this one may have carried it out
  CLIENT_NEW_TOKEN, // get a new token and ask again: it was not carried out
};

// Fails by the status and the error text of an answer; `*remedy` is what the caller can do. `status` is not 200.
int client_status_fail(const char *endpoint, const char *path, long status, const char *body, size_t size,
                       enum client_remedy *remedy);

// The same for a gRPC code and its message, which an answer or a stream may bring.
int client_status_grpc(const char *endpoint, int code, const char *message, enum client_remedy *remedy);

#endif
