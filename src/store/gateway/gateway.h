// etcd's v3 JSON gateway on the core: it turns a request's path and body into an answer's status and body. It uses no
// sockets and no threads; its owner serialises the calls.
#ifndef STORE_GATEWAY_GATEWAY_H
#define STORE_GATEWAY_GATEWAY_H

#include "base/text/text.h"
#include "store/core/core.h"

// etcd's limit is 1.5 MiB of keys and values. This is room for as many in base64, and for the JSON around them.
enum {
  GATEWAY_MAX_BODY = (2 << 20) + (16 << 10),
  GATEWAY_MAX_WATCHES = 64 << 20, // bytes of all watches of all streams
};

struct gateway {
  struct core *core;
  uint64_t cluster_id; // random: a restarted server has other ids
  uint64_t member_id;
  size_t watch_bytes; // at most GATEWAY_MAX_WATCHES
};

struct gateway_reply {
  unsigned status; // HTTP's
  const char *content_type;
  struct text body;
};

// Replaces the reply by an error body in etcd's format; the HTTP status follows from the gRPC code.
void gateway_fail(struct gateway_reply *reply, int grpc_code, const char *text);

// Whether this path opens a stream: gateway_stream_open() of watch.h then handles the request.
bool gateway_is_watch(const char *path);

// Whether this path is answered without a token.
bool gateway_is_public(const char *path);

// Answers one request, which changes the core at time `now_ns`. Initialise `reply` with zeros; the caller frees its
// body.
void gateway_handle(struct gateway *gateway, uint64_t now_ns, const char *method, const char *path,
                    const struct text *body, struct gateway_reply *reply);

#endif
