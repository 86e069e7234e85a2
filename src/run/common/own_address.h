// The addresses of this host, and which of them others are told.
#ifndef RUN_COMMON_OWN_ADDRESS_H
#define RUN_COMMON_OWN_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

struct sockaddr;

bool run_address_equal(const struct sockaddr *a, const struct sockaddr *b); // whatever their ports
bool run_address_is_own(const struct sockaddr *address);                    // of this host, loopback included

// A numeric address of this host by which other hosts reach it, into out[cap]: of an interface that WEFT_INTERFACE
// names, else the one from which packets go elsewhere; of IPv6, without brackets, where there is none of IPv4. False
// when there is none but loopback.
bool run_host_address(char *out, size_t cap);

// At which a server takes callers by every address of this host: "0.0.0.0", or "::" where it has IPv6 alone.
const char *run_any_address(void);

// The endpoints that others can use for `urls`: one at loopback is told with the first of this host's addresses by
// which the store is reached, too. To be freed; NULL when memory ran out.
char *run_url_for_others(const char *urls);

// Whether a URL's host is loopback, which no other host reaches.
bool run_url_is_loopback(const char *url);

#endif
