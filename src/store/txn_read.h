// Reads a caller's transaction, which may have the layout of older or newer headers.
#ifndef STORE_TXN_READ_H
#define STORE_TXN_READ_H

#include <weft/store.h>

// A transaction in this library's layout; `txn` is the caller's own if all sizes are the same.
struct store_txn {
  const struct weft_store_txn *txn;
  struct weft_store_txn read;
  void *copies[3]; // copies of comparisons, success and failure; NULL if none was needed
};

// Reads and checks the sizes of `given`, its reserved fields and flags. After success store_txn_end() frees the copies.
// INVALID, VERSION, LIMIT, NOMEM.
int store_txn_read(const struct weft_store_txn *given, struct store_txn *out);
void store_txn_end(struct store_txn *txn);

#endif
