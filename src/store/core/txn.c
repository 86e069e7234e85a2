// Transactions: compares, then one of two lists of operations.
#include "store/core/parts.h"

#include <stdlib.h>
#include <string.h>

// The memory of a branch, allocated before its first change: from then on nothing can fail.
struct prepared {
  struct core_record *record; // PUT
  struct core_node *node;     // PUT: for a key that is not there yet
};

static enum core_status check_op(const struct core_op *op) {
  if (op->range.key.size == 0)
    return CORE_EMPTY_KEY;
  if (op->kind == CORE_PUT) {
    if (op->ignore_value && op->value.size > 0)
      return CORE_VALUE_PROVIDED;
    if (op->ignore_lease && op->lease != 0)
      return CORE_LEASE_PROVIDED;
  }
  return CORE_OK;
}

// As in etcd, of the branch that runs only, and after all of its puts.
static enum core_status check_revisions(const struct core *core, const struct core_result *result) {
  for (size_t i = 0; i < result->num_responses; i++) {
    const struct core_op *op = &result->ops[i];
    if (op->kind != CORE_RANGE)
      continue;
    if (op->revision > core->revision)
      return CORE_FUTURE_REVISION;
    if (op->revision > 0 && op->revision < core->revision)
      return op->revision < core->oldest ? CORE_COMPACTED : CORE_PAST_REVISION;
  }
  return CORE_OK;
}

static bool same_key(const struct core_op *a, const struct core_op *b) {
  return a->range.key.size == b->range.key.size && memcmp(a->range.key.data, b->range.key.data, a->range.key.size) == 0;
}

// A branch may touch a key that it puts with no other put and no deletion.
static enum core_status check_branch(const struct core_op *ops, size_t count) {
  for (size_t i = 0; i < count; i++) {
    enum core_status status = check_op(&ops[i]);
    if (status != CORE_OK)
      return status;
  }
  for (size_t i = 0; i < count; i++) {
    if (ops[i].kind != CORE_PUT)
      continue;
    for (size_t k = 0; k < count; k++) {
      bool put_twice = k < i && ops[k].kind == CORE_PUT && same_key(&ops[i], &ops[k]);
      bool deleted =
          ops[k].kind == CORE_DELETE && core_range_holds(&ops[k].range, ops[i].range.key.data, ops[i].range.key.size);
      if (put_twice || deleted)
        return CORE_DUPLICATE_KEY;
    }
  }
  return CORE_OK;
}

static size_t size_of(const struct core_op *ops, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; i++)
    size += ops[i].range.key.size + ops[i].range.end.size + ops[i].value.size;
  return size;
}

static enum core_status check(const struct core_txn *txn) {
  if (txn->num_compares > CORE_MAX_TXN_OPS || txn->num_success > CORE_MAX_TXN_OPS ||
      txn->num_failure > CORE_MAX_TXN_OPS)
    return CORE_TOO_MANY_OPS;
  for (size_t i = 0; i < txn->num_compares; i++)
    if (txn->compares[i].range.key.size == 0)
      return CORE_EMPTY_KEY;
  enum core_status status = check_branch(txn->success, txn->num_success);
  if (status == CORE_OK)
    status = check_branch(txn->failure, txn->num_failure);
  size_t size = size_of(txn->success, txn->num_success) + size_of(txn->failure, txn->num_failure);
  return status == CORE_OK && size > CORE_MAX_TXN_BYTES ? CORE_TOO_LARGE : status;
}

