// One watch: opens its stream, delivers its events, and opens it again at the same revision after any interruption.
//
// No event is lost: `next` is the first revision that was not delivered as a whole, and every stream is opened from
// there. No event is delivered twice: events below `next` are skipped, and the first `begun` events of it. (etcd sends
// the events of a revision in the same order each time.) A stream that is silent for twice the request time limit is
// opened anew. That costs one request, loses nothing, and detects a connection that died without notice.
#include "base/fail.h"
#include "base/log.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "store/client/json.h"
#include "store/client/status.h"
#include "store/client/stream.h"
#include "store/client/watch.h"
#include "store/client/wire.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_BACKOFF_NS UINT64_C(10000000)
#define MAX_BACKOFF_NS UINT64_C(1000000000)

static const char *endpoint_of(const struct client_watch *watch) {
  return watch->watcher->client->endpoints[watch->endpoint];
}

static uint64_t request_time_ns(const struct client_watch *watch) {
  return watch->watcher->client->request_timeout_ms * UINT64_C(1000000);
}

static void stop_transfer(struct client_watch *watch) {
  if (watch->active)
    curl_multi_remove_handle(watch->watcher->multi, watch->handle);
  watch->active = false;
  client_transfer_end(&watch->transfer);
  text_wipe(&watch->body); // a request for a token has the password
  watch->scanned = 0;
}

static void say(struct client_watch *watch, enum weft_store_event_kind kind) {
  client_watch_deliver(watch, &(struct weft_store_event){.kind = kind, .revision = watch->seen});
}

// Ends the attempt or the stream, to begin another one after a while that doubles each time. Half of it is random, so
// that the clients of a store that is available again do not all connect at once.
static void retry(struct client_watch *watch) {
  stop_transfer(watch);
  uint64_t half = watch->backoff_ns / 2;
  watch->phase = CLIENT_WAITING;
  watch->due_ns = clock_ns() + half + random_mix(clock_ns() ^ (uintptr_t)watch) % (half + 1);
  watch->backoff_ns = watch->backoff_ns * 2 < MAX_BACKOFF_NS ? watch->backoff_ns * 2 : MAX_BACKOFF_NS;
}

// Informs the caller that waits for the watch why it was not opened: no endpoint could open it, or further attempts are
// useless.
static void report_failure(struct client_watch *watch, int err) {
  struct client_watcher *watcher = watch->watcher;
  bool may_pass = err == WEFT_ERR_UNREACHABLE || err == WEFT_ERR_TIMEOUT || err == WEFT_ERR_COMPACTED;
  if (may_pass && ++watch->attempts < watcher->client->num_endpoints)
    return;
  pthread_mutex_lock(&watcher->lock);
  watch->failure = err;
  snprintf(watch->failure_text, sizeof watch->failure_text, "%s", weft_last_error());
  pthread_cond_broadcast(&watcher->changed);
  pthread_mutex_unlock(&watcher->lock);
}

// The attempt or the stream has failed with `err`, the thread's last error. A token may have expired: the next attempt
// gets a new one.
static void cut(struct client_watch *watch, int err) {
  bool renews = err == WEFT_ERR_AUTH && watch->watcher->client->user && watch->phase != CLIENT_TOKEN && !watch->renewed;
  log_info("watch of %s: %s", watch->prefix, weft_last_error());
  if (!watch->established && !renews)
    report_failure(watch, err);
  if (watch->phase == CLIENT_FOLLOWING && clock_ns() - watch->opened_ns >= MAX_BACKOFF_NS)
    watch->backoff_ns = MIN_BACKOFF_NS;
  if (err == WEFT_ERR_AUTH)
    client_auth_forget(watch->watcher->client);
  if (!renews)
    client_endpoint_failed(watch->watcher->client, watch->endpoint);
  watch->renewed = renews;
  retry(watch);
  if (watch->established && !watch->lost) {
    watch->lost = true;
    say(watch, WEFT_STORE_EVENT_LOST);
  }
}

// Sends the content of `watch->body`.
static void send_request(struct client_watch *watch, enum client_phase phase, const char *path,
                         const char *authorization) {
  int err = watch->body.failed ? fail(WEFT_ERR_NOMEM, "no memory for a watch") : 0;
  if (!err && !watch->handle && !(watch->handle = client_http_handle(watch->watcher->client)))
    err = fail(WEFT_ERR_NOMEM, "no memory for a watch");
  if (!err)
    err = client_http_prepare(watch->handle, &watch->transfer, endpoint_of(watch), path, &watch->body, authorization);
  if (!err && curl_multi_add_handle(watch->watcher->multi, watch->handle) != CURLM_OK)
    err = fail(WEFT_ERR_NOMEM, "no memory for a watch");
  if (err) {
    cut(watch, err);
    return;
  }
  curl_easy_setopt(watch->handle, CURLOPT_PRIVATE, watch);
  watch->active = true;
  watch->phase = phase;
  watch->due_ns = clock_ns() + request_time_ns(watch);
}

