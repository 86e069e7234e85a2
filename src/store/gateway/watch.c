// The gateway's watches, which answer as a stream.
#include "store/gateway/watch.h"

#include "store/gateway/json.h"
#include "store/gateway/write.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_WATCHES = 128,      // of one stream
  BATCH_EVENTS = 256,     // of one watch before the next one's turn
  BATCH_BYTES = 64 << 10, // a stream with so much to send takes no more
  GRPC_UNKNOWN = 2,
  GRPC_RESOURCE_EXHAUSTED = 8,
};

struct gateway_watch {
  struct gateway_stream *stream;
  struct core_watch core;
  int64_t id;
  bool prev_kv;
  bool no_put;
  bool no_delete;
  size_t size; // bytes of this
  TAILQ_ENTRY(gateway_watch) link;
  char bytes[]; // key and end
};

static void wake(struct core_watch *core) {
  struct gateway_watch *watch = (struct gateway_watch *)((char *)core - offsetof(struct gateway_watch, core));
  watch->stream->wake(watch->stream);
}

static void remove_watch(struct gateway_stream *stream, struct gateway_watch *watch) {
  core_watch_remove(stream->gateway->core, &watch->core);
  TAILQ_REMOVE(&stream->watches, watch, link);
  stream->num_watches--;
  stream->gateway->watch_bytes -= watch->size;
  free(watch);
}

static struct gateway_watch *find(struct gateway_stream *stream, int64_t id) {
  struct gateway_watch *watch;
  TAILQ_FOREACH(watch, &stream->watches, link)
  if (watch->id == id)
    return watch;
  return NULL;
}

static struct text *begin(struct gateway_stream *stream, int64_t revision, int64_t id) {
  text_add(&stream->out, "{\"result\":{");
  gateway_write_header(&stream->out, stream->gateway, revision);
  gateway_write_int(&stream->out, "watch_id", id);
  return &stream->out;
}

static void end(struct gateway_stream *stream) {
  gateway_write_end(&stream->out, '}');
  text_add(&stream->out, "}\n");
}

static void refuse(struct gateway_stream *stream, const char *reason) {
  struct text *out = begin(stream, core_revision(stream->gateway->core), -1);
  text_add(out, "\"created\":true,\"canceled\":true,\"cancel_reason\":\"%s\"", reason);
  end(stream);
}

struct create {
  struct core_range range;
  int64_t start_revision;
  int64_t watch_id;
  bool prev_kv;
  bool no_put;
  bool no_delete;
};

static bool read_create(struct gateway_reader *reader, const json_t *object, struct create *out) {
  static const char *const names[] = {"NOPUT", "NODELETE"};
  const json_t *filters;
  bool progress; // sent on request only
  if (!gateway_bytes(reader, object, "key", &out->range.key) ||
      !gateway_bytes(reader, object, "range_end", &out->range.end) ||
      !gateway_int(reader, object, "start_revision", &out->start_revision) ||
      !gateway_int(reader, object, "watch_id", &out->watch_id) ||
      !gateway_bool(reader, object, "prev_kv", &out->prev_kv) ||
      !gateway_bool(reader, object, "progress_notify", &progress) ||
      !gateway_array(reader, object, "filters", &filters))
    return false;
  for (size_t i = 0; i < json_array_size(filters); i++) {
    if (json_is_null(json_array_get(filters, i))) { // as a member it would be absent, and the first name stand for it
      snprintf(reader->error, sizeof reader->error, "json: element %zu of \"filters\" is null", i);
      return false;
    }
    json_t *one = json_pack("{sO}", "filters", json_array_get(filters, i));
    size_t filter;
    bool read = gateway_enum(reader, one, "filters", names, 2, &filter);
    json_decref(one);
    if (!read)
      return false;
    *(filter == 0 ? &out->no_put : &out->no_delete) = true;
  }
  if (out->range.key.size == 0)
    out->range.key = (struct core_bytes){"", 1}; // the lowest key: one NUL byte
  return true;
}

static bool is_empty(const struct core_range *range) {
  bool unbounded = range->end.size == 1 && range->end.data[0] == '\0';
  return range->end.size > 0 && !unbounded &&
         core_bytes_order(range->key.data, range->key.size, range->end.data, range->end.size) >= 0;
}

static void add_watch(struct gateway_stream *stream, const struct create *create) {
  size_t key_size = create->range.key.size, end_size = create->range.end.size;
  size_t size = sizeof(struct gateway_watch) + key_size + end_size + 1;
  struct gateway_watch *watch = calloc(1, size);
  if (!watch) {
    stream->broken = true;
    return;
  }
  memcpy(watch->bytes, create->range.key.data, key_size);
  memcpy(watch->bytes + key_size, create->range.end.data, end_size);
  watch->stream = stream;
  watch->size = size;
  stream->gateway->watch_bytes += size;
  watch->id = create->watch_id;
  while (create->watch_id == 0 && find(stream, watch->id))
    watch->id++;
  watch->prev_kv = create->prev_kv;
  watch->no_put = create->no_put;
  watch->no_delete = create->no_delete;
  watch->core.range.key = (struct core_bytes){watch->bytes, key_size};
  watch->core.range.end = (struct core_bytes){watch->bytes + key_size, end_size};
  watch->core.wake = wake;
  TAILQ_INSERT_TAIL(&stream->watches, watch, link);
  stream->num_watches++;
  core_watch_add(stream->gateway->core, &watch->core, create->start_revision);
  text_add(begin(stream, core_revision(stream->gateway->core), watch->id), "\"created\":true");
  end(stream);
}

