// The resources that a rank process holds for its peers, and the remains of a group.
#ifndef TESTS_EP_HOLDINGS_H
#define TESTS_EP_HOLDINGS_H

#include <stdbool.h>
#include <stdint.h>

struct held_resources {
  int sockets;     // of the family AF_UNIX
  int descriptors; // of memfds
  int mappings;    // of memfds, whether their descriptors are still open or not
};

// The resources of this process.
struct held_resources held_resources_now(void);
// The same for a rank whose links are all up. It waits until only the descriptor of the doorbell is left: a link may be
// used a little before the thread that made it has closed the descriptors of its windows.
struct held_resources held_resources_settled(void);
// Subtracts the resources of `count` peers.
void held_resources_less_peers(struct held_resources *holdings, uint32_t count);
bool held_resources_equal(const struct held_resources *due);
// A text with the resources that this process has and should have; valid until the next call.
const char *held_resources_difference(const struct held_resources *due);

// Asserts that no process listens on the abstract socket of this name any more. With "" it checks nothing.
void held_resources_assert_no_listener(const char *name);
// Waits until the store at `url` has no key of the tests' default group. A key whose lease was not revoked stays until
// the lease ends.
void held_resources_assert_no_keys(const char *url);

#endif
