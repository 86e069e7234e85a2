// What a rank process holds on account of its peers, and what a group leaves behind.
#ifndef TESTS_EP_HOLDINGS_H
#define TESTS_EP_HOLDINGS_H

#include <stdbool.h>
#include <stdint.h>

struct holdings {
  int sockets;     // of the local family
  int descriptors; // of memory
  int mappings;    // of memory that has a descriptor somewhere
};

// Of this process.
struct holdings holdings_now(void);
// Takes off what `count` peers cost.
void holdings_less_peers(struct holdings *holdings, uint32_t count);
bool holdings_equal(const struct holdings *due);
// What this process has and should have, in words; valid until the next call.
const char *holdings_difference(const struct holdings *due);

// That no process listens on that abstract socket any more; "" is none.
void holdings_assert_no_listener(const char *name);
// That the store there comes to have no key of the tests' default group: at once, or when a lease has run out that was
// not given back.
void holdings_assert_no_keys(const char *url);

#endif
