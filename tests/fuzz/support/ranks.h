// Two ranks of this process on a local store, configured as on two hosts, for targets that run a whole conversation.
#ifndef TESTS_FUZZ_RANKS_H
#define TESTS_FUZZ_RANKS_H

#include "ep/remote/remote_link.h"

struct fuzz_ranks {
  weft_store_t *store;
  weft_ep_t *own, *peer; // in a group of 4; not connected
};

// Opens the ranks at the first call.
const struct fuzz_ranks *fuzz_ranks(void);

// Closes the links that an input has made, and waits until their windows are freed: nothing else may be left.
void fuzz_ranks_part(const struct fuzz_ranks *ranks);

#endif
