// The bytes of a connection: the handshake, what is sent and received.
#include "agent/exchange/socket_connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "base/wire/wire.h"

enum {
  MAX_READS = 16,       // then it is the others' turn
  TLS_HANDSHAKE = 0x16, // the first byte of each connection (RFC 8446, 5.1)
};

static struct agent_meet *meet_of(const struct agent_talk *talk) {
  return talk->agent->meta->meet;
}

static void begin_step(struct agent_talk *talk, uint32_t ms) {
  meta_timer_set(talk->agent->meta, &talk->timer, clock_deadline_ms(ms));
}

// The time of a message begins with the first of it, and anew when one is `done`; nothing else that comes extends it.
static void mind_time(struct agent_talk *talk, bool done) {
  if (talk->state == TALK_OPEN && talk->in.size == 0 && talk->out.size == 0)
    wheel_cancel(&talk->agent->meta->wheel, &talk->timer.timer);
  else if (done || !wheel_is_set(&talk->timer.timer))
    begin_step(talk, TALK_MESSAGE_MS);
}

static void watch_for(struct agent_talk *talk, uint32_t events) {
  if (talk->state == TALK_ENDED || talk->watch.events == events)
    return;
  agent_watch_remove(talk->agent, &talk->watch);
  talk->watch.events = events;
  if (agent_watch_add(talk->agent, &talk->watch) != 0)
    talk_end(talk, WEFT_ERR_SYSTEM, "its socket cannot be watched");
}

