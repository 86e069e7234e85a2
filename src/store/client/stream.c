// Cuts the stream of a watch into its messages.
#include "store/client/stream.h"

#include "base/fail.h"
#include "store/client/json.h"
#include "store/client/status.h"
#include "store/client/wire.h"
#include "store/list.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_error(const json_t *message, const char *endpoint) {
  const char *text;
  int64_t code = 0;
  enum client_remedy remedy;
  if (!client_status_read(message, &code, &text) || code <= 0 || code > INT8_MAX)
    return fail(WEFT_ERR_PROTOCOL, "malformed message of a watch: an error without code or text");
  return client_status_grpc(endpoint, (int)code, text, &remedy);
}

static int read_header(const json_t *result, struct client_message *out) {
  const json_t *header;
  int err = client_json_object(result, "header", &header);
  if (!err)
    err = client_json_int(header, "revision", &out->revision);
  if (!err)
    err = client_json_uint(header, "cluster_id", &out->cluster);
  return err;
}

static int read_state(const json_t *result, struct client_message *out) {
  int err = client_json_bool(result, "created", &out->created);
  if (!err)
    err = client_json_bool(result, "canceled", &out->canceled);
  if (!err)
    err = client_json_bool(result, "fragment", &out->fragment);
  if (!err)
    err = client_json_int(result, "compact_revision", &out->compact_revision);
  const char *reason = json_string_value(json_object_get(result, "cancel_reason"));
  snprintf(out->reason, sizeof out->reason, "%s", reason ? reason : "no reason given");
  if (!err && out->created && (out->revision <= 0 || out->revision == INT64_MAX))
    err = fail(WEFT_ERR_PROTOCOL, "malformed message of a watch: created without a revision");
  return err;
}

// Checks the event that was added last.
static int check_event(const struct weft_store_list *events, const char *prefix) {
  const struct weft_store_kv *kv = events->kvs[events->count - 1];
  size_t size = strlen(prefix);
  if (kv->key_len < size || memcmp(kv->key, prefix, size) != 0)
    return fail(WEFT_ERR_PROTOCOL, "malformed message of a watch: an event of a key that does not begin with %s",
                prefix);
  const struct weft_store_kv *before = events->count > 1 ? events->kvs[events->count - 2] : NULL;
  if (before && kv->mod_revision < before->mod_revision)
    return fail(WEFT_ERR_PROTOCOL, "malformed message of a watch: revision %" PRId64 " after %" PRId64,
                kv->mod_revision, before->mod_revision);
  return 0;
}

static int read_event(const json_t *event, const char *prefix, struct client_message *out) {
  const char *type = json_string_value(json_object_get(event, "type"));
  if (type && strcmp(type, "PUT") != 0 && strcmp(type, "DELETE") != 0)
    return fail(WEFT_ERR_PROTOCOL, "malformed message of a watch: an event of unknown type");
  out->deleted[out->events->count] = type && *type == 'D';
  int err = client_wire_kv(json_object_get(event, "kv"), out->events);
  return err ? err : check_event(out->events, prefix);
}

static int read_events(const json_t *result, const char *prefix, struct client_message *out) {
  const json_t *events;
  int err = client_json_array(result, "events", &events);
  size_t count = err ? 0 : json_array_size(events);
  if (!err && !(out->events = store_list_create()))
    return WEFT_ERR_NOMEM;
  if (count && !(out->deleted = calloc(count, sizeof *out->deleted)))
    return fail(WEFT_ERR_NOMEM, "no memory for the events of a watch");
  for (size_t i = 0; !err && i < count; i++)
    err = read_event(json_array_get(events, i), prefix, out);
  return err;
}

int client_message_read(const char *line, size_t size, const char *endpoint, const char *prefix,
                        struct client_message *out) {
  struct client_message message = {0};
  json_t *object = NULL;
  int err = client_json_parse(line, size, &object);
  const json_t *result = json_object_get(object, "result");
  if (!err && json_object_get(object, "error"))
    err = read_error(object, endpoint);
  else if (!err && !json_is_object(result))
    err = fail(WEFT_ERR_PROTOCOL, "malformed message of a watch: no \"result\"");
  if (!err)
    err = read_header(result, &message);
  if (!err)
    err = read_state(result, &message);
  if (!err)
    err = read_events(result, prefix, &message);
  json_decref(object);
  if (err)
    client_message_free(&message);
  else
    *out = message;
  return err;
}

void client_message_free(struct client_message *message) {
  weft_store_list_free(message->events);
  free(message->deleted);
  *message = (struct client_message){0};
}
