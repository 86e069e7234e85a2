// The errors for HTTP answers of the gateway.
#ifndef STORE_CLIENT_STATUS_H
#define STORE_CLIENT_STATUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What the client may do about a failed request.
enum client_remedy {
  CLIENT_FINAL,     // nothing: the caller gets the error
  CLIENT_ELSEWHERE, // ask another endpoint: this one did not see the request
  CLIENT_MAYBE,     // ask another endpoint only if the request may run twice: this one may have carried it out
  CLIENT_NEW_TOKEN, // get a new token and send the request again: it was not carried out
};

// Fails with the error for the status and the error text of an answer; `*remedy` says what the caller can do. `status`
// is not 200.
int client_status_fail(const char *endpoint, const char *path, long status, const char *body, size_t size,
                       enum client_remedy *remedy);

// The gRPC code and the text of an answer or a message that reports an error, in any of the forms that gateways give
// it. False: it has no such text, or a code that is no number.
bool client_status_read(const json_t *answer, int64_t *code, const char **text);

// The error that a text of etcd means if it comes without a code; UNREACHABLE: the text is not known.
int client_status_of_text(const char *text);

// The same for a gRPC code and its message, which an answer or a stream may contain.
int client_status_grpc(const char *endpoint, int code, const char *message, enum client_remedy *remedy);

#endif