static int order(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

// `record` NULL: the key is absent.
static bool holds_for(const struct core_compare *compare, const struct core_record *record) {
  static const struct core_record absent;
  if (!record && compare->target == CORE_VALUE)
    return false;
  const struct core_record *state = record ? record : &absent;
  int result = 0;
  switch (compare->target) {
  case CORE_VERSION:
    result = order(state->version, compare->number);
    break;
  case CORE_CREATE:
    result = order(state->create_revision, compare->number);
    break;
  case CORE_MOD:
    result = order(state->mod_revision, compare->number);
    break;
  case CORE_LEASE:
    result = order(state->lease, compare->number);
    break;
  case CORE_VALUE:
    result = core_bytes_order(core_record_value(state), state->value_size, compare->value.data, compare->value.size);
    break;
  }
  switch (compare->relation) {
  case CORE_EQUAL:
    return result == 0;
  case CORE_GREATER:
    return result > 0;
  case CORE_LESS:
    return result < 0;
  case CORE_NOT_EQUAL:
    return result != 0;
  }
  return false;
}

static bool holds(const struct core *core, const struct core_compare *compare) {
  const struct core_node *node = core_keys_first(&core->keys, &compare->range);
  if (!node)
    return holds_for(compare, NULL);
  for (; node; node = core_keys_next(node, &compare->range))
    if (!holds_for(compare, node->record))
      return false;
  return true;
}

static enum core_status prepare_put(struct core *core, const struct core_op *op, struct prepared *prepared) {
  const struct core_node *node = core_keys_find(&core->keys, op->range.key);
  if (!node && (op->ignore_value || op->ignore_lease))
    return CORE_KEY_NOT_FOUND;
  if (op->lease != 0 && !core_lease_find(core, op->lease))
    return CORE_LEASE_NOT_FOUND;
  struct core_bytes value = op->value;
  if (op->ignore_value)
    value = (struct core_bytes){core_record_value(node->record), node->record->value_size};
  prepared->record = core_record_create(core, op->range.key, value);
  if (!node)
    prepared->node = core_keys_node(&core->keys);
  return prepared->record && (node || prepared->node) ? CORE_OK : CORE_NO_MEMORY;
}

// The maximum number of records in an answer, if `puts` keys are created before it is made.
static size_t max_records(const struct core *core, const struct core_op *op, size_t puts) {
  if (op->kind == CORE_PUT)
    return op->prev_kv ? 1 : 0;
  if (op->kind == CORE_DELETE)
    return op->prev_kv ? core_keys_count(&core->keys, &op->range) : 0;
  if (op->count_only)
    return 0;
  size_t most = core_keys_count(&core->keys, &op->range) + puts;
  return op->limit > 0 && (uint64_t)op->limit < most ? (size_t)op->limit : most;
}

// The bytes of the records that it answers with, as far as they are there before the transaction.
static size_t answer_size(const struct core *core, const struct core_op *op) {
  size_t size = 0, left = op->kind == CORE_RANGE && op->limit > 0 ? (size_t)op->limit : SIZE_MAX;
  const struct core_node *node = core_keys_first(&core->keys, &op->range);
  for (; node && left > 0 && size <= CORE_MAX_ANSWER; node = core_keys_next(node, &op->range), left--)
    size += core_record_cost(node->record);
  return size;
}

// Whether the puts have room.
static enum core_status check_space(const struct core *core, const struct core_result *result,
                                    const struct prepared *prepared) {
  int64_t more = 0;
  for (size_t i = 0; i < result->num_responses; i++) {
    if (!prepared[i].record)
      continue;
    const struct core_node *node = core_keys_find(&core->keys, result->ops[i].range.key);
    more += (int64_t)core_record_cost(prepared[i].record) - (node ? (int64_t)core_record_cost(node->record) : 0);
  }
  bool fits = !core->limits.live || more <= 0 || core->live + (uint64_t)more <= core->limits.live;
  return fits ? CORE_OK : CORE_NO_SPACE;
}

static enum core_status prepare(struct core *core, struct core_result *result, struct prepared *prepared) {
  size_t events = 0, puts = 0, answer = 0;
  for (size_t i = 0; i < result->num_responses; i++) {
    const struct core_op *op = &result->ops[i];
    if (op->kind == CORE_PUT) {
      enum core_status status = prepare_put(core, op, &prepared[i]);
      if (status != CORE_OK)
        return status;
      puts++;
      events++;
    } else if (op->kind == CORE_DELETE) {
      events += core_keys_count(&core->keys, &op->range);
    }
    size_t most = max_records(core, op, puts);
    answer += most > 0 ? answer_size(core, op) : 0;
    if (answer > CORE_MAX_ANSWER)
      return CORE_LARGE_ANSWER;
    if (most > 0 && !(result->responses[i].records = malloc(most * sizeof(struct core_record *))))
      return CORE_NO_MEMORY;
  }
  enum core_status status = check_space(core, result, prepared);
  if (status == CORE_OK)
    status = check_revisions(core, result);
  return status != CORE_OK || core_history_reserve(&core->history, events) ? status : CORE_NO_MEMORY;
}

static void answer_with(struct core_response *response, struct core_record *record) {
  response->records[response->num_records++] = core_record_ref(record);
}

static void put(struct core *core, const struct core_op *op, struct prepared *prepared,
                struct core_response *response) {
  struct core_node *node = core_keys_find(&core->keys, op->range.key);
  if (node && op->prev_kv)
    answer_with(response, node->record);
  struct core_lease *lease = op->ignore_lease ? node->lease : core_lease_find(core, op->lease);
  prepared->node = core_change_put(core, prepared->record, lease, prepared->node);
  prepared->record = NULL;
}

static void delete (struct core *core, const struct core_op *op, struct core_response *response) {
  struct core_node *next;
  for (struct core_node *node = core_keys_first(&core->keys, &op->range); node; node = next) {
    next = core_keys_next(node, &op->range);
    if (op->prev_kv)
      answer_with(response, node->record);
    core_change_delete(core, node);
    response->count++;
  }
}

static void range(struct core *core, const struct core_op *op, struct core_response *response) {
  struct core_node *node = core_keys_first(&core->keys, &op->range);
  for (; node; node = core_keys_next(node, &op->range)) {
    response->count++;
    if (op->count_only)
      continue;
    if (op->limit > 0 && response->num_records >= (uint64_t)op->limit)
      response->more = true;
    else
      answer_with(response, node->record);
  }
}

static void apply(struct core *core, struct core_result *result, struct prepared *prepared) {
  uint64_t begin = core->history.end;
  for (size_t i = 0; i < result->num_responses; i++) {
    const struct core_op *op = &result->ops[i];
    struct core_response *response = &result->responses[i];
    if (op->kind == CORE_PUT)
      put(core, op, &prepared[i], response);
    else if (op->kind == CORE_DELETE)
      delete (core, op, response);
    else
      range(core, op, response);
    response->revision = core->revision + (core->history.end > begin);
  }
  core_commit(core, begin);
  result->revision = core->revision;
}

// `room`: for the answer of one operation; NULL: it is allocated, whatever it takes.
static enum core_status run(struct core *core, const struct core_txn *txn, struct core_response *room,
                            struct core_result *out) {
  enum core_status status = check(txn);
  if (status != CORE_OK)
    return status;
  struct core_result result = {.succeeded = true};
  for (size_t i = 0; i < txn->num_compares && result.succeeded; i++)
    result.succeeded = holds(core, &txn->compares[i]);
  result.ops = result.succeeded ? txn->success : txn->failure;
  result.num_responses = result.succeeded ? txn->num_success : txn->num_failure;

  struct prepared prepared[CORE_MAX_TXN_OPS];
  memset(prepared, 0, result.num_responses * sizeof *prepared);
  result.responses = room ? room : calloc(result.num_responses + 1, sizeof *result.responses); // never of size 0
  status = result.responses ? prepare(core, &result, prepared) : CORE_NO_MEMORY;
  if (status == CORE_OK)
    apply(core, &result, prepared);
  for (size_t i = 0; i < result.num_responses; i++) { // unused records
    core_record_unref(prepared[i].record);
    free(prepared[i].node);
  }
  if (status == CORE_OK)
    *out = result;
  else if (!room)
    core_result_free(&result);
  return status;
}

enum core_status core_txn(struct core *core, const struct core_txn *txn, struct core_result *out) {
  return run(core, txn, NULL, out);
}

enum core_status core_apply(struct core *core, const struct core_op *op, struct core_response *out) {
  struct core_result result;
  struct core_response response = {0};
  enum core_status status = run(core, &(struct core_txn){.success = op, .num_success = 1}, &response, &result);
  if (status == CORE_OK)
    *out = response;
  return status;
}

enum core_status core_run(struct core *core, const struct core_op *op, struct core_result *out) {
  return core_txn(core, &(struct core_txn){.success = op, .num_success = 1}, out);
}

void core_result_free(struct core_result *result) {
  for (size_t i = 0; result->responses && i < result->num_responses; i++)
    core_records_free(result->responses[i].records, result->responses[i].num_records);
  free(result->responses);
  *result = (struct core_result){0};
}
