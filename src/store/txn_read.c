// Reads a caller's transaction: entries of another size are copied into this library's layout.
#include "store/txn_read.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/sized.h"

enum {
  MOST_ENTRIES = 128,   // in each list, as etcd has it
  MOST_BYTES = 1 << 14, // of one entry in any version: a larger distance was never set
  FIRST_COMPARE = SIZED_END(struct weft_store_compare, value_len),
  FIRST_OP = SIZED_END(struct weft_store_op, reserved),
};

// One of the three lists, and the size of its entries in this library.
struct entries {
  const char *name;      // "comparison"
  const char *size_name; // "each_compare"
  const void *given;
  size_t count, each, known, first;
};

static int check_list(const struct entries *e) {
  if (e->count && !e->given)
    return fail(WEFT_ERR_INVALID, "a list of the transaction is NULL but its number of entries is not 0: the %ss",
                e->name);
  if (e->count > MOST_ENTRIES)
    return fail(WEFT_ERR_LIMIT, "the transaction has %zu %ss; at most %d of each kind", e->count, e->name,
                MOST_ENTRIES);
  if (e->count && (e->each < e->first || e->each > MOST_BYTES || e->each % _Alignof(uint64_t)))
    return fail(WEFT_ERR_INVALID,
                "%s is %zu, but every version has %zu bytes or more: initialise the transaction with "
                "WEFT_STORE_TXN_INIT, or set it to the size of one %s",
                e->size_name, e->each, e->first, e->name);
  return 0;
}

// Copies a list whose entries have another size.
static int copy_list(const struct entries *e, void **copies) {
  uint8_t *to = calloc(e->count, e->known);
  if (!to)
    return fail(WEFT_ERR_NOMEM, "no memory for a transaction of %zu %ss", e->count, e->name);
  *copies = to;
  size_t both = e->each < e->known ? e->each : e->known;
  for (size_t i = 0; i < e->count; i++) {
    const uint8_t *from = (const uint8_t *)e->given + i * e->each;
    for (size_t byte = e->known; byte < e->each; byte++)
      if (from[byte])
        return fail(WEFT_ERR_VERSION,
                    "%s %zu of the transaction: byte %zu of %zu is not 0, but this library knows only the first %zu: "
                    "the program was built for a newer library, and sets a field of that",
                    e->name, i, byte, e->each, e->known);
    memcpy(to + i * e->known, from, both);
  }
  return 0;
}

static int read_list(const struct entries *e, void **copies, const void **out) {
  int err = check_list(e);
  *out = e->given;
  if (err || !e->count || e->each == e->known)
    return err;
  err = copy_list(e, copies);
  *out = *copies;
  return err;
}

static int read_ops(const struct weft_store_txn *txn, const char *name, const struct weft_store_op *ops, size_t count,
                    void **copies, const struct weft_store_op **out) {
  const void *read;
  int err =
      read_list(&(struct entries){name, "each_op", ops, count, txn->each_op, sizeof *ops, FIRST_OP}, copies, &read);
  *out = read;
  return err;
}

int store_txn_read(const struct weft_store_txn *given, struct store_txn *out) {
  *out = (struct store_txn){0};
  const struct weft_store_txn *txn = SIZED_READ(given, &out->read, num_failure, "the transaction");
  if (!txn)
    return sized_refusal(given, sizeof out->read);
  const void *compares;
  const struct weft_store_op *success = NULL, *failure = NULL;
  int err = read_list(&(struct entries){"comparison", "each_compare", txn->compares, txn->num_compares,
                                        txn->each_compare, sizeof *txn->compares, FIRST_COMPARE},
                      &out->copies[0], &compares);
  if (!err)
    err = read_ops(txn, "operation", txn->success, txn->num_success, &out->copies[1], &success);
  if (!err)
    err = read_ops(txn, "operation", txn->failure, txn->num_failure, &out->copies[2], &failure);
  if (err) {
    store_txn_end(out);
    return err;
  }
  out->txn = txn;
  if (out->copies[0] || out->copies[1] || out->copies[2]) {
    if (txn != &out->read)
      out->read = *txn;
    out->read.compares = compares;
    out->read.success = success;
    out->read.failure = failure;
    out->txn = &out->read;
  }
  return 0;
}

void store_txn_end(struct store_txn *txn) {
  for (size_t i = 0; i < sizeof txn->copies / sizeof *txn->copies; i++)
    free(txn->copies[i]);
}