static void ask_token(struct client_watch *watch) {
  int err = client_auth_request(watch->watcher->client, &watch->body);
  if (err)
    cut(watch, err);
  else
    send_request(watch, CLIENT_TOKEN, "/v3/auth/authenticate", "");
}

static void begin(struct client_watch *watch) {
  char authorization[CLIENT_MAX_TOKEN + 8];
  watch->endpoint = client_endpoint(watch->watcher->client);
  if (!client_auth_header(watch->watcher->client, endpoint_of(watch), authorization)) {
    ask_token(watch);
  } else if (watch->probe) {
    text_add(&watch->body, "{");
    client_wire_add_range(&watch->body, watch->prefix, true, 1);
    text_add(&watch->body, "}");
    send_request(watch, CLIENT_PROBING, "/v3/kv/range", authorization);
  } else {
    text_add(&watch->body, "{\"create_request\":{\"fragment\":true,");
    client_wire_add_key(&watch->body, watch->prefix, true);
    if (watch->next)
      text_add(&watch->body, ",\"start_revision\":\"%" PRId64 "\"", watch->next);
    text_add(&watch->body, "}}");
    watch->repeated = 0;
    // Not for a caller that waits for the watch: while a cluster elects a leader, it would get an error.
    watch->transfer.needs_leader = watch->established || watch->next;
    send_request(watch, CLIENT_OPENING, "/v3/watch", authorization);
  }
}

// Continues from the current revision, since the watch's own revisions are not available.
static void start_over(struct client_watch *watch) {
  watch->reset = true;
  watch->probe = false;
  watch->next = 0;
  watch->begun = 0;
  watch->seen = 0;
  watch->cluster = 0;
  retry(watch);
}

static void set_established(struct client_watch *watch) {
  struct client_watcher *watcher = watch->watcher;
  pthread_mutex_lock(&watcher->lock);
  watch->established = true;
  pthread_cond_broadcast(&watcher->changed);
  pthread_mutex_unlock(&watcher->lock);
}

// The stream was created, on a store that has reached the revision that this watch has seen: continues, or reports the
// difference.
static void follow(struct client_watch *watch, const struct client_message *message) {
  bool first = !watch->established;
  watch->phase = CLIENT_FOLLOWING;
  watch->opened_ns = clock_ns();
  watch->renewed = false;
  watch->cluster = message->cluster;
  watch->seen = message->revision;
  if (!watch->next)
    watch->next = message->revision + 1;
  if (watch->reset || watch->lost || first)
    say(watch, watch->reset ? WEFT_STORE_EVENT_RESET : WEFT_STORE_EVENT_RESUMED);
  watch->lost = watch->reset = false;
  if (first)
    set_established(watch);
}

static void take_created(struct client_watch *watch, const struct client_message *message) {
  if (watch->cluster && message->cluster != watch->cluster) {
    start_over(watch);
  } else if (message->revision < watch->seen) {
    // Either a member of a cluster lags behind, or the store began anew: a read through the leader shows which.
    watch->probe = true;
    retry(watch);
  } else {
    follow(watch, message);
  }
}

// Whether the event was delivered before; otherwise it counts as delivered from now on.
static bool is_known(struct client_watch *watch, int64_t revision) {
  if (revision < watch->next)
    return true;
  if (revision > watch->next) {
    watch->next = revision;
    watch->begun = watch->repeated = 0;
  }
  bool known = watch->repeated < watch->begun;
  if (!known)
    watch->begun++;
  watch->repeated++;
  return known;
}

static void take_events(struct client_watch *watch, const struct client_message *message) {
  for (size_t i = 0; i < message->events->count; i++) {
    const struct weft_store_kv *kv = message->events->kvs[i];
    if (is_known(watch, kv->mod_revision))
      continue;
    struct weft_store_event event = {.kind = message->deleted[i] ? WEFT_STORE_EVENT_DELETE : WEFT_STORE_EVENT_PUT,
                                     .kv = kv,
                                     .revision = kv->mod_revision};
    client_watch_deliver(watch, &event);
  }
  size_t count = message->events->count;
  if (count && message->events->kvs[count - 1]->mod_revision == watch->next && !message->fragment) {
    watch->next++;
    watch->begun = watch->repeated = 0;
  }
  if (watch->seen < watch->next - 1)
    watch->seen = watch->next - 1;
  if (message->events->count)
    watch->backoff_ns = MIN_BACKOFF_NS;
}

