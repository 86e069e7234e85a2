// The lead's address, HOST[:PORT] as in --rank-server.
#ifndef RUN_COMMON_LEAD_ADDRESS_H
#define RUN_COMMON_LEAD_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

// The URL of the embedded store of the lead at HOST[:PORT]. `port` is used if HOST[:PORT] has no port. The caller frees
// the URL. NULL when memory ran out.
char *run_lead_url(const char *lead, uint16_t port);

// Whether one of the store's endpoints is on the lead's host: both have the same name, both names have a common
// address, or both are this host. A port in `lead` is ignored. The function may ask a name server and wait for it.
bool run_lead_has_store(const char *lead, const char *endpoints);

// Whether a server listens at the URL's host and port. It waits for at most a second, plus the time of a name server.
bool run_url_is_open(const char *url);

#endif
