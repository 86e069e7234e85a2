// The prefix of the keys of a group of ranks, or of agents.
#ifndef STORE_PREFIX_H
#define STORE_PREFIX_H

#include <weft/store.h>

// Checks the prefix of options. Sets the default if it is NULL and `store` is NULL or inside this process. INVALID: it
// does not end in '/'; or it is NULL and other processes reach the store, so that several jobs with the default prefix
// would become one. `whose` ("the group") is used in the error text.
int store_prefix_complete(const weft_store_t *store, const char *whose, const char **prefix);

#endif
