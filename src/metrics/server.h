// GET /metrics over HTTP, on threads of its own.
//
// A server with a token serves clients that send "Authorization: Bearer TEXT", where TEXT follows from the token; the
// token cannot be found from it. Without one, metrics are served at a loopback address only.
#ifndef METRICS_SERVER_H
#define METRICS_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/text.h"

struct metrics_source {
  const char *of;    // whose metrics they are, for sentences: "agent x"
  const char *token; // NULL or "": none
  // Writes all of them, to "# EOF". In a thread of the server's, one at a time.
  void (*write)(void *arg, struct text *text);
  void *arg;
};

struct metrics_server;

// `address` is "HOST:PORT", of which port 0 is any free one; `*port` (may be NULL) is the port. INVALID: there is no
// token, and the address is none of loopback. BUSY: the port is in use. UNREACHABLE: HOST has no address. UNSUPPORTED:
// this build has no libmicrohttpd. Nothing of `source` but `write` and `arg` is used later.
int metrics_server_open(const struct metrics_source *source, const char *address, uint16_t *port,
                        struct metrics_server **server);
// When it returns `write` is not called any more. NULL is legal.
void metrics_server_close(struct metrics_server *server);

enum { METRICS_BEARER = 64 }; // hexadecimal digits
int metrics_bearer(const char *token, char text[METRICS_BEARER + 1]);
// Writes it to a new file, as secret_to_file() does.
int metrics_bearer_to_file(const char *token, const char *option, const char *path);

// "http://HOST:PORT/metrics" for an address that metrics_server_open() has taken, and the port that it gave.
void metrics_url(const char *address, uint16_t port, char *text, size_t size);

#endif
