// The lead's address, HOST[:PORT] as --rank-server has it.
#ifndef RUN_COMMON_LEAD_ADDRESS_H
#define RUN_COMMON_LEAD_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

// The URL of the store that the lead at HOST[:PORT] has embedded, with `port` where it names none. To be freed; NULL
// when memory ran out.
char *run_lead_url(const char *lead, uint16_t port);

// Whether one of the store's endpoints is at the lead's host: by the same name, by an address that both names have, or
// because both are this host. Its port, if `lead` names one, does not count. It may ask a name server, and wait for it.
bool run_lead_has_store(const char *lead, const char *endpoints);

// Whether something listens at the URL's host and port. It waits for a second at most, and a name server may add to it.
bool run_url_is_open(const char *url);

#endif
