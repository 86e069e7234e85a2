// Pins the structs of store.h: made by scripts/pin-structs.py store.h
#include <stddef.h>

#include <weft/weft.h>

#define PIN_SIZE(type, bytes)          _Static_assert(sizeof(type) == (bytes), "the size of " #type " has changed")
#define PIN_FIELD(type, member, bytes) _Static_assert(offsetof(type, member) == (bytes), #type "." #member " has moved")

PIN_SIZE(struct weft_store_options, 72);
PIN_FIELD(struct weft_store_options, size, 0);
PIN_FIELD(struct weft_store_options, endpoints, 8);
PIN_FIELD(struct weft_store_options, ca_file, 16);
PIN_FIELD(struct weft_store_options, cert_file, 24);
PIN_FIELD(struct weft_store_options, key_file, 32);
PIN_FIELD(struct weft_store_options, user, 40);
PIN_FIELD(struct weft_store_options, password, 48);
PIN_FIELD(struct weft_store_options, token, 56);
PIN_FIELD(struct weft_store_options, connect_timeout_ms, 64);
PIN_FIELD(struct weft_store_options, request_timeout_ms, 68);

PIN_SIZE(struct weft_store_kv, 64);
PIN_FIELD(struct weft_store_kv, key, 0);
PIN_FIELD(struct weft_store_kv, value, 8);
PIN_FIELD(struct weft_store_kv, key_len, 16);
PIN_FIELD(struct weft_store_kv, value_len, 24);
PIN_FIELD(struct weft_store_kv, create_revision, 32);
PIN_FIELD(struct weft_store_kv, mod_revision, 40);
PIN_FIELD(struct weft_store_kv, version, 48);
PIN_FIELD(struct weft_store_kv, lease, 56);

PIN_SIZE(struct weft_store_list, 40);
PIN_FIELD(struct weft_store_list, kvs, 0);
PIN_FIELD(struct weft_store_list, count, 8);
PIN_FIELD(struct weft_store_list, total, 16);
PIN_FIELD(struct weft_store_list, revision, 24);
PIN_FIELD(struct weft_store_list, more, 32);
PIN_FIELD(struct weft_store_list, reserved, 36);

PIN_SIZE(struct weft_store_compare, 40);
PIN_FIELD(struct weft_store_compare, key, 0);
PIN_FIELD(struct weft_store_compare, target, 8);
PIN_FIELD(struct weft_store_compare, relation, 12);
PIN_FIELD(struct weft_store_compare, number, 16);
PIN_FIELD(struct weft_store_compare, value, 24);
PIN_FIELD(struct weft_store_compare, value_len, 32);

PIN_SIZE(struct weft_store_op, 48);
PIN_FIELD(struct weft_store_op, kind, 0);
PIN_FIELD(struct weft_store_op, flags, 4);
PIN_FIELD(struct weft_store_op, key, 8);
PIN_FIELD(struct weft_store_op, value, 16);
PIN_FIELD(struct weft_store_op, value_len, 24);
PIN_FIELD(struct weft_store_op, lease, 32);
PIN_FIELD(struct weft_store_op, limit, 40);
PIN_FIELD(struct weft_store_op, reserved, 44);

PIN_SIZE(struct weft_store_txn, 72);
PIN_FIELD(struct weft_store_txn, size, 0);
PIN_FIELD(struct weft_store_txn, each_compare, 8);
PIN_FIELD(struct weft_store_txn, each_op, 16);
PIN_FIELD(struct weft_store_txn, compares, 24);
PIN_FIELD(struct weft_store_txn, num_compares, 32);
PIN_FIELD(struct weft_store_txn, success, 40);
PIN_FIELD(struct weft_store_txn, num_success, 48);
PIN_FIELD(struct weft_store_txn, failure, 56);
PIN_FIELD(struct weft_store_txn, num_failure, 64);

PIN_SIZE(struct weft_store_txn_result, 40);
PIN_FIELD(struct weft_store_txn_result, num_responses, 0);
PIN_FIELD(struct weft_store_txn_result, ranges, 8);
PIN_FIELD(struct weft_store_txn_result, deleted, 16);
PIN_FIELD(struct weft_store_txn_result, revision, 24);
PIN_FIELD(struct weft_store_txn_result, succeeded, 32);
PIN_FIELD(struct weft_store_txn_result, reserved, 36);

PIN_SIZE(struct weft_store_event, 24);
PIN_FIELD(struct weft_store_event, kind, 0);
PIN_FIELD(struct weft_store_event, reserved, 4);
PIN_FIELD(struct weft_store_event, kv, 8);
PIN_FIELD(struct weft_store_event, revision, 16);

PIN_SIZE(struct weft_store_server_options, 48);
PIN_FIELD(struct weft_store_server_options, size, 0);
PIN_FIELD(struct weft_store_server_options, address, 8);
PIN_FIELD(struct weft_store_server_options, token, 16);
PIN_FIELD(struct weft_store_server_options, cert_file, 24);
PIN_FIELD(struct weft_store_server_options, key_file, 32);
PIN_FIELD(struct weft_store_server_options, flags, 40);
PIN_FIELD(struct weft_store_server_options, port, 44);
PIN_FIELD(struct weft_store_server_options, reserved, 46);
