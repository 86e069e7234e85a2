// Calls that have next to no time, and are made again until they come to their end, or are given up.
#ifndef TESTS_EP_INSIST_H
#define TESTS_EP_INSIST_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

struct insister {
  weft_ep_t *ep;
  uint64_t random;          // the state of random_next()
  uint32_t calls, timeouts; // so far
};

// Makes a call until it does not end with TIMEOUT or CANCELED, or `most` times (0: any number, for a minute). It gets
// up to 4 ms, and after each eight calls twice as much: a handshake that a call has given up begins anew. Returns the
// code of the last call.
int insist(struct insister *insister, uint32_t most, int (*call)(weft_ep_t *ep, uint32_t timeout_ms));

// Comes into the view: by itself, or with an offer, after which it joins, or waits to be taken in. A rank may give up
// after a call or two; then the result is 0, and `*gave_up` is true.
int insist_on_coming(struct insister *insister, bool *gave_up);

// Has itself put out of the view. It has to operate until it is not active any more.
int insist_on_leaving(struct insister *insister);

// Makes one call that takes in rank `rank`, if that has offered itself. `*taken` is incremented if it is in the view.
int insist_on_another(struct insister *insister, int32_t rank, uint32_t *taken);

#endif
