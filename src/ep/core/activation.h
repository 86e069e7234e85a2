// When an agreed view takes effect: the decision that docs/design/membership.md explains, without anything around it.
//
// Every active rank feeds it the same headers and so comes to the same answers. Epoch of operation n: E(n). From the
// headers of operation n, E(n+2) = max(E(n+1), lowest `ready` of n), but only if E(n) = E(n+1): while a change is on
// its way no second one is decided, so that a joiner, which has seen no header before its first operation, knows E of
// that operation and the next.
#ifndef EP_CORE_ACTIVATION_H
#define EP_CORE_ACTIVATION_H

#include <stdbool.h>
#include <stdint.h>

enum { EP_ACTIVATION_LEAD = 2 };

struct ep_activation {
  uint64_t op;       // the oldest operation whose headers have not been collected
  uint64_t epoch[2]; // E(op), E(op + 1)
  uint64_t lowest;   // lowest `ready` received for `op`
};

// The first operation and its epoch; both are published to a joiner.
void ep_activation_init(struct ep_activation *activation, uint64_t op, uint64_t epoch);

// Epoch of `op` or `op + 1`.
uint64_t ep_activation_epoch(const struct ep_activation *activation, uint64_t op);

// A header of `op` says that its sender is ready for this epoch. The header of each active rank that lives is received,
// this rank's own too.
void ep_activation_receive(struct ep_activation *activation, uint64_t ready);

// A header of `op` says that its sender runs `op` in this newer epoch: so do we. Headers received so far no longer
// count: all are received again.
void ep_activation_adopt(struct ep_activation *activation, uint64_t epoch);

// All headers of `op` have come: goes on to op + 1. Returns the epoch decided for op + 2 when it is a new one, else 0.
uint64_t ep_activation_close(struct ep_activation *activation);

// The rules about one peer; what they read stands in the windows of both. "plus one": 0 means never.

// Whether the two ranks of a link take no part in each other's `op`, because one of them has published that it
// counts the other from a later operation on (`start`) and has sent that one (`start_flag`). Both have to see it so:
// the other one passes over it, and may use the place of this operation's header again.
bool ep_activation_missed(uint64_t op, uint64_t start, uint64_t start_flag);

// What one look at a peer of whom nothing has come yet says.
enum ep_look {
  EP_LOOK_WAIT,
  EP_LOOK_RECEIVE, // its header is there
  EP_LOOK_PASS,    // it counts us from a later operation on and has sent that one: it takes no part in this one
  EP_LOOK_LOSE,    // it is gone, and nothing came before
};

// `flag`: of its header in the place of `op`, plus one. `start`: the operation from which on it counts us, plus one;
// `start_flag`: of its header in that operation's place. `down` has to be read before the flags: what a peer wrote
// before it went down counts.
enum ep_look ep_activation_look(uint64_t op, bool down, uint64_t flag, uint64_t start, uint64_t start_flag);

// Whether `op` has to be published to a peer that has `published` (plus one) as our first operation: the earliest
// stands.
bool ep_activation_must_publish(uint64_t published, uint64_t op);

// Whether it is more likely that this rank is isolated than that so many of the members are silent.
bool ep_activation_isolated(uint32_t silent, uint32_t members);

#endif
