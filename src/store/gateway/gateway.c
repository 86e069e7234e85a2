// Finds the call of etcd's gateway that a request makes, and answers it.
#include "store/gateway/gateway.h"

#include "store/gateway/read.h"
#include "store/gateway/write.h"
#include <string.h>
#include <weft/weft.h>

enum {
  GRPC_UNKNOWN = 2,
  GRPC_INVALID_ARGUMENT = 3,
  GRPC_NOT_FOUND = 5,
  GRPC_RESOURCE_EXHAUSTED = 8,
  GRPC_UNIMPLEMENTED = 12
};

static const char json_content[] = "application/json";
static const char plain_content[] = "text/plain; charset=utf-8";

// As grpc-gateway 2 maps them, which etcd 3.6 has.
static unsigned http_status(int grpc_code) {
  static const unsigned map[] = {200, 408, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401};
  return grpc_code >= 0 && (size_t)grpc_code < sizeof map / sizeof *map ? map[grpc_code] : 500;
}

// Adds a JSON string's inside.
static void add_escaped(struct text *out, const char *text) {
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      text_add(out, "\\%c", *text);
    else if ((unsigned char)*text < 0x20 || *text == 0x7f)
      text_add(out, "\\u%04x", (unsigned char)*text);
    else
      text_add_bytes(out, text, 1);
  }
}

// The body has the text twice: older clients read "error", which etcd 3.6 omits, newer ones "message".
void gateway_fail(struct gateway_reply *reply, int grpc_code, const char *text) {
  text_free(&reply->body);
  reply->status = http_status(grpc_code);
  reply->content_type = json_content;
  text_add(&reply->body, "{\"error\":\"");
  add_escaped(&reply->body, text);
  text_add(&reply->body, "\",\"message\":\"");
  add_escaped(&reply->body, text);
  text_add(&reply->body, "\",\"code\":%d}", grpc_code);
}

static void fail_status(struct gateway_reply *reply, enum core_status status) {
  gateway_fail(reply, core_status_grpc(status), core_status_text(status));
}

// The arguments of each handler.
struct request {
  struct gateway *gateway;
  uint64_t now_ns;
  struct gateway_reader reader; // its root is the request
  struct gateway_reply *reply;
};

static struct text *begin(struct request *request, int64_t revision) {
  struct text *out = &request->reply->body;
  text_add_bytes(out, "{", 1);
  gateway_write_header(out, request->gateway, revision);
  return out;
}

static void end(struct request *request) {
  gateway_write_end(&request->reply->body, '}');
}

static void bad_request(struct request *request) {
  gateway_fail(request->reply, GRPC_INVALID_ARGUMENT, request->reader.error);
}

static void run_op(struct request *request,
                   bool (*read)(struct gateway_reader *reader, const json_t *object, struct core_op *out)) {
  struct core_op op;
  if (!read(&request->reader, request->reader.root, &op)) {
    bad_request(request);
    return;
  }
  struct core_result result = {0};
  enum core_status status = core_run(request->gateway->core, &op, &result);
  if (status != CORE_OK) {
    fail_status(request->reply, status);
    return;
  }
  gateway_write_response(begin(request, result.revision), &op, &result.responses[0]);
  end(request);
  core_result_free(&result);
}

static void handle_range(struct request *request) {
  run_op(request, gateway_read_range);
}
static void handle_put(struct request *request) {
  run_op(request, gateway_read_put);
}
static void handle_delete(struct request *request) {
  run_op(request, gateway_read_delete);
}

static void handle_txn(struct request *request) {
  struct core_txn txn = {0};
  if (!gateway_read_txn(&request->reader, request->reader.root, &txn)) {
    bad_request(request);
    return;
  }
  struct core_result result = {0};
  enum core_status status = core_txn(request->gateway->core, &txn, &result);
  if (status != CORE_OK) {
    fail_status(request->reply, status);
    return;
  }
  struct text *out = begin(request, result.revision);
  if (result.succeeded)
    text_add(out, "\"succeeded\":true,");
  gateway_write_responses(out, &result);
  end(request);
  core_result_free(&result);
}

