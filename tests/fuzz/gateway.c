// The embedded server without its sockets. An input is a session of pairs of lines: a path, and the body that is posted
// to it. "/v3/watch" opens a stream beside the others; a first line of digits lets that many milliseconds pass.
//
// Every answer is JSON, an error changes nothing, and the client understands every message of a stream.
#include "store/gateway/gateway.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/support/fuzz.h"
#include "store/client/stream.h"
#include "store/client/wire.h"
#include "store/gateway/watch.h"

enum { MAX_STREAMS = 4, MAX_REQUESTS = 64 };

struct session {
  struct gateway gateway;
  uint64_t now_ns;
  struct gateway_stream streams[MAX_STREAMS];
  size_t num_streams;
};

static void wake(struct gateway_stream *stream) {
  (void)stream; // read_streams() looks at all of them
}

// Every value of a body is an object; returns how many there are.
static size_t check_objects(const struct text *body) {
  size_t count = 0, place = 0;
  while (place < body->size && body->data[place] != '\0') {
    json_error_t error;
    json_t *json = json_loadb(body->data + place, body->size - place, JSON_DISABLE_EOF_CHECK, &error);
    FUZZ_CHECK(json_is_object(json));
    json_decref(json);
    place += (size_t)error.position;
    place += place < body->size && body->data[place] == '\n';
    count++;
  }
  return count;
}

// What the client makes of an answer to a range.
static void check_range(const struct text *body) {
  json_t *answer = json_loadb(body->data, body->size, 0, NULL);
  struct weft_store_list *list;
  int64_t revision;
  FUZZ_CHECK(client_wire_revision(answer, &revision) == 0);
  FUZZ_CHECK(client_wire_list(answer, "", true, revision, &list) == 0);
  for (size_t i = 0; i < list->count; i++) {
    const struct weft_store_kv *kv = list->kvs[i];
    FUZZ_CHECK(kv->create_revision > 0 && kv->create_revision <= kv->mod_revision && kv->mod_revision <= revision);
    const struct weft_store_kv *before = i ? list->kvs[i - 1] : NULL;
    FUZZ_CHECK(!before || core_bytes_order(before->key, before->key_len, kv->key, kv->key_len) < 0);
  }
  weft_store_list_free(list);
  json_decref(answer);
}

static void request(struct session *session, const char *path, const struct text *body) {
  struct gateway_reply reply = {0};
  struct core *core = session->gateway.core;
  int64_t before = core_revision(core);
  size_t leases = core_lease_count(core);
  const char *method = gateway_is_public(path) ? "GET" : "POST";
  gateway_handle(&session->gateway, session->now_ns, method, path, body, &reply);
  FUZZ_CHECK(reply.status >= 200 && reply.status < 600 && reply.content_type && !reply.body.failed);
  FUZZ_CHECK(core_revision(core) >= before);
  if (reply.status != 200)
    FUZZ_CHECK(core_revision(core) == before && core_lease_count(core) == leases);
  if (strcmp(reply.content_type, "application/json") == 0)
    FUZZ_CHECK(check_objects(&reply.body) > 0 || strstr(path, "keepalive"));
  if (reply.status == 200 && strcmp(path, "/v3/kv/range") == 0)
    check_range(&reply.body);
  text_free(&reply.body);
}

static void open_stream(struct session *session, const struct text *body) {
  if (session->num_streams == MAX_STREAMS)
    return;
  struct gateway_stream *stream = &session->streams[session->num_streams];
  *stream = (struct gateway_stream){.gateway = &session->gateway, .wake = wake};
  struct gateway_reply reply = {0};
  if (gateway_stream_open(stream, body, &reply)) {
    session->num_streams++;
  } else {
    FUZZ_CHECK(reply.status >= 400 && check_objects(&reply.body) == 1);
  }
  text_free(&reply.body);
}

// Each line is a message that the client takes.
static void check_lines(const struct text *lines) {
  const char *line = lines->data, *last = lines->data + lines->size;
  while (line < last) {
    const char *end = memchr(line, '\n', (size_t)(last - line));
    struct client_message message;
    FUZZ_CHECK(end && client_message_read(line, (size_t)(end - line), "here", "", &message) == 0);
    client_message_free(&message);
    line = end + 1;
  }
}

static void read_streams(struct session *session) {
  for (size_t i = 0; i < session->num_streams; i++) {
    struct gateway_stream *stream = &session->streams[i];
    gateway_stream_fill(stream);
    FUZZ_CHECK(!stream->broken);
    if (stream->out.size > 0)
      check_lines(&stream->out);
    text_free(&stream->out);
  }
}

static void pass_time(struct session *session, uint64_t ms) {
  session->now_ns += ms % 1000000 * 1000000;
  FUZZ_CHECK(core_lease_expire(session->gateway.core, session->now_ns) == CORE_OK);
  FUZZ_CHECK(core_lease_next_expiry(session->gateway.core) > session->now_ns);
}

static void close_session(struct session *session) {
  while (session->num_streams > 0)
    gateway_stream_close(&session->streams[--session->num_streams]);
  core_free(session->gateway.core);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {(const char *)data, size};
  struct core_limits limits = {
      .events = 16, .bytes = 4096, .live = 16384, .leases = 8}; // so that watches are overtaken
  struct session session = {.gateway = {.core = core_create(limits), .cluster_id = 1, .member_id = 2},
                            .now_ns = 1000000000};
  FUZZ_CHECK(session.gateway.core);
  char *path;
  for (size_t i = 0; i < MAX_REQUESTS && (path = fuzz_line(&input, NULL)); i++) {
    struct text body = {0};
    if (isdigit((unsigned char)*path)) {
      pass_time(&session, strtoull(path, NULL, 10));
    } else {
      body.data = fuzz_line(&input, &body.size);
      if (gateway_is_watch(path))
        open_stream(&session, &body);
      else
        request(&session, path, &body);
    }
    if (i % 4 == 3) // not after each: a reader that is slower than history gets an error
      read_streams(&session);
    free(body.data);
    free(path);
  }
  read_streams(&session);
  close_session(&session);
  return 0;
}
