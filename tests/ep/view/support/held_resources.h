// What a rank process holds on account of its peers, and what a group leaves behind.
#ifndef TESTS_EP_HOLDINGS_H
#define TESTS_EP_HOLDINGS_H

#include <stdbool.h>
#include <stdint.h>

struct held_resources {
  int sockets;     // of the local family
  int descriptors; // of memory
  int mappings;    // of memory that has a descriptor somewhere
};

// Of this process.
struct held_resources held_resources_now(void);
// The same of a rank whose links are all up: a link is used before the thread that made it has closed the descriptors
// of its windows, and then the doorbell's is the only one that is left.
struct held_resources held_resources_settled(void);
// Takes off what `count` peers cost.
void held_resources_less_peers(struct held_resources *holdings, uint32_t count);
bool held_resources_equal(const struct held_resources *due);
// What this process has and should have, in words; valid until the next call.
const char *held_resources_difference(const struct held_resources *due);

// That no process listens on that abstract socket any more; "" is none.
void held_resources_assert_no_listener(const char *name);
// That the store there comes to have no key of the tests' default group: at once, or when a lease has run out that was
// not given back.
void held_resources_assert_no_keys(const char *url);

#endif
