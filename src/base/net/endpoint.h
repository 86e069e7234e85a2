// Parses "HOST:PORT" and "[IPV6]:PORT" for sockets.
#ifndef BASE_NET_ENDPOINT_H
#define BASE_NET_ENDPOINT_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

enum { ENDPOINT_MAX_HOST = 256 };

// INVALID: malformed; the text says how. A port of 0 is legal only with `any_port`.
int endpoint_parse(const char *text, bool any_port, char host[ENDPOINT_MAX_HOST], char port[6]);

// The addresses of an endpoint; freeaddrinfo() frees them. `passive`: addresses to listen at. A host name is looked up,
// which may block.
int endpoint_resolve(const char *text, bool passive, struct addrinfo **addresses);

// Listens at the first of the endpoint's addresses that is available. BUSY: the port is in use.
int endpoint_listen(const char *text, int *fd, uint16_t *port);

#endif
