// The functions that a kind of store implements. store.c checks the arguments and calls them. A kind of store is one
// table and one open function.
#ifndef STORE_VTABLE_H
#define STORE_VTABLE_H

#include "base/text/text.h"
#include <weft/store.h>

// Each op does what the public function of the same name documents. Any threads call them, several at once. All ops
// except those that close or forget may wait up to the store's request time limit. Outputs are written only on success;
// the caller then owns them. Lists and results are built by list.h. `revision`, `deleted`, `granted_s` and keepalive's
// `ttl_s` may be NULL.
struct store_ops {
  void (*close)(weft_store_t *store);  // ends the watches, whose `store` becomes NULL; frees the store
  void (*forget)(weft_store_t *store); // in a forked child: frees memory that no missing thread was changing
  int (*version)(weft_store_t *store, struct text *out); // appends the version
  int (*range)(weft_store_t *store, const char *key, bool prefix, uint32_t limit, struct weft_store_list **out);
  int (*txn)(weft_store_t *store, const struct weft_store_txn *txn, struct weft_store_txn_result **out);
  int (*put)(weft_store_t *store, const char *key, const void *value, size_t value_len, int64_t lease,
             int64_t *revision);
  int (*del)(weft_store_t *store, const char *key, bool prefix, size_t *deleted);
  int (*lease_grant)(weft_store_t *store, int64_t ttl_s, int64_t *lease, int64_t *granted_s);
  int (*lease_keepalive)(weft_store_t *store, int64_t lease, int64_t *ttl_s);
  int (*lease_ttl)(weft_store_t *store, int64_t lease, int64_t *ttl_s);
  int (*lease_revoke)(weft_store_t *store, int64_t lease);
  int (*watch_open)(weft_store_t *store, const char *prefix, int64_t from, weft_store_watch_fn fn, void *arg,
                    weft_store_watch_t **watch);
  void (*watch_close)(weft_store_watch_t *watch); // closes a watch of an open store
  void (*watch_free)(weft_store_watch_t *watch);  // of a closed store, or in a forked child: frees only its memory
  const char *(*name)(const weft_store_t *store);
};

// First member of every kind's store and watch.
struct weft_store {
  const struct store_ops *ops;
  uint32_t opened; // forked_now() when it was opened
};
struct weft_store_watch {
  const struct store_ops *ops;
  weft_store_t *store; // NULL: the store was closed
  uint32_t opened;     // like its store's
};

#endif
