// Converts the gateway's JSON to the core's operations. False: it is malformed; the reader's error says how.
#ifndef STORE_GATEWAY_READ_H
#define STORE_GATEWAY_READ_H

#include "store/gateway/json.h"

bool gateway_read_range(struct gateway_reader *reader, const json_t *object, struct core_op *out);
bool gateway_read_put(struct gateway_reader *reader, const json_t *object, struct core_op *out);
bool gateway_read_delete(struct gateway_reader *reader, const json_t *object, struct core_op *out);
bool gateway_read_txn(struct gateway_reader *reader, const json_t *object, struct core_txn *out);

#endif