static void take_canceled(struct client_watch *watch, const struct client_message *message) {
  int err = client_status_of_text(message->reason);
  if (message->compact_revision > 0)
    start_over(watch);
  else if (err == WEFT_ERR_AUTH)
    cut(watch, fail(WEFT_ERR_AUTH, "store %s: watch of \"%s\" refused: %s; check the store's user and its roles",
                    endpoint_of(watch), watch->prefix, message->reason));
  else
    cut(watch, fail(WEFT_ERR_UNREACHABLE, "store %s: watch of \"%s\" ended: %s", endpoint_of(watch), watch->prefix,
                    message->reason));
}

static void take_line(struct client_watch *watch, const char *line, size_t size) {
  struct client_message message;
  int err = client_message_read(line, size, endpoint_of(watch), watch->prefix, &message);
  if (err) {
    if (err == WEFT_ERR_PROTOCOL)
      fail_context(err, "store %s", endpoint_of(watch));
    cut(watch, err);
    return;
  }
  if (message.canceled)
    take_canceled(watch, &message);
  else if (message.created && watch->phase == CLIENT_OPENING)
    take_created(watch, &message);
  else if (watch->phase == CLIENT_FOLLOWING)
    take_events(watch, &message);
  else
    cut(watch, fail(WEFT_ERR_PROTOCOL, "store %s: events of a watch that was not created", endpoint_of(watch)));
  client_message_free(&message);
}

static bool is_streaming(const struct client_watch *watch) {
  long status = 0;
  if (watch->phase != CLIENT_OPENING && watch->phase != CLIENT_FOLLOWING)
    return false;
  curl_easy_getinfo(watch->handle, CURLINFO_RESPONSE_CODE, &status);
  return status == 200;
}

// Handles the complete lines that were received.
static void take_lines(struct client_watch *watch) {
  struct text *in = &watch->transfer.body;
  size_t start = 0;
  while (is_streaming(watch) && watch->scanned < in->size) {
    char *end = memchr(in->data + watch->scanned, '\n', in->size - watch->scanned);
    size_t size = end ? (size_t)(end - in->data) - start : 0;
    watch->scanned = end ? start + size + 1 : in->size;
    if (size)
      take_line(watch, in->data + start, size); // may end the transfer, and empty `in`
    if (end)
      start = watch->scanned;
    if (watch->phase == CLIENT_FOLLOWING) // a part of a large message is no silence either
      watch->due_ns = clock_ns() + 2 * request_time_ns(watch);
  }
  if (start && in->size) {
    memmove(in->data, in->data + start, in->size - start);
    in->size -= start;
    watch->scanned -= start;
  }
}

// The complete answer to a plain request. After a failure there is no answer.
static int read_answer(struct client_watch *watch, json_t **answer) {
  const struct text *in = &watch->transfer.body;
  const char *data = in->data ? in->data : "";
  enum client_remedy remedy;
  long status = 0;
  curl_easy_getinfo(watch->handle, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200)
    return client_status_fail(endpoint_of(watch), "a watch", status, data, in->size, &remedy);
  if (watch->phase == CLIENT_OPENING || watch->phase == CLIENT_FOLLOWING)
    return fail(WEFT_ERR_UNREACHABLE, "store %s: the stream of the watch ended", endpoint_of(watch));
  return client_json_parse(data, in->size, answer);
}

void client_follow_done(struct client_watch *watch, CURLcode code) {
  json_t *answer = NULL;
  int64_t revision = 0;
  if (watch->transfer.too_big && watch->phase == CLIENT_FOLLOWING) { // it would be so each time: step over it
    start_over(watch);
    return;
  }
  int err =
      code == CURLE_OK ? read_answer(watch, &answer) : client_http_failure(code, &watch->transfer, endpoint_of(watch));
  if (!err && watch->phase == CLIENT_TOKEN)
    err = client_auth_answer(watch->watcher->client, answer);
  else if (!err)
    err = client_wire_revision(answer, &revision);
  json_decref(answer);
  if (err) {
    cut(watch, err);
  } else if (watch->phase == CLIENT_PROBING && revision < watch->seen) {
    start_over(watch);
  } else {
    if (watch->phase == CLIENT_PROBING)
      watch->probe = false;
    stop_transfer(watch);
    begin(watch);
  }
}

// The state's time is over.
static void take_due(struct client_watch *watch) {
  if (watch->phase == CLIENT_WAITING) {
    begin(watch);
  } else if (watch->phase == CLIENT_FOLLOWING) {
    stop_transfer(watch);
    begin(watch);
  } else {
    cut(watch, fail(WEFT_ERR_TIMEOUT, "store %s: no answer to a watch of \"%s\" within %" PRIu32 " ms",
                    endpoint_of(watch), watch->prefix, watch->watcher->client->request_timeout_ms));
  }
}

void client_follow_step(struct client_watch *watch, uint64_t now_ns) {
  if (watch->active)
    take_lines(watch);
  if (now_ns >= watch->due_ns)
    take_due(watch);
}

void client_follow_end(struct client_watch *watch) {
  stop_transfer(watch);
  if (watch->handle)
    curl_easy_cleanup(watch->handle);
}