static void handle_grant(struct request *request) {
  int64_t id, ttl;
  const json_t *root = request->reader.root;
  if (!gateway_int(&request->reader, root, "ID", &id) || !gateway_int(&request->reader, root, "TTL", &ttl)) {
    bad_request(request);
    return;
  }
  struct core *core = request->gateway->core;
  enum core_status status = core_lease_grant(core, request->now_ns, &id, &ttl);
  if (status != CORE_OK) {
    fail_status(request->reply, status);
    return;
  }
  struct text *out = begin(request, core_revision(core));
  gateway_write_int(out, "ID", id);
  gateway_write_int(out, "TTL", ttl);
  end(request);
}

static void handle_revoke(struct request *request) {
  int64_t id;
  if (!gateway_int(&request->reader, request->reader.root, "ID", &id)) {
    bad_request(request);
    return;
  }
  enum core_status status = core_lease_revoke(request->gateway->core, id);
  if (status != CORE_OK) {
    fail_status(request->reply, status);
    return;
  }
  begin(request, core_revision(request->gateway->core));
  end(request);
}

static void handle_timetolive(struct request *request) {
  int64_t id;
  bool keys;
  const json_t *root = request->reader.root;
  if (!gateway_int(&request->reader, root, "ID", &id) || !gateway_bool(&request->reader, root, "keys", &keys)) {
    bad_request(request);
    return;
  }
  struct core *core = request->gateway->core;
  struct core_lease_state state = {.left_s = -1}; // etcd's answer for a lease that is not there
  enum core_status status = core_lease_state(core, request->now_ns, id, keys, &state);
  if (status != CORE_OK && status != CORE_LEASE_NOT_FOUND) {
    fail_status(request->reply, status);
    return;
  }
  struct text *out = begin(request, core_revision(core));
  gateway_write_int(out, "ID", id);
  gateway_write_int(out, "TTL", state.left_s);
  gateway_write_int(out, "grantedTTL", state.granted_s);
  if (state.num_keys > 0) {
    text_add(out, "\"keys\":[");
    for (size_t i = 0; i < state.num_keys; i++) {
      gateway_write_base64(out, state.keys[i]->data, state.keys[i]->key_size);
      text_add_bytes(out, ",", 1);
    }
    gateway_write_end(out, ']');
  }
  end(request);
  core_records_free(state.keys, state.num_keys);
}

static void handle_leases(struct request *request) {
  struct core *core = request->gateway->core;
  struct text *out = begin(request, core_revision(core));
  if (core_lease_count(core) > 0) {
    text_add(out, "\"leases\":[");
    for (size_t i = 0; i < core_lease_count(core); i++) {
      text_add_bytes(out, "{", 1);
      gateway_write_int(out, "ID", core_lease_id(core, i));
      gateway_write_end(out, '}');
      text_add_bytes(out, ",", 1);
    }
    gateway_write_end(out, ']');
  }
  end(request);
}

static void handle_keepalive(struct request *request) {
  int64_t id;
  if (!gateway_int(&request->reader, request->reader.root, "ID", &id)) {
    gateway_fail(request->reply, GRPC_UNKNOWN, request->reader.error);
    return;
  }
  struct core *core = request->gateway->core;
  int64_t ttl = 0; // none: it is not there
  enum core_status status = core_lease_keepalive(core, request->now_ns, id, &ttl);
  if (status != CORE_OK && status != CORE_LEASE_NOT_FOUND) {
    fail_status(request->reply, status);
    return;
  }
  text_add(&request->reply->body, "{\"result\":");
  struct text *out = begin(request, core_revision(core));
  gateway_write_int(out, "ID", id);
  gateway_write_int(out, "TTL", ttl);
  end(request);
  text_add(out, "}\n");
}

static void handle_version(struct request *request) {
  text_add(&request->reply->body, "{\"etcdserver\":\"weft %s\",\"etcdcluster\":\"3.5.0\"}", weft_version());
}

static void handle_health(struct request *request) {
  request->reply->content_type = plain_content;
  text_add(&request->reply->body, "{\"health\":\"true\",\"reason\":\"\"}");
}

