// Errors of an HTTP answer of the gateway, as errors of Weft.
#include "store/client/status.h"

#include "base/fail.h"
#include "store/client/json.h"
#include <string.h>

// gRPC status codes, which the gateway puts into "code" (grpc.github.io/grpc/core/md_doc_statuscodes.html).
enum {
  GRPC_CANCELLED = 1,
  GRPC_UNKNOWN = 2,
  GRPC_INVALID_ARGUMENT = 3,
  GRPC_DEADLINE_EXCEEDED = 4,
  GRPC_NOT_FOUND = 5,
  GRPC_PERMISSION_DENIED = 7,
  GRPC_RESOURCE_EXHAUSTED = 8,
  GRPC_FAILED_PRECONDITION = 9,
  GRPC_OUT_OF_RANGE = 11,
  GRPC_UNIMPLEMENTED = 12,
  GRPC_INTERNAL = 13,
  GRPC_UNAVAILABLE = 14,
  GRPC_UNAUTHENTICATED = 16,
};

// etcd uses one gRPC code for several kinds of failures; their texts, which are part of its API, distinguish them.
static const struct {
  const char *text;
  int err;
  enum client_remedy remedy;
  const char *advice;
} known[] = {
    {"invalid auth token", WEFT_ERR_AUTH, CLIENT_NEW_TOKEN, "; give the token that the server was started with"},
    {"revision of auth store is old", WEFT_ERR_AUTH, CLIENT_NEW_TOKEN, ""},
    {"user name is empty", WEFT_ERR_AUTH, CLIENT_FINAL, "; this etcd requires a user and a password"},
    {"permission denied", WEFT_ERR_AUTH, CLIENT_FINAL, "; check the store's user and its roles"},
    {"authentication failed", WEFT_ERR_AUTH, CLIENT_FINAL, "; check the store user and password"},
    {"authentication is not enabled", WEFT_ERR_AUTH, CLIENT_FINAL, "; leave the store user and password out"},
    // These members refuse a request before they handle it.
    {"not supported for learner", WEFT_ERR_UNREACHABLE, CLIENT_ELSEWHERE, "; want the endpoint of a voting member"},
    {"etcdserver: no leader", WEFT_ERR_UNREACHABLE, CLIENT_ELSEWHERE, ""},
    {"etcdserver: too many requests", WEFT_ERR_UNREACHABLE, CLIENT_ELSEWHERE, ""},
    {"required revision has been compacted", WEFT_ERR_COMPACTED, CLIENT_FINAL, ""},
    {"future revision", WEFT_ERR_INVALID, CLIENT_FINAL, ""},
    {"too large lease TTL", WEFT_ERR_INVALID, CLIENT_FINAL, ""},
    {"too many operations in txn request", WEFT_ERR_LIMIT, CLIENT_FINAL, ""},
    {"request is too large", WEFT_ERR_LIMIT, CLIENT_FINAL, ""},
};

static int code_of_grpc(int code, enum client_remedy *remedy) {
  *remedy = CLIENT_FINAL;
  switch (code) {
  case GRPC_INVALID_ARGUMENT:
  case GRPC_FAILED_PRECONDITION:
    return WEFT_ERR_INVALID;
  case GRPC_NOT_FOUND:
    return WEFT_ERR_NOT_FOUND;
  case GRPC_PERMISSION_DENIED:
  case GRPC_UNAUTHENTICATED:
    return WEFT_ERR_AUTH;
  case GRPC_RESOURCE_EXHAUSTED:
    return WEFT_ERR_LIMIT;
  case GRPC_OUT_OF_RANGE:
    return WEFT_ERR_COMPACTED;
  case GRPC_UNIMPLEMENTED:
    return WEFT_ERR_UNSUPPORTED;
  case GRPC_DEADLINE_EXCEEDED:
    *remedy = CLIENT_MAYBE;
    return WEFT_ERR_TIMEOUT;
  case GRPC_CANCELLED: // a member that ends closes the connection between its gateway and its server
  case GRPC_UNKNOWN:
  case GRPC_INTERNAL:
  case GRPC_UNAVAILABLE:
    *remedy = CLIENT_MAYBE;
    return WEFT_ERR_UNREACHABLE;
  default:
    return WEFT_ERR_PROTOCOL;
  }
}

int client_status_grpc(const char *endpoint, int code, const char *message, enum client_remedy *remedy) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strstr(message, known[i].text)) {
      *remedy = known[i].remedy;
      return fail(known[i].err, "store %s: %.300s%s", endpoint, message, known[i].advice);
    }
  }
  int err = code_of_grpc(code, remedy);
  return fail(err, "store %s: %.300s%s", endpoint, message,
              err == WEFT_ERR_AUTH ? "; check the store's token, or user and password and their roles" : "");
}

int client_status_of_text(const char *text) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strstr(text, known[i].text))
      return known[i].err;
  return WEFT_ERR_UNREACHABLE;
}

// Unary calls: {"error":"...","message":"...","code":14}, in which newer gateways leave "error" out. Streams:
// {"error":{"grpc_code":14,"message":"..."}} of etcd up to 3.5, {"error":{"code":14,"message":"..."}} from 3.6 on (and
// Debian's 3.5, which has its grpc-gateway).
bool client_status_read(const json_t *answer, int64_t *code, const char **text) {
  const json_t *error = json_object_get(answer, "error");
  const json_t *from = json_is_object(error) ? error : answer;
  *text = json_string_value(json_object_get(from, "message"));
  if (!*text)
    *text = json_string_value(error);
  const char *name = json_object_get(from, "grpc_code") ? "grpc_code" : "code";
  return client_json_int(from, name, code) == 0 && *text;
}

// An answer that does not come from the gateway's own code: a proxy, or another program.
static int fail_plain(const char *endpoint, const char *path, long status, enum client_remedy *remedy) {
  *remedy = status >= 500 ? CLIENT_MAYBE : CLIENT_FINAL;
  if (status >= 500)
    return fail(WEFT_ERR_UNREACHABLE, "store %s: HTTP status %ld", endpoint, status);
  if (status == 401 || status == 403)
    return fail(WEFT_ERR_AUTH, "store %s: HTTP status %ld; check the store's token", endpoint, status);
  return fail(WEFT_ERR_PROTOCOL, "store %s: HTTP status %ld for %s: neither etcd 3.4 or later nor a weft server",
              endpoint, status, path);
}

int client_status_fail(const char *endpoint, const char *path, long status, const char *body, size_t size,
                       enum client_remedy *remedy) {
  json_t *answer = NULL;
  int64_t code = 0;
  const char *message = NULL;
  bool read = client_json_parse(body, size, &answer) == 0 && client_status_read(answer, &code, &message);
  // etcd's own texts begin with "etcdserver: "; this one is its gateway's, for a path that it does not have.
  bool no_path = status == 404 && read && strcmp(message, "Not Found") == 0;
  int err = read && !no_path && code > 0 && code <= GRPC_UNAUTHENTICATED
                ? client_status_grpc(endpoint, (int)code, message, remedy)
                : fail_plain(endpoint, path, status, remedy);
  json_decref(answer);
  return err;
}
