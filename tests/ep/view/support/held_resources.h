// The resources that a rank process holds for its peers, and the remains of a group.
#ifndef TESTS_EP_HOLDINGS_H
#define TESTS_EP_HOLDINGS_H

#include <stdbool.h>
#include <stdint.h>

struct held_resources {
  int sockets;     // of the local family
  int descriptors; // of memory
  int mappings;    // of memory that has a descriptor somewhere
};

// The resources of this process.
struct held_resources held_resources_now(void);
// The same for a rank whose links are all up. A link is used before the thread that made it has closed the descriptors
// of its windows; afterwards only the doorbell's is left.
struct held_resources held_resources_settled(void);
// Subtracts the resources of `count` peers.
void held_resources_less_peers(struct held_resources *holdings, uint32_t count);
bool held_resources_equal(const struct held_resources *due);
// Describes what this process has and should have; valid until the next call.
const char *held_resources_difference(const struct held_resources *due);

// Asserts that no process listens on that abstract socket any more; "": no socket.
void held_resources_assert_no_listener(const char *name);
// Waits until the store there has no key of the tests' default group: at once, or when a lease has ended that was not
// revoked.
void held_resources_assert_no_keys(const char *url);

#endif
