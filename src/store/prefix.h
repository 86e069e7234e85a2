// The prefix under which a group of ranks, or agents, keep their keys.
#ifndef STORE_PREFIX_H
#define STORE_PREFIX_H

#include <weft/store.h>

// Checks the prefix that options give, and completes it where it is NULL and `store` is NULL or inside this process.
// INVALID: it does not end in '/'; or it is NULL and others reach the store, where a prefix that several jobs have by
// default would make them one. `whose` ("the group") is for the sentence.
int store_prefix_complete(const weft_store_t *store, const char *whose, const char **prefix);

#endif
