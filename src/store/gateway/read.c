// The gateway's calls that read.
#include "store/gateway/read.h"

#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool read_range(struct gateway_reader *reader, const json_t *object, struct core_range *out) {
  return gateway_bytes(reader, object, "key", &out->key) && gateway_bytes(reader, object, "range_end", &out->end);
}

// Ascending order of keys is the only one implemented; a request for another one is refused.
static bool check_order(struct gateway_reader *reader, const json_t *object) {
  static const char *const orders[] = {"NONE", "ASCEND", "DESCEND"};
  static const char *const targets[] = {"KEY", "VERSION", "CREATE", "MOD", "VALUE"};
  static const char *const filters[] = {"min_mod_revision", "max_mod_revision", "min_create_revision",
                                        "max_create_revision"};
  size_t order, target;
  if (!gateway_enum(reader, object, "sort_order", orders, COUNT(orders), &order) ||
      !gateway_enum(reader, object, "sort_target", targets, COUNT(targets), &target))
    return false;
  if (order == 2 || target != 0) {
    snprintf(reader->error, sizeof reader->error, "weft: sorting is by KEY in order ASCEND only");
    return false;
  }
  for (size_t i = 0; i < COUNT(filters); i++) {
    int64_t bound;
    if (!gateway_int(reader, object, filters[i], &bound))
      return false;
    if (bound != 0) {
      snprintf(reader->error, sizeof reader->error, "weft: \"%s\" is not supported", filters[i]);
      return false;
    }
  }
  return true;
}

bool gateway_read_range(struct gateway_reader *reader, const json_t *object, struct core_op *out) {
  *out = (struct core_op){.kind = CORE_RANGE};
  bool serializable; // every answer is linearizable here
  return read_range(reader, object, &out->range) && gateway_int(reader, object, "limit", &out->limit) &&
         gateway_int(reader, object, "revision", &out->revision) && check_order(reader, object) &&
         gateway_bool(reader, object, "serializable", &serializable) &&
         gateway_bool(reader, object, "keys_only", &out->keys_only) &&
         gateway_bool(reader, object, "count_only", &out->count_only);
}

bool gateway_read_put(struct gateway_reader *reader, const json_t *object, struct core_op *out) {
  *out = (struct core_op){.kind = CORE_PUT};
  return gateway_bytes(reader, object, "key", &out->range.key) && gateway_bytes(reader, object, "value", &out->value) &&
         gateway_int(reader, object, "lease", &out->lease) && gateway_bool(reader, object, "prev_kv", &out->prev_kv) &&
         gateway_bool(reader, object, "ignore_value", &out->ignore_value) &&
         gateway_bool(reader, object, "ignore_lease", &out->ignore_lease);
}

bool gateway_read_delete(struct gateway_reader *reader, const json_t *object, struct core_op *out) {
  *out = (struct core_op){.kind = CORE_DELETE};
  return read_range(reader, object, &out->range) && gateway_bool(reader, object, "prev_kv", &out->prev_kv);
}

static bool read_compare(struct gateway_reader *reader, const json_t *object, struct core_compare *out) {
  static const char *const relations[] = {"EQUAL", "GREATER", "LESS", "NOT_EQUAL"};
  static const char *const targets[] = {"VERSION", "CREATE", "MOD", "VALUE", "LEASE"};
  static const char *const members[] = {"version", "create_revision", "mod_revision", "value", "lease"};
  size_t relation, target;
  if (!read_range(reader, object, &out->range) ||
      !gateway_enum(reader, object, "result", relations, COUNT(relations), &relation) ||
      !gateway_enum(reader, object, "target", targets, COUNT(targets), &target))
    return false;
  for (size_t i = 0, found = 0; i < COUNT(members); i++)
    if (gateway_has(object, members[i]) && ++found > 1) {
      snprintf(reader->error, sizeof reader->error, "weft: a comparison needs one value, not \"%s\" besides",
               members[i]);
      return false;
    }
  out->relation = (enum core_relation)relation;
  out->target = (enum core_target)target;
  if (out->target == CORE_VALUE)
    return gateway_bytes(reader, object, members[target], &out->value);
  return gateway_int(reader, object, members[target], &out->number);
}

static bool read_op(struct gateway_reader *reader, const json_t *object, struct core_op *out) {
  static const struct {
    const char *name;
    bool (*read)(struct gateway_reader *reader, const json_t *object, struct core_op *out);
  } kinds[] = {
      {"request_range", gateway_read_range},
      {"request_put", gateway_read_put},
      {"request_delete_range", gateway_read_delete},
  };
  const json_t *request = NULL, *nested;
  bool (*read)(struct gateway_reader * reader, const json_t *object, struct core_op *out) = NULL;
  size_t found = 0;
  for (size_t i = 0; i < COUNT(kinds); i++) {
    const json_t *given;
    if (!gateway_object(reader, object, kinds[i].name, &given))
      return false;
    if (given) {
      request = given;
      read = kinds[i].read;
      found++;
    }
  }
  if (!gateway_object(reader, object, "request_txn", &nested))
    return false;
  if (found == 1 && !nested)
    return read(reader, request, out);
  snprintf(reader->error, sizeof reader->error, "weft: %s",
           nested ? "a transaction within a transaction is not supported"
                  : "an operation needs one of request_range, request_put and request_delete_range");
  return false;
}

// An array's element that must be an object.
static const json_t *element(struct gateway_reader *reader, const json_t *array, size_t index, const char *name) {
  const json_t *value = json_array_get(array, index);
  if (json_is_object(value))
    return value;
  snprintf(reader->error, sizeof reader->error, "json: element %zu of \"%s\" must be an object", index, name);
  return NULL;
}

static bool read_ops(struct gateway_reader *reader, const json_t *txn, const char *name, const struct core_op **out,
                     size_t *count) {
  const json_t *array;
  if (!gateway_array(reader, txn, name, &array))
    return false;
  *count = json_array_size(array);
  struct core_op *ops = gateway_allocate(reader, *count, sizeof *ops);
  for (size_t i = 0; ops && i < *count; i++) {
    const json_t *op = element(reader, array, i, name);
    if (!op || !read_op(reader, op, &ops[i]))
      return false;
  }
  *out = ops;
  return ops != NULL;
}

static bool read_compares(struct gateway_reader *reader, const json_t *txn, struct core_txn *out) {
  const json_t *array;
  if (!gateway_array(reader, txn, "compare", &array))
    return false;
  size_t count = json_array_size(array);
  struct core_compare *compares = gateway_allocate(reader, count, sizeof *compares);
  for (size_t i = 0; compares && i < count; i++) {
    const json_t *compare = element(reader, array, i, "compare");
    if (!compare || !read_compare(reader, compare, &compares[i]))
      return false;
  }
  out->compares = compares;
  out->num_compares = count;
  return compares != NULL;
}

bool gateway_read_txn(struct gateway_reader *reader, const json_t *object, struct core_txn *out) {
  return read_compares(reader, object, out) && read_ops(reader, object, "success", &out->success, &out->num_success) &&
         read_ops(reader, object, "failure", &out->failure, &out->num_failure);
}
