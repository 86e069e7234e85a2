// Builds the state machine's transactions.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "group/state.h"

void group_txn_free(struct group_machine *m) {
  struct group_txn_builder *b = &m->builder;
  for (uint32_t i = 0; i < b->num_strings; i++)
    free(b->strings[i]);
  b->num_strings = 0;
}

void group_txn_begin(struct group_machine *m) {
  group_txn_free(m);
  struct group_txn_builder *b = &m->builder;
  b->txn = WEFT_STORE_TXN_INIT;
  b->txn.compares = b->compares;
  b->txn.success = b->ops;
  b->lease = 0;
  b->of_view = false;
  b->of_change = false;
  b->of_leave = false;
  b->failed = false;
}

// Takes over the string. A transaction has at most GROUP_TXN_STRINGS of them.
static void keep(struct group_txn_builder *b, char *string) {
  if (!string || b->num_strings == GROUP_TXN_STRINGS) {
    free(string);
    b->failed = true;
    return;
  }
  b->strings[b->num_strings++] = string;
}

void group_txn_compare(struct group_machine *m, char *key, enum weft_store_target target, int64_t number) {
  struct group_txn_builder *b = &m->builder;
  keep(b, key);
  if (b->failed)
    return;
  b->compares[b->txn.num_compares++] = (struct weft_store_compare){.key = key, .target = target, .number = number};
}

void group_txn_put(struct group_machine *m, char *key, char *value, int64_t lease) {
  struct group_txn_builder *b = &m->builder;
  keep(b, key);
  keep(b, value);
  if (b->failed)
    return;
  b->lease = lease;
  b->ops[b->txn.num_success++] = (struct weft_store_op){
      .kind = WEFT_STORE_PUT, .key = key, .value = value, .value_len = strlen(value), .lease = lease};
}

void group_txn_delete(struct group_machine *m, char *key) {
  struct group_txn_builder *b = &m->builder;
  keep(b, key);
  if (b->failed)
    return;
  b->ops[b->txn.num_success++] = (struct weft_store_op){.kind = WEFT_STORE_DELETE, .key = key};
}

bool group_try_again(struct group_machine *m) {
  log_error("group: no memory for a transaction; trying again");
  m->retry = true;
  m->retry_at = m->now + 100 * GROUP_MS;
  group_due(m, m->retry_at);
  return false;
}

bool group_txn_end(struct group_machine *m, struct group_request *request) {
  if (m->builder.failed)
    return group_try_again(m);
  *request = (struct group_request){.kind = GROUP_REQUEST_TXN, .txn = &m->builder.txn};
  return true;
}
