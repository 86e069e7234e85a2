// The addresses of this host, and the choice of those that other hosts can use.
#ifndef RUN_COMMON_OWN_ADDRESS_H
#define RUN_COMMON_OWN_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

struct sockaddr;

bool run_address_equal(const struct sockaddr *a, const struct sockaddr *b); // ignores the ports
bool run_address_is_own(const struct sockaddr *address); // whether it is an address of this host; loopback is one

// Writes a numeric address of this host at which other hosts can reach it into out[cap]: the address of an interface
// that WEFT_INTERFACE names, otherwise the source address of packets to other networks. If there
// is no such IPv4 address, it is an IPv6 address without brackets. False: the host has only loopback.
bool run_host_address(char *out, size_t cap);

// The address at which a server listens on all addresses of this host: "0.0.0.0", or "::" if the host has only IPv6.
const char *run_any_address(void);

// After weft_store_server_start() has failed: puts --listen before an error of the address `listen` that the option
// gave (NULL: it gave none); returns `err`.
int run_listen_failed(int err, const char *listen);

// Replaces endpoints in `urls` that other hosts cannot use: an endpoint at loopback or at a wildcard address gets the
// first of this host's addresses at which the store answers, too. The caller frees the result. NULL when memory ran
// out.
char *run_url_for_others(const char *urls);

// Whether a URL's host is loopback, which no other host can reach.
bool run_url_is_loopback(const char *url);

#endif
