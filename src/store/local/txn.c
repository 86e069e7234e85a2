// Transactions on the store of one process.
#include "store/local/local.h"

#include "base/fail.h"
#include "store/list.h"
#include <stdlib.h>
#include <string.h>

// A transaction in the core's terms.
struct translated {
  struct core_compare compares[CORE_MAX_TXN_OPS];
  struct core_op ops[2][CORE_MAX_TXN_OPS]; // success, failure
  char *bounds;                            // memory of the ranges: `few`, or allocated
  char few[512];
};

static size_t bounds_size(const struct weft_store_op *ops, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; i++)
    size += strlen(ops[i].key) + 1;
  return size;
}

static void translate_ops(const struct weft_store_op *ops, size_t count, struct core_op *out, char **bounds) {
  static const enum core_op_kind kinds[] = {
      [WEFT_STORE_PUT] = CORE_PUT, [WEFT_STORE_DELETE] = CORE_DELETE, [WEFT_STORE_RANGE] = CORE_RANGE};
  for (size_t i = 0; i < count; i++) {
    const struct weft_store_op *op = &ops[i];
    out[i] = (struct core_op){
        .kind = kinds[op->kind],
        .range = local_range(op->key, op->flags & WEFT_STORE_OP_PREFIX, *bounds),
        .value = {op->value, op->value_len},
        .lease = op->lease,
        .limit = op->limit,
    };
    *bounds += strlen(op->key) + 1;
  }
}

static void translate_compares(const struct weft_store_compare *compares, size_t count, struct core_compare *out) {
  static const enum core_target targets[] = {[WEFT_STORE_CREATE] = CORE_CREATE,
                                             [WEFT_STORE_MOD] = CORE_MOD,
                                             [WEFT_STORE_VERSION] = CORE_VERSION,
                                             [WEFT_STORE_VALUE] = CORE_VALUE};
  static const enum core_relation relations[] = {[WEFT_STORE_EQUAL] = CORE_EQUAL,
                                                 [WEFT_STORE_GREATER] = CORE_GREATER,
                                                 [WEFT_STORE_LESS] = CORE_LESS,
                                                 [WEFT_STORE_NOT_EQUAL] = CORE_NOT_EQUAL};
  for (size_t i = 0; i < count; i++)
    out[i] = (struct core_compare){
        .range = local_range(compares[i].key, false, NULL),
        .target = targets[compares[i].target],
        .relation = relations[compares[i].relation],
        .number = compares[i].number,
        .value = {compares[i].value, compares[i].value_len},
    };
}

static int translate(const struct weft_store_txn *txn, struct translated *out, struct core_txn *core_txn) {
  if (txn->num_compares > CORE_MAX_TXN_OPS || txn->num_success > CORE_MAX_TXN_OPS ||
      txn->num_failure > CORE_MAX_TXN_OPS)
    return fail_context(local_fail(CORE_TOO_MANY_OPS, ""), "%zu comparisons, %zu and %zu operations; at most %d each",
                        txn->num_compares, txn->num_success, txn->num_failure, CORE_MAX_TXN_OPS);
  size_t size = bounds_size(txn->success, txn->num_success) + bounds_size(txn->failure, txn->num_failure);
  out->bounds = size < sizeof out->few ? out->few : malloc(size + 1);
  if (!out->bounds)
    return local_fail(CORE_NO_MEMORY, "");
  char *bounds = out->bounds;
  translate_compares(txn->compares, txn->num_compares, out->compares);
  translate_ops(txn->success, txn->num_success, out->ops[0], &bounds);
  translate_ops(txn->failure, txn->num_failure, out->ops[1], &bounds);
  *core_txn = (struct core_txn){
      .compares = out->compares,
      .success = out->ops[0],
      .failure = out->ops[1],
      .num_compares = txn->num_compares,
      .num_success = txn->num_success,
      .num_failure = txn->num_failure,
  };
  return 0;
}

static void release(struct translated *translated) {
  if (translated->bounds != translated->few)
    free(translated->bounds);
}

static int answer_range(const struct core_response *response, struct weft_store_list **list) {
  struct weft_store_list *out = *list = store_list_create();
  if (!out)
    return WEFT_ERR_NOMEM;
  for (size_t i = 0; i < response->num_records; i++) {
    struct weft_store_kv kv = local_kv(response->records[i]);
    int err = store_list_add(out, &kv);
    if (err)
      return err;
  }
  out->total = response->count;
  out->more = response->more;
  out->revision = response->revision;
  return 0;
}

static int answer(const struct core_result *result, struct weft_store_txn_result **out) {
  struct weft_store_txn_result *copy = store_result_create(result->num_responses);
  if (!copy)
    return WEFT_ERR_NOMEM;
  copy->succeeded = result->succeeded;
  copy->revision = result->revision;
  int err = 0;
  for (size_t i = 0; !err && i < result->num_responses; i++) {
    if (result->ops[i].kind == CORE_RANGE)
      err = answer_range(&result->responses[i], &copy->ranges[i]);
    else
      copy->deleted[i] = result->responses[i].count;
  }
  if (err)
    weft_store_txn_result_free(copy);
  else
    *out = copy;
  return err;
}

int local_txn(weft_store_t *store, const struct weft_store_txn *txn, struct weft_store_txn_result **out) {
  struct local *local = (struct local *)store;
  struct translated translated;
  struct core_txn core_form;
  int err = translate(txn, &translated, &core_form);
  if (err)
    return err;
  struct core_result result = {0};
  pthread_mutex_lock(&local->lock);
  enum core_status status = core_txn(local->core, &core_form, &result);
  pthread_mutex_unlock(&local->lock);
  if (status == CORE_OK)
    err = answer(&result, out);
  else
    err = local_fail(status, txn->num_success == 1 && txn->num_failure == 0 ? txn->success[0].key : "");
  core_result_free(&result);
  release(&translated);
  return err;
}

int local_change(weft_store_t *store, const struct weft_store_op *op, struct core_response *out) {
  struct local *local = (struct local *)store;
  struct translated translated;
  struct core_txn core_form;
  int err = translate(&(struct weft_store_txn){.success = op, .num_success = 1}, &translated, &core_form);
  if (err)
    return err;
  pthread_mutex_lock(&local->lock);
  enum core_status status = core_apply(local->core, &core_form.success[0], out);
  pthread_mutex_unlock(&local->lock);
  release(&translated);
  return status == CORE_OK ? 0 : local_fail(status, op->key);
}
