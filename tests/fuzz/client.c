// Answers of a server, and contents of requests. The first line names the kind: "list", "txn" and "message" come before
// an answer of a server; "request" before a key and a value that the client sends and the server must read unchanged;
// "bytes" before bytes that are encoded as base64; "servers" before a list of endpoints from a user.
#include <stdlib.h>
#include <string.h>

#include "fuzz/support/fuzz.h"
#include "store/base64.h"
#include "store/client/client.h"
#include "store/client/json.h"
#include "store/client/stream.h"
#include "store/client/wire.h"

enum { FILL = 0xA5 };

static const char prefix[] = "/weft/";

static void check_list(const struct weft_store_list *list) {
  FUZZ_CHECK(list->total >= list->count);
  for (size_t i = 0; i < list->count; i++) {
    const struct weft_store_kv *kv = list->kvs[i];
    FUZZ_CHECK(kv->key_len > 0 && kv->key[kv->key_len] == '\0' && kv->mod_revision > 0);
    FUZZ_CHECK(((const char *)kv->value)[kv->value_len] == '\0');
  }
}

static void read_list(const json_t *answer) {
  struct weft_store_list *list;
  memset(&list, FILL, sizeof list);
  int64_t revision = 0;
  if (client_wire_revision(answer, &revision) == 0)
    FUZZ_CHECK(revision > 0);
  if (client_wire_list(answer, prefix, true, 7, &list) != 0) {
    FUZZ_CHECK(fuzz_untouched(&list, FILL, sizeof list));
    return;
  }
  FUZZ_CHECK(list->revision == 7);
  for (size_t i = 0; i < list->count; i++)
    FUZZ_CHECK(strncmp(list->kvs[i]->key, prefix, sizeof prefix - 1) == 0);
  check_list(list);
  weft_store_list_free(list);
}

static const struct weft_store_op success[] = {
    {.kind = WEFT_STORE_PUT, .key = "/weft/a", .value = "1", .value_len = 1},
    {.kind = WEFT_STORE_DELETE, .key = "/weft/b"},
    {.kind = WEFT_STORE_RANGE, .key = "/weft/", .flags = WEFT_STORE_OP_PREFIX},
};
static const struct weft_store_op failure[] = {{.kind = WEFT_STORE_RANGE, .key = "/weft/a"}};
static const struct weft_store_txn txn = {.size = sizeof txn,
                                          .each_op = sizeof *success,
                                          .success = success,
                                          .num_success = 3,
                                          .failure = failure,
                                          .num_failure = 1};

static void read_txn(const json_t *answer) {
  struct weft_store_txn_result *result;
  memset(&result, FILL, sizeof result);
  if (client_wire_txn_result(answer, &txn, &result) != 0) {
    FUZZ_CHECK(fuzz_untouched(&result, FILL, sizeof result));
    return;
  }
  FUZZ_CHECK(result->revision > 0 && result->num_responses == (result->succeeded ? 3 : 1));
  for (size_t i = 0; i < result->num_responses; i++)
    if (result->ranges[i])
      check_list(result->ranges[i]);
  weft_store_txn_result_free(result);
}

static void read_message(const struct fuzz_input *input) {
  struct client_message message;
  memset(&message, FILL, sizeof message);
  if (client_message_read(input->data, input->size, "http://h:1", prefix, &message) != 0) {
    FUZZ_CHECK(fuzz_untouched(&message, FILL, sizeof message));
    return;
  }
  FUZZ_CHECK(!message.created || message.revision > 0);
  FUZZ_CHECK(memchr(message.reason, '\0', sizeof message.reason));
  for (size_t i = 0; message.events && i < message.events->count; i++) {
    const struct weft_store_kv *kv = message.events->kvs[i];
    FUZZ_CHECK(strncmp(kv->key, prefix, sizeof prefix - 1) == 0);
    FUZZ_CHECK(i == 0 || kv->mod_revision >= message.events->kvs[i - 1]->mod_revision);
  }
  client_message_free(&message);
}

