// Building the lists of keys that stores answer with.
#ifndef STORE_LIST_H
#define STORE_LIST_H

#include <weft/store.h>

// Appends a copy of `kv` (key and value bytes copied, each with a NUL behind). NOMEM leaves the list as it was. The
// list is zero-initialised; weft_store_list_free() frees it.
int store_list_add(struct weft_store_list *list, const struct weft_store_kv *kv);

#endif
