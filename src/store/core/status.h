// The results of the core, each with its error code of Weft and with the gRPC status and text of etcd.
#ifndef STORE_CORE_STATUS_H
#define STORE_CORE_STATUS_H

#include <weft/err.h>

// X(name, weft_err without its prefix, gRPC code, text). The texts are etcd's if etcd has the same case.
#define CORE_STATUS_MAP(X)                                                                                             \
  X(NO_MEMORY, NOMEM, 8, "weft: out of memory")                                                                        \
  X(EMPTY_KEY, INVALID, 3, "etcdserver: key is not provided")                                                          \
  X(KEY_NOT_FOUND, NOT_FOUND, 3, "etcdserver: key not found")                                                          \
  X(VALUE_PROVIDED, INVALID, 3, "etcdserver: value is provided")                                                       \
  X(LEASE_PROVIDED, INVALID, 3, "etcdserver: lease is provided")                                                       \
  X(DUPLICATE_KEY, INVALID, 3, "etcdserver: duplicate key given in txn request")                                       \
  X(TOO_MANY_OPS, LIMIT, 3, "etcdserver: too many operations in txn request")                                          \
  X(TOO_LARGE, LIMIT, 3, "etcdserver: request is too large")                                                           \
  X(FUTURE_REVISION, INVALID, 11, "etcdserver: mvcc: required revision is a future revision")                          \
  X(COMPACTED, COMPACTED, 11, "etcdserver: mvcc: required revision has been compacted")                                \
  X(PAST_REVISION, UNSUPPORTED, 12, "weft: a range can only be read at the present revision")                          \
  X(NO_SPACE, LIMIT, 8, "etcdserver: mvcc: database space exceeded")                                                   \
  X(LARGE_ANSWER, LIMIT, 8, "weft: the answer would be too large: ask for fewer keys")                                 \
  X(TOO_MANY_LEASES, LIMIT, 8, "weft: too many leases")                                                                \
  X(LEASE_NOT_FOUND, NOT_FOUND, 5, "etcdserver: requested lease not found")                                            \
  X(LEASE_EXISTS, EXISTS, 9, "etcdserver: lease already exists")                                                       \
  X(LEASE_TTL_TOO_LARGE, INVALID, 11, "etcdserver: too large lease TTL")

enum core_status {
  CORE_OK = 0,
#define CORE_STATUS_NAME(name, err, grpc, text) CORE_##name,
  CORE_STATUS_MAP(CORE_STATUS_NAME)
#undef CORE_STATUS_NAME
};

int core_status_err(enum core_status status);
int core_status_grpc(enum core_status status);
const char *core_status_text(enum core_status status);

#endif
