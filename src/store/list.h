// Builds the lists of keys, and the results, that stores return.
#ifndef STORE_LIST_H
#define STORE_LIST_H

#include <weft/store.h>

// An empty list; weft_store_list_free() frees it. NULL after fail(): no memory.
struct weft_store_list *store_list_create(void);

// Appends a copy of `kv` (key and value bytes copied, each with a NUL behind) to a list of store_list_create(). NOMEM
// leaves the list as it was.
int store_list_add(struct weft_store_list *list, const struct weft_store_kv *kv);

// A result with room for the responses, all of them empty. NULL after fail(): no memory.
struct weft_store_txn_result *store_result_create(size_t num_responses);

#endif