static void watch_for_more(struct agent_talk *talk) {
  watch_for(talk, talk->out.size > 0 || talk->wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void set_life(struct agent_talk *talk, bool has) {
  struct agent_life *life = talk->peer != 0 && has && !talk->has_life ? liveness_of(talk->agent, talk->peer) : NULL;
  if (life) {
    LIST_INSERT_HEAD(&life->talks, talk, of_life);
    talk->has_life = true;
  } else if (!has && talk->has_life) {
    LIST_REMOVE(talk, of_life);
    talk->has_life = false;
  }
}

void talk_set_peer(struct agent_talk *talk, weft_peer_t peer) {
  talk->peer = peer;
  set_life(talk, true);
}

void talk_tell_caller(struct agent_talk *talk) {
  uint64_t one = 1;
  if (talk->done_fd >= 0 && write(talk->done_fd, &one, sizeof one) < 0)
    return; // it is readable already
}

void talk_end(struct agent_talk *talk, int err, const char *why) {
  if (talk->state == TALK_ENDED)
    return;
  struct agent_meet *meet = meet_of(talk);
  meet->num_half_open -= talk_is_half_open(talk);
  meet->num_taken -= !talk->caller;
  meet->held -= talk->in.size;
  talk_drop_shown(talk);
  bool known = talk->peer != 0 && talk->peer != WEFT_PEER_SELF && talk->has_life;
  struct agent_life *life = known ? liveness_of(talk->agent, talk->peer) : NULL;
  talk->state = TALK_ENDED;
  talk->err = err;
  snprintf(talk->why, sizeof talk->why, "%s", why);
  wheel_cancel(&meet->meta->wheel, &talk->timer.timer);
  agent_watch_remove(talk->agent, &talk->watch);
  tls_close(talk->tls);
  talk->tls = NULL;
  close(talk->watch.fd);
  talk->watch.fd = -1;
  set_life(talk, false);
  TAILQ_REMOVE(&meet->talks, talk, all);
  TAILQ_INSERT_TAIL(&meet->ended, talk, all);
  talk_tell_caller(talk);
  if (life && LIST_EMPTY(&life->talks)) // two that met each other have two
    agent_peer_end(talk->agent, talk->peer, err == 0 ? WEFT_AGENT_EVENT_PEER_LEFT : WEFT_AGENT_EVENT_PEER_LOST,
                   talk->why);
}

void talk_drop_shown(struct agent_talk *talk) {
  meet_of(talk)->held -= talk->shown.size;
  text_free(&talk->shown);
}

struct proof_parties talk_parties(const struct agent_talk *talk) {
  return (struct proof_parties){
      .own = &talk->agent->exchange, .other = talk->other_key, .own_calls = talk->caller, .tls = talk->tls};
}

void talk_free(struct agent_talk *talk) {
  TAILQ_REMOVE(&meet_of(talk)->ended, talk, all);
  if (talk->done_fd >= 0)
    close(talk->done_fd);
  text_free(&talk->in);
  text_free(&talk->out);
  free(talk);
}

// --- out ---

static void flush(struct agent_talk *talk) {
  while (talk->out_at < talk->out.size) {
    size_t sent = 0;
    int rc = tls_write(talk->tls, talk->out.data + talk->out_at, talk->out.size - talk->out_at, &sent);
    if (rc < 0) {
      talk_end(talk, WEFT_ERR_PEER_LOST, "its connection broke");
      return;
    }
    if (rc > 0) {
      mind_time(talk, false);
      watch_for_more(talk);
      return;
    }
    talk->out_at += sent;
  }
  text_free(&talk->out);
  talk->out_at = 0;
  mind_time(talk, true);
  watch_for_more(talk);
}

void talk_send(struct agent_talk *talk, enum talk_kind kind, const void *bytes, size_t size) {
  if (talk->state == TALK_ENDED)
    return;
  uint8_t head[TALK_HEAD];
  struct wire_writer writer = {.bytes = head, .capacity = sizeof head};
  wire_put_number(&writer, size + 1, 4);
  wire_put_number(&writer, kind, 1);
  text_add_bytes(&talk->out, head, sizeof head);
  text_add_bytes(&talk->out, bytes, size);
  if (talk->out.failed)
    talk_end(talk, WEFT_ERR_NOMEM, "no memory for a message to it");
  else
    flush(talk);
}

// What stands before the metadata in METADATA.
static int write_before(const struct agent_talk *talk, struct wire_writer *writer) {
  uint8_t proof[HMAC_SIZE];
  wire_put_number(writer, TALK_VERSION, 2);
  wire_put_number(writer, TALK_MINIMUM, 2);
  if (talk->caller)
    return 0;
  struct proof_parties parties = talk_parties(talk);
  int err = proof_make(&parties, false, proof);
  if (!err)
    wire_put(writer, proof, sizeof proof);
  return err;
}

// The content of a message: what `head` holds, and the metadata. The caller frees it.
static int write_metadata(const struct agent_description *description, const uint8_t *seal,
                          const struct wire_writer *head, uint8_t **content, size_t *size) {
  size_t before = head->at, blob_size = 0;
  agent_blob_write(description, seal, NULL, &blob_size);
  if (before + blob_size + 1 > TALK_MAX_MESSAGE)
    return fail(WEFT_ERR_LIMIT,
                "this agent's metadata has %zu bytes, and those who meet exchange at most %d: register "
                "fewer regions, or larger ones",
                blob_size, TALK_MAX_MESSAGE);
  uint8_t *bytes = malloc(before + blob_size);
  if (!bytes)
    return fail(WEFT_ERR_NOMEM, "no memory for metadata");
  memcpy(bytes, head->bytes, before);
  int err = agent_blob_write(description, seal, bytes + before, &blob_size);
  if (err) {
    free(bytes);
    return err;
  }
  *content = bytes;
  *size = before + blob_size;
  return 0;
}

int talk_send_metadata(struct agent_talk *talk, enum talk_kind kind) {
  uint8_t before[4 + HMAC_SIZE];
  struct wire_writer head = {.bytes = before, .capacity = sizeof before};
  struct agent_description *description;
  int err = kind == TALK_METADATA ? write_before(talk, &head) : 0;
  if (err)
    return err;
  talk->told = true; // a change from here on is told by an update
  err = agent_describe(talk->agent, NULL, 0, true, &description);
  if (err)
    return err;
  uint8_t *content = NULL;
  size_t size = 0;
  err = write_metadata(description, agent_seal(talk->agent), &head, &content, &size);
  free(description);
  if (err)
    return err;
  talk_send(talk, kind, content, size);
  free(content);
  return 0;
}

void talk_send_update(struct agent_talk *talk) {
  if (talk->state != TALK_OPEN || talk->out.size > 0 || !talk->update_due)
    return;
  talk->update_due = false;
  int err = talk_send_metadata(talk, TALK_UPDATE);
  if (err == WEFT_ERR_LIMIT)
    talk_end(talk, err, weft_last_error());
  else if (err)
    talk->update_due = true;
}

// --- in ---

static size_t held_by(const struct agent_talk *talk) {
  return talk->in.size + talk->shown.size;
}

// The connection that holds most of what all hold together ends.
static void end_largest(struct agent_meet *meet) {
  struct agent_talk *talk, *largest = NULL;
  TAILQ_FOREACH(talk, &meet->talks, all)
  if (!largest || held_by(talk) > held_by(largest))
    largest = talk;
  talk_end(largest, WEFT_ERR_LIMIT, "what others began to say took up too much memory");
}

// Takes the message that begins at `at` of what has come, and returns how many bytes it had. 0: it is not whole yet, or
// the connection has ended.
static size_t take_one(struct agent_talk *talk, size_t at) {
  struct wire_reader reader = {.bytes = (const uint8_t *)talk->in.data + at, .size = talk->in.size - at};
  if (reader.size < 4)
    return 0;
  uint64_t rest = wire_take_number(&reader, 4);
  if (rest < 1 || rest > TALK_MAX_MESSAGE) {
    talk_end(talk, WEFT_ERR_PROTOCOL, "it sent a message of a length that none has");
    return 0;
  }
  if (wire_left(&reader) < rest)
    return 0;
  enum talk_kind kind = (enum talk_kind)wire_take_number(&reader, 1);
  talk_take(talk, kind, wire_take(&reader, (size_t)rest - 1), (size_t)rest - 1);
  return talk->state == TALK_ENDED ? 0 : 4 + (size_t)rest;
}

// False: the connection has ended.
static bool take_bytes(struct agent_talk *talk, const uint8_t *bytes, size_t size) {
  struct agent_meet *meet = meet_of(talk);
  text_add_bytes(&talk->in, bytes, size);
  if (talk->in.failed) {
    talk_end(talk, WEFT_ERR_NOMEM, "no memory for a message from it");
    return false;
  }
  meet->held += size;
  size_t at = 0, taken;
  while ((taken = take_one(talk, at)) > 0)
    at += taken;
  if (talk->state == TALK_ENDED)
    return false;
  meet->held -= at;
  talk->in.size -= at;
  memmove(talk->in.data, talk->in.data + at, talk->in.size);
  if (talk->in.size == 0)
    text_free(&talk->in);
  mind_time(talk, at > 0);
  if (meet->held > TALK_MAX_HELD)
    end_largest(meet);
  return talk->state != TALK_ENDED;
}

static void receive(struct agent_talk *talk) {
  uint8_t bytes[TALK_READ];
  talk->wants_write = false;
  for (int i = 0; i < MAX_READS || tls_has_bytes(talk->tls); i++) {
    size_t size = 0;
    int rc = tls_read(talk->tls, bytes, sizeof bytes, &size);
    if (rc > 0) {
      talk->wants_write = rc == TLS_WANTS_WRITE;
      return;
    }
    if (rc < 0) {
      talk_end(talk, rc, rc == WEFT_ERR_PROTOCOL ? "a message came changed" : "it closed its connection");
      return;
    }
    if (!take_bytes(talk, bytes, size))
      return;
  }
}

// --- the handshake ---

// A caller that says nothing, or something else than TLS, costs no more than its place.
static bool open_tls(struct agent_talk *talk) {
  struct agent_meet *meet = meet_of(talk);
  uint8_t first = TLS_HANDSHAKE;
  ssize_t got = talk->caller ? 1 : recv(talk->watch.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  if (got <= 0 || first != TLS_HANDSHAKE) {
    talk_end(talk, got > 0 ? WEFT_ERR_PROTOCOL : WEFT_ERR_PEER_LOST, "it is no agent: it does not begin as one");
    return false;
  }
  if (tls_open(&talk->tls, talk->watch.fd, talk->caller, TALK_PROTOCOL, meet->key) == 0)
    return true;
  talk_end(talk, WEFT_ERR_NOMEM, weft_last_error());
  return false;
}

// Goes on with it; false: it is not over, or the connection has ended.
static bool shake_hands(struct agent_talk *talk) {
  if (!talk->tls && !open_tls(talk))
    return false;
  int rc = tls_handshake(talk->tls);
  if (rc > 0) {
    watch_for(talk, rc == TLS_WANTS_WRITE ? EPOLLIN | EPOLLOUT : EPOLLIN);
    return false;
  }
  if (rc < 0) {
    talk->was_cut = rc == WEFT_ERR_PEER_LOST;
    talk_end(talk, rc,
             rc == WEFT_ERR_AUTH ? "the two do not share one token, or it is no agent of this version"
                                 : "it hung up before it had shown the token");
    return false;
  }
  meet_of(talk)->num_half_open -= talk_is_half_open(talk);
  talk->state = TALK_WANTS_METADATA;
  begin_step(talk, TALK_MESSAGE_MS);
  talk_begin(talk);
  return talk->state != TALK_ENDED;
}

// False: it has ended.
static bool connected(struct agent_talk *talk) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(talk->watch.fd, SOL_SOCKET, SO_ERROR, &error, &size);
  talk->state = TALK_HANDSHAKE;
  if (error) {
    char why[AGENT_MAX_DETAIL];
    snprintf(why, sizeof why, "%s", strerror(error));
    talk_end(talk, WEFT_ERR_UNREACHABLE, why);
  }
  return !error;
}

static void ready(struct agent_watch *watch) {
  struct agent_talk *talk = watch->arg;
  if (talk->state == TALK_CONNECTING && !connected(talk))
    return;
  if (talk->state == TALK_HANDSHAKE && !shake_hands(talk))
    return;
  if (talk->out.size > 0)
    flush(talk);
  talk_send_update(talk);
  if (talk->state != TALK_ENDED)
    receive(talk);
  if (talk->state != TALK_ENDED)
    watch_for_more(talk);
}

static void step_over(struct meta_timer *timer, uint64_t now_ns) {
  (void)now_ns;
  struct agent_talk *talk = (struct agent_talk *)timer;
  talk_end(talk, talk->state == TALK_OPEN ? WEFT_ERR_PEER_LOST : WEFT_ERR_TIMEOUT, "it did not answer in time");
}

struct agent_talk *talk_start(struct agent_meta *meta, int fd, bool caller) {
  struct agent_talk *talk = calloc(1, sizeof *talk);
  if (!talk) {
    close(fd);
    return NULL;
  }
  talk->timer.fired = step_over;
  talk->agent = meta->agent;
  talk->caller = caller;
  talk->state = caller ? TALK_CONNECTING : TALK_HANDSHAKE;
  talk->done_fd = -1;
  talk->begun_ns = clock_ns();
  talk->watch = (struct agent_watch){.fd = fd, .events = caller ? EPOLLOUT : EPOLLIN, .ready = ready, .arg = talk};
  if (agent_watch_add(meta->agent, &talk->watch) != 0) {
    close(fd);
    free(talk);
    return NULL;
  }
  TAILQ_INSERT_TAIL(&meta->meet->talks, talk, all);
  meta->meet->num_half_open += !caller;
  meta->meet->num_taken += !caller;
  if (!caller) // the time of who calls is its caller's
    begin_step(talk, TALK_STEP_MS);
  return talk;
}
