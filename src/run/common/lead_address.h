// The lead's address: HOST[:PORT] as --rank-server has it, and that of this host as others reach it.
#ifndef RUN_COMMON_LEAD_ADDRESS_H
#define RUN_COMMON_LEAD_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The URL of the store that the lead at HOST[:PORT] has embedded, with `port` where it names none. To be freed; NULL
// when memory ran out.
char *run_lead_url(const char *lead, uint16_t port);

// Whether one of the store's endpoints is at the lead's host. Its port, if `lead` names one, does not count.
bool run_lead_has_store(const char *lead, const char *endpoints);

// A numeric address of this host by which other hosts reach it, into out[cap]; false when there is none but loopback.
bool run_host_address(char *out, size_t cap);

// The endpoint that others can use for `url`: one at loopback is told with this host's address, where the store is
// reached by that, too. To be freed; NULL when memory ran out.
char *run_url_for_others(const char *url);

#endif