static void create_watch(struct gateway_stream *stream, const struct create *create) {
  if (is_empty(&create->range))
    refuse(stream, "mvcc: watcher range is empty");
  else if (create->watch_id != 0 && find(stream, create->watch_id))
    refuse(stream, "mvcc: duplicate watch ID provided on the WatchStream");
  else if (stream->num_watches >= MAX_WATCHES)
    refuse(stream, "weft: too many watches on one stream");
  else if (stream->gateway->watch_bytes + create->range.key.size + create->range.end.size > GATEWAY_MAX_WATCHES)
    refuse(stream, "weft: too many watches");
  else
    add_watch(stream, create);
}

static bool handle_message(struct gateway_stream *stream, struct gateway_reader *reader) {
  const json_t *request;
  if (!gateway_object(reader, reader->root, "create_request", &request))
    return false;
  if (request) {
    struct create create = {.watch_id = 0};
    if (!read_create(reader, request, &create))
      return false;
    create_watch(stream, &create);
    return true;
  }
  if (!gateway_object(reader, reader->root, "cancel_request", &request))
    return false;
  if (request) {
    int64_t id;
    if (!gateway_int(reader, request, "watch_id", &id))
      return false;
    struct gateway_watch *watch = find(stream, id);
    if (watch) {
      remove_watch(stream, watch);
      text_add(begin(stream, core_revision(stream->gateway->core), id), "\"canceled\":true");
      end(stream);
    }
    return true;
  }
  if (!gateway_object(reader, reader->root, "progress_request", &request))
    return false;
  if (request) {
    begin(stream, core_revision(stream->gateway->core), -1);
    end(stream);
  }
  return true;
}

bool gateway_stream_open(struct gateway_stream *stream, const struct text *body, struct gateway_reply *reply) {
  TAILQ_INIT(&stream->watches);
  struct gateway_reader reader = {0};
  bool good = true;
  for (size_t place = 0; good && place < body->size;) {
    if (memchr(" \t\r\n", body->data[place], 4)) {
      place++;
      continue;
    }
    good = gateway_parse(&reader, body->data, body->size, &place) && handle_message(stream, &reader);
  }
  if (!good && !TAILQ_EMPTY(&stream->watches))
    good = true; // bytes behind a good message are ignored, as by etcd
  if (!good)
    gateway_fail(reply, GRPC_UNKNOWN, reader.error);
  if (stream->broken || stream->out.failed) {
    good = false;
    gateway_fail(reply, GRPC_RESOURCE_EXHAUSTED, core_status_text(CORE_NO_MEMORY));
  }
  gateway_reader_free(&reader);
  if (!good)
    gateway_stream_close(stream);
  return good;
}

static void write_events(struct gateway_stream *stream, struct gateway_watch *watch, const struct core_events *events) {
  struct text *out = NULL;
  for (size_t i = 0; i < events->count; i++) {
    const struct core_event *event = &events->items[i];
    if (event->now ? watch->no_put : watch->no_delete)
      continue;
    if (!out) { // a client may continue after the header's revision: it must not be beyond the sent events
      int64_t last = events->items[events->count - 1].revision;
      out = begin(stream, watch->core.pending ? last : core_revision(stream->gateway->core), watch->id);
      text_add(out, "\"events\":[");
    }
    gateway_write_event(out, event, watch->prev_kv);
  }
  if (out) {
    gateway_write_end(out, ']');
    end(stream);
  }
}

static void take(struct gateway_stream *stream, struct gateway_watch *watch) {
  struct core_events events = {0};
  enum core_status status = core_watch_take(stream->gateway->core, &watch->core, BATCH_EVENTS, &events);
  if (status == CORE_OK) {
    write_events(stream, watch, &events);
  } else if (status == CORE_COMPACTED) {
    struct text *out = begin(stream, 0, watch->id);
    text_add(out, "\"canceled\":true,");
    gateway_write_int(out, "compact_revision", core_oldest_revision(stream->gateway->core));
    end(stream);
    remove_watch(stream, watch);
  } else {
    stream->broken = true;
  }
  core_events_clear(&events);
}

// One batch of each watch. True: one of them has more.
static bool fill_once(struct gateway_stream *stream) {
  bool more = false;
  for (size_t turns = stream->num_watches; turns > 0 && stream->out.size < BATCH_BYTES; turns--) {
    struct gateway_watch *watch = TAILQ_FIRST(&stream->watches);
    TAILQ_REMOVE(&stream->watches, watch, link); // to the end: each gets its turn
    TAILQ_INSERT_TAIL(&stream->watches, watch, link);
    size_t watches = stream->num_watches;
    if (watch->core.pending)
      take(stream, watch);
    more |= stream->num_watches == watches && watch->core.pending;
  }
  return more;
}

// A batch of which the filters leave nothing is followed by the next: nobody is woken for a watch that has more.
void gateway_stream_fill(struct gateway_stream *stream) {
  while (fill_once(stream) && stream->out.size == 0 && !stream->broken)
    ;
  if (stream->out.failed)
    stream->broken = true;
}

void gateway_stream_close(struct gateway_stream *stream) {
  struct gateway_watch *watch;
  while ((watch = TAILQ_FIRST(&stream->watches)))
    remove_watch(stream, watch);
  text_free(&stream->out);
}
