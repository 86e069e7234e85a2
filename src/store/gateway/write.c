// The gateway's calls that write.
#include "store/gateway/write.h"

#include "store/base64.h"
#include <inttypes.h>

void gateway_write_end(struct text *out, char bracket) {
  if (out->size > 0 && out->data[out->size - 1] == ',')
    out->size--;
  text_add_bytes(out, &bracket, 1);
}

void gateway_write_int(struct text *out, const char *name, int64_t value) {
  if (value != 0)
    text_add(out, "\"%s\":\"%" PRId64 "\",", name, value);
}

void gateway_write_base64(struct text *out, const void *bytes, size_t size) {
  const char *in = bytes;
  char digits[BASE64_SIZE(768)];
  text_add_bytes(out, "\"", 1);
  while (size > 0) {
    size_t part = size < 768 ? size : 768; // a multiple of 3: padding comes only at the end
    base64_encode(digits, in, part);
    text_add_bytes(out, digits, BASE64_SIZE(part));
    in += part;
    size -= part;
  }
  text_add_bytes(out, "\"", 1);
}

static void write_bytes(struct text *out, const char *name, const char *bytes, size_t size) {
  if (size == 0)
    return;
  text_add(out, "\"%s\":", name);
  gateway_write_base64(out, bytes, size);
  text_add_bytes(out, ",", 1);
}

void gateway_write_header(struct text *out, const struct gateway *gateway, int64_t revision) {
  text_add(out, "\"header\":{\"cluster_id\":\"%" PRIu64 "\",\"member_id\":\"%" PRIu64 "\",", gateway->cluster_id,
           gateway->member_id);
  gateway_write_int(out, "revision", revision);
  gateway_write_int(out, "raft_term", 1); // one server: it was elected once
  gateway_write_end(out, '}');
  text_add_bytes(out, ",", 1);
}

static void write_record(struct text *out, const struct core_record *record, bool value) {
  text_add_bytes(out, "{", 1);
  write_bytes(out, "key", record->data, record->key_size);
  gateway_write_int(out, "create_revision", record->create_revision);
  gateway_write_int(out, "mod_revision", record->mod_revision);
  gateway_write_int(out, "version", record->version);
  if (value)
    write_bytes(out, "value", core_record_value(record), record->value_size);
  gateway_write_int(out, "lease", record->lease);
  gateway_write_end(out, '}');
  text_add_bytes(out, ",", 1);
}

// "name":{...}
static void write_kv(struct text *out, const char *name, const struct core_record *record) {
  text_add(out, "\"%s\":", name);
  write_record(out, record, true);
}

void gateway_write_event(struct text *out, const struct core_event *event, bool prev_kv) {
  text_add_bytes(out, "{", 1);
  if (event->now) {
    write_kv(out, "kv", event->now);
  } else {
    text_add(out, "\"type\":\"DELETE\",\"kv\":{");
    write_bytes(out, "key", event->prev->data, event->prev->key_size);
    gateway_write_int(out, "mod_revision", event->revision);
    gateway_write_end(out, '}');
    text_add_bytes(out, ",", 1);
  }
  if (prev_kv && event->prev)
    write_kv(out, "prev_kv", event->prev);
  gateway_write_end(out, '}');
  text_add_bytes(out, ",", 1);
}

static void write_records(struct text *out, const char *name, const struct core_response *response, bool values) {
  if (response->num_records == 0)
    return;
  text_add(out, "\"%s\":[", name);
  for (size_t i = 0; i < response->num_records; i++)
    write_record(out, response->records[i], values);
  gateway_write_end(out, ']');
  text_add_bytes(out, ",", 1);
}

void gateway_write_response(struct text *out, const struct core_op *op, const struct core_response *response) {
  switch (op->kind) {
  case CORE_PUT:
    if (response->num_records > 0)
      write_kv(out, "prev_kv", response->records[0]);
    break;
  case CORE_DELETE:
    gateway_write_int(out, "deleted", (int64_t)response->count);
    write_records(out, "prev_kvs", response, true);
    break;
  case CORE_RANGE:
    write_records(out, "kvs", response, !op->keys_only);
    if (response->more)
      text_add(out, "\"more\":true,");
    gateway_write_int(out, "count", (int64_t)response->count);
    break;
  }
}

void gateway_write_responses(struct text *out, const struct core_result *result) {
  static const char *const names[] = {
      [CORE_PUT] = "response_put", [CORE_DELETE] = "response_delete_range", [CORE_RANGE] = "response_range"};
  if (result->num_responses == 0)
    return;
  text_add(out, "\"responses\":[");
  for (size_t i = 0; i < result->num_responses; i++) {
    const struct core_response *response = &result->responses[i];
    text_add(out, "{\"%s\":{\"header\":{\"revision\":\"%" PRId64 "\"},", names[result->ops[i].kind],
             response->revision);
    gateway_write_response(out, &result->ops[i], response);
    gateway_write_end(out, '}');
    text_add(out, "},");
  }
  gateway_write_end(out, ']');
  text_add_bytes(out, ",", 1);
}