static void check_bytes(const json_t *object, const char *name, const void *bytes, size_t size) {
  struct text read = {0};
  FUZZ_CHECK(client_json_bytes(object, name, &read) == 0);
  FUZZ_CHECK(read.size == size && (size == 0 || memcmp(read.data, bytes, size) == 0));
  text_free(&read);
}

static void write_request(struct fuzz_input *input) {
  char *key = fuzz_line(input, NULL);
  if (!key)
    return;
  struct weft_store_compare compare = {
      .key = key, .target = WEFT_STORE_VALUE, .value = input->data, .value_len = input->size};
  struct weft_store_op op = {.kind = WEFT_STORE_PUT, .key = key, .value = input->data, .value_len = input->size};
  struct weft_store_txn put = WEFT_STORE_TXN_INIT;
  put.compares = &compare;
  put.num_compares = 1;
  put.success = &op;
  put.num_success = 1;
  struct text body = {0};
  json_t *object;
  client_wire_add_txn(&body, &put);
  FUZZ_CHECK(!body.failed && client_json_parse(body.data, body.size, &object) == 0);
  const json_t *written = json_array_get(json_object_get(object, "success"), 0);
  check_bytes(json_object_get(written, "request_put"), "key", key, strlen(key));
  check_bytes(json_object_get(written, "request_put"), "value", input->data, input->size);
  check_bytes(json_array_get(json_object_get(object, "compare"), 0), "value", input->data, input->size);
  json_decref(object);
  text_free(&body);
  free(key);
}

// What is decoded is encoded as something that decodes to the same; bytes come back as they were.
static void pass_base64(const struct fuzz_input *input) {
  char *digits = malloc(BASE64_SIZE(input->size) + 1), *bytes = malloc(input->size + 1);
  size_t size;
  base64_encode(digits, input->data, input->size);
  FUZZ_CHECK(base64_decode(bytes, &size, digits, BASE64_SIZE(input->size)));
  FUZZ_CHECK(size == input->size && memcmp(bytes, input->data, size) == 0);
  bytes = realloc(bytes, input->size / 4 * 3 + 1);
  if (base64_decode(bytes, &size, input->data, input->size)) {
    char *again = malloc(size + 1);
    size_t size_again;
    FUZZ_CHECK(BASE64_SIZE(size) == input->size);
    base64_encode(digits, bytes, size);
    FUZZ_CHECK(base64_decode(again, &size_again, digits, BASE64_SIZE(size)));
    FUZZ_CHECK(size_again == size && memcmp(again, bytes, size) == 0);
    free(again);
  } else {
    FUZZ_CHECK(size <= input->size);
  }
  free(digits);
  free(bytes);
}

// Endpoints that are taken are URLs and nothing more, and are taken again as they were understood.
static void read_endpoints(const char *list) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  struct client client = {0}, again = {0};
  options.endpoints = list;
  if (client_options_set(&client, &options) == 0) {
    struct text written = {0};
    for (size_t i = 0; i < client.num_endpoints; i++) {
      FUZZ_CHECK(strncasecmp(client.endpoints[i], "http", 4) == 0);
      text_add(&written, "%s%s", i ? "," : "", client.endpoints[i]);
    }
    options.endpoints = written.data;
    FUZZ_CHECK(client_options_set(&again, &options) == 0 && again.num_endpoints == client.num_endpoints);
    for (size_t i = 0; i < client.num_endpoints; i++)
      FUZZ_CHECK(strcmp(client.endpoints[i], again.endpoints[i]) == 0);
    text_free(&written);
  }
  client_options_free(&client);
  client_options_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {(const char *)data, size};
  char *what = fuzz_line(&input, NULL);
  if (!what)
    return 0;
  json_t *answer = NULL;
  if (*what == 'm')
    read_message(&input);
  else if (*what == 'r')
    write_request(&input);
  else if (*what == 'b')
    pass_base64(&input);
  else if (*what == 's') {
    char *list = strndup(input.data, input.size);
    read_endpoints(list);
    free(list);
  } else if (client_json_parse(input.data, input.size, &answer) == 0)
    (*what == 't' ? read_txn : read_list)(answer);
  json_decref(answer);
  free(what);
  return 0;
}
