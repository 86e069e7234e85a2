// When an agreed view takes effect: only the decision itself, which docs/design/membership.md explains.
//
// Every active rank feeds in the same headers, and so gets the same answers. E(n) is the epoch of operation n. The
// headers of operation n decide E(n+2) = max(E(n+1), lowest `ready` of n), but only if E(n) = E(n+1), and if a step
// begins with n+2. So no second change is decided while the first one has not taken effect, and the operations of a
// step run in one view. A joiner has seen no header before its first operation; for this reason it knows E of that
// operation and of the next one.
#ifndef EP_CORE_ACTIVATION_H
#define EP_CORE_ACTIVATION_H

#include <stdbool.h>
#include <stdint.h>

enum { EP_ACTIVATION_LEAD = 2 };

struct ep_activation {
  uint64_t op;       // the oldest operation whose headers have not been collected
  uint64_t epoch[2]; // E(op), E(op + 1)
  uint64_t lowest;   // lowest `ready` received for `op`
  uint32_t step;     // a step begins with each operation whose number is a multiple of this
};

// The first operation and its epoch; both are published to a joiner. `step`: operations of a step, the same for all
// ranks.
void ep_activation_init(struct ep_activation *activation, uint64_t op, uint64_t epoch, uint32_t step);

// Epoch of `op` or `op + 1`.
uint64_t ep_activation_epoch(const struct ep_activation *activation, uint64_t op);

// A header of `op` says that its sender is ready for the epoch `ready`. Called for the header of each active rank that
// lives, including this rank's own.
void ep_activation_receive(struct ep_activation *activation, uint64_t ready);

// A header of `op` says that its sender runs `op` in this newer epoch; this rank then does the same. Headers received
// so far do not count any more: all have to be received again.
void ep_activation_adopt(struct ep_activation *activation, uint64_t epoch);

// All headers of `op` have arrived: advances to op + 1. Returns the epoch decided for op + 2 if it is a new one, else
// 0.
uint64_t ep_activation_close(struct ep_activation *activation);

// The rules about one peer. Their inputs are words in the windows of both ranks. "plus one": 0 means never.

// Whether the two ranks of a link take no part in each other's `op`, because one of them has published that it counts
// the other only from a later operation on (`start`), and has sent the header of that operation (`start_flag`). Both
// ranks have to come to the same answer: the sender skips `op`, and may reuse the place of this operation's header.
bool ep_activation_missed(uint64_t op, uint64_t start, uint64_t start_flag);

// The result of one check of a peer whose header has not arrived yet.
enum ep_look {
  EP_LOOK_WAIT,
  EP_LOOK_RECEIVE, // its header has arrived
  EP_LOOK_PASS,    // it counts us from a later operation on and has sent that one, so it takes no part in this one
  EP_LOOK_LOSE,    // it is gone, and nothing arrived before
};

// `flag`: the flag of its header in the place of `op`, plus one. `start`: the operation from which on it counts us,
// plus one. `start_flag`: the flag of its header in that operation's place. The caller has to read `down` before the
// flags, since what a peer wrote before it went down counts.
enum ep_look ep_activation_look(uint64_t op, bool down, uint64_t flag, uint64_t start, uint64_t start_flag);

// Whether `op` has to be published to a peer as our first operation, if `published` (plus one) was published before:
// the earliest of them is valid.
bool ep_activation_must_publish(uint64_t published, uint64_t op);

// Whether isolation of this rank is more likely than silence of so many members.
bool ep_activation_isolated(uint32_t silent, uint32_t members);

#endif