enum route_kind {
  GET,    // no body
  UNARY,  // one request, one answer
  STREAM, // any number of requests in one body, an answer for each
};

static const struct route {
  const char *path;
  enum route_kind kind;
  void (*handle)(struct request *request);
} routes[] = {
    {"/version", GET, handle_version},
    {"/health", GET, handle_health},
    {"/v3/kv/range", UNARY, handle_range},
    {"/v3/kv/put", UNARY, handle_put},
    {"/v3/kv/deleterange", UNARY, handle_delete},
    {"/v3/kv/txn", UNARY, handle_txn},
    {"/v3/lease/grant", UNARY, handle_grant},
    {"/v3/lease/keepalive", STREAM, handle_keepalive},
    {"/v3/lease/revoke", UNARY, handle_revoke},
    {"/v3/kv/lease/revoke", UNARY, handle_revoke},
    {"/v3/lease/timetolive", UNARY, handle_timetolive},
    {"/v3/kv/lease/timetolive", UNARY, handle_timetolive},
    {"/v3/lease/leases", UNARY, handle_leases},
    {"/v3/kv/lease/leases", UNARY, handle_leases},
    {"/v3/watch", STREAM, NULL},
};

static const struct route *find_route(const char *path) {
  for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
    if (strcmp(routes[i].path, path) == 0)
      return &routes[i];
  return NULL;
}

bool gateway_is_watch(const char *path) {
  return strcmp(path, "/v3/watch") == 0;
}

bool gateway_is_public(const char *path) {
  const struct route *route = find_route(path);
  return route && route->kind == GET;
}

static void plain(struct gateway_reply *reply, unsigned status, const char *text) {
  reply->status = status;
  reply->content_type = plain_content;
  text_add(&reply->body, "%s\n", text);
}

// There is no such path, or it needs another method. Below /v3/ the answer is that of etcd's gateway.
static void refuse(struct gateway_reply *reply, const char *path, const struct route *route) {
  bool below = strncmp(path, "/v3/", 4) == 0;
  if (route && below)
    gateway_fail(reply, GRPC_UNIMPLEMENTED, "Method Not Allowed");
  else if (route)
    plain(reply, 405, "Method Not Allowed");
  else if (below)
    gateway_fail(reply, GRPC_NOT_FOUND, "Not Found");
  else
    plain(reply, 404, "404 page not found");
}

static size_t skip_space(const struct text *body, size_t place) {
  while (place < body->size && memchr(" \t\r\n", body->data[place], 4))
    place++;
  return place;
}

static void handle_messages(struct request *request, const struct route *route, const struct text *body) {
  size_t place = skip_space(body, 0);
  if (route->kind == UNARY && place == body->size) { // an empty body is an empty request
    request->reader.root = json_object();
    route->handle(request);
    return;
  }
  while (place < body->size && request->reply->status == 200) {
    if (!gateway_parse(&request->reader, body->data, body->size, &place)) {
      if (request->reply->body.size == 0) // else bytes behind a good message are ignored
        gateway_fail(request->reply, route->kind == UNARY ? GRPC_INVALID_ARGUMENT : GRPC_UNKNOWN,
                     request->reader.error);
      return;
    }
    route->handle(request);
    place = route->kind == UNARY ? body->size : skip_space(body, place);
  }
}

void gateway_handle(struct gateway *gateway, uint64_t now_ns, const char *method, const char *path,
                    const struct text *body, struct gateway_reply *reply) {
  const struct route *route = find_route(path);
  if (!route || strcmp(method, route->kind == GET ? "GET" : "POST") != 0) {
    refuse(reply, path, route);
    return;
  }
  *reply = (struct gateway_reply){.status = 200, .content_type = json_content};
  struct request request = {.gateway = gateway, .now_ns = now_ns, .reply = reply};
  if (route->kind == GET)
    route->handle(&request);
  else
    handle_messages(&request, route, body);
  gateway_reader_free(&request.reader);
  if (reply->body.failed)
    gateway_fail(reply, GRPC_RESOURCE_EXHAUSTED, core_status_text(CORE_NO_MEMORY));
}
