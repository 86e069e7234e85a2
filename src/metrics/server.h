// GET /metrics over HTTP, on threads of its own.
//
// A server with a token serves clients that send "Authorization: Bearer TEXT". TEXT is derived from the token; nobody
// can compute the token from it. A server without a token serves metrics at a loopback address only.
#ifndef METRICS_SERVER_H
#define METRICS_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/text.h"

struct metrics_source {
  const char *of;    // who has these metrics, for error texts: "agent x"
  const char *token; // NULL or "": none
  // Writes all metrics, up to "# EOF". A thread of the server calls it, one call at a time.
  void (*write)(void *arg, struct text *text);
  void *arg;
};

struct metrics_server;

// `address` is "HOST:PORT"; port 0 means any free port. `*port` (may be NULL) gets the port. INVALID: there is no
// token, and the address is not a loopback address. BUSY: the port is in use. UNREACHABLE: HOST has no address.
// UNSUPPORTED: this build has no libmicrohttpd. Only `write` and `arg` of `source` are used after the call.
int metrics_server_open(const struct metrics_source *source, const char *address, uint16_t *port,
                        struct metrics_server **server);
// After it returns, `write` is not called any more. NULL is legal.
void metrics_server_close(struct metrics_server *server);

enum { METRICS_BEARER = 64 }; // hexadecimal digits
int metrics_bearer(const char *token, char text[METRICS_BEARER + 1]);
// Writes the bearer text to a new file, as secret_to_file() does.
int metrics_bearer_to_file(const char *token, const char *option, const char *path);

// Writes "http://HOST:PORT/metrics" for an address that metrics_server_open() accepted, and the port that it returned.
void metrics_url(const char *address, uint16_t port, char *text, size_t size);

#endif
