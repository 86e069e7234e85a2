// The bytes of a connection: sends, receives, seals.
#include "agent/talk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/wire.h"

static void step_begins(struct agent_talk *talk) {
  meta_timer_set(talk->agent->meta, &talk->timer, clock_deadline_ms(TALK_STEP_MS));
}

static void watch_for(struct agent_talk *talk, uint32_t events) {
  if (talk->watch.events == events)
    return;
  agent_watch_remove(talk->agent, &talk->watch);
  talk->watch.events = events;
  if (agent_watch_add(talk->agent, &talk->watch) != 0)
    talk_end(talk, WEFT_ERR_SYSTEM, "its socket cannot be watched");
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
  struct agent_meet *meet = talk->agent->meta->meet;
  if (talk_is_half_open(talk))
    meet->num_half_open--;
  bool known = talk->peer != 0 && talk->peer != WEFT_PEER_SELF && talk->has_life;
  struct agent_life *life = known ? liveness_of(talk->agent, talk->peer) : NULL;
  talk->state = TALK_ENDED;
  talk->err = err;
  snprintf(talk->why, sizeof talk->why, "%s", why);
  wheel_cancel(&meet->meta->wheel, &talk->timer.timer);
  agent_watch_remove(talk->agent, &talk->watch);
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

// --- out ---

static int seal(const struct agent_talk *talk, bool by_caller, uint64_t number, const void *bytes, size_t size,
                uint8_t out[HMAC_SIZE]) {
  uint8_t counter[8];
  struct wire_writer writer = {.bytes = counter, .capacity = sizeof counter};
  wire_put_number(&writer, number, 8);
  const struct hmac_part parts[] = {{counter, sizeof counter}, {bytes, size}};
  return hmac_sha256(talk->keys[by_caller ? 0 : 1], HMAC_SIZE, parts, 2, out);
}

static void flush(struct agent_talk *talk) {
  bool moved = false;
  while (talk->out_at < talk->out.size) {
    ssize_t sent =
        send(talk->watch.fd, talk->out.data + talk->out_at, talk->out.size - talk->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && errno == EAGAIN) {
      if (moved || !wheel_is_set(&talk->timer.timer))
        step_begins(talk);
      watch_for(talk, EPOLLIN | EPOLLOUT);
      return;
    }
    if (sent < 0) {
      talk_end(talk, WEFT_ERR_PEER_LOST, "its connection broke");
      return;
    }
    talk->out_at += (size_t)sent;
    moved = talk->sealed;
  }
  text_free(&talk->out);
  talk->out_at = 0;
  if (talk->state == TALK_OPEN && talk->in.size == 0)
    wheel_cancel(&talk->agent->meta->wheel, &talk->timer.timer);
  watch_for(talk, EPOLLIN);
}

void talk_send(struct agent_talk *talk, enum talk_kind kind, const void *bytes, size_t size) {
  if (talk->state == TALK_ENDED)
    return;
  uint8_t head[TALK_HEAD], mac[HMAC_SIZE];
  struct wire_writer writer = {.bytes = head, .capacity = sizeof head};
  wire_put_number(&writer, size + 1 + (talk->sealed ? sizeof mac : 0), 4);
  wire_put_number(&writer, kind, 1);
  size_t begin = talk->out.size;
  text_add_bytes(&talk->out, head, sizeof head);
  text_add_bytes(&talk->out, bytes, size);
  if (talk->sealed && !talk->out.failed &&
      seal(talk, talk->caller, talk->num_sent++, talk->out.data + begin, talk->out.size - begin, mac) != 0)
    talk->out.failed = true;
  if (talk->sealed)
    text_add_bytes(&talk->out, mac, sizeof mac);
  if (talk->out.failed)
    talk_end(talk, WEFT_ERR_NOMEM, "no memory for a message to it");
  else if (talk->state != TALK_CONNECTING)
    flush(talk);
}

int talk_send_metadata(struct agent_talk *talk, enum talk_kind kind) {
  struct agent_description *description;
  int err = agent_describe(talk->agent, NULL, 0, true, &description);
  if (err)
    return err;
  size_t size = 0;
  agent_blob_write(description, NULL, &size);
  void *blob = malloc(size);
  err = blob ? agent_blob_write(description, blob, &size) : fail(WEFT_ERR_NOMEM, "no memory for metadata");
  if (!err)
    talk_send(talk, kind, blob, size);
  free(blob);
  free(description);
  return err;
}

void talk_send_update(struct agent_talk *talk) {
  if (talk->state == TALK_ENDED || talk->out.size > 0 || !talk->update_due)
    return;
  talk->update_due = false;
  if (talk_send_metadata(talk, TALK_UPDATE) != 0)
    talk->update_due = true;
}

// --- in ---

// Takes one message off the front of `in`. False: there is none whole, or the connection has ended.
static bool take_one(struct agent_talk *talk) {
  struct wire_reader reader = {.bytes = (const uint8_t *)talk->in.data, .size = talk->in.size};
  size_t seal_size = talk->sealed ? HMAC_SIZE : 0, most = talk->sealed ? TALK_MAX_MESSAGE : TALK_MAX_GREETING;
  if (talk->in.size < 4)
    return false;
  uint64_t rest = wire_take_number(&reader, 4);
  if (rest < 1 + seal_size || rest > most) {
    talk_end(talk, WEFT_ERR_PROTOCOL, "it sent a message of a length that none has");
    return false;
  }
  if (talk->in.size < 4 + rest)
    return false;
  size_t size = (size_t)rest - 1 - seal_size;
  enum talk_kind kind = (enum talk_kind)wire_take_number(&reader, 1);
  const uint8_t *content = wire_take(&reader, size);
  if (talk->sealed) {
    uint8_t mac[HMAC_SIZE];
    if (seal(talk, !talk->caller, talk->num_read++, talk->in.data, 4 + rest - seal_size, mac) != 0 ||
        !hmac_equal(mac, wire_take(&reader, HMAC_SIZE))) {
      talk_end(talk, WEFT_ERR_PROTOCOL, "a message came changed");
      return false;
    }
  }
  struct text whole = talk->in; // what the message says may lead to the end of the connection
  talk->in = (struct text){0};
  text_add_bytes(&talk->in, whole.data + 4 + rest, whole.size - 4 - rest);
  if (talk->state == TALK_OPEN && talk->out.size == 0)
    wheel_cancel(&talk->agent->meta->wheel, &talk->timer.timer);
  talk_take(talk, kind, content, size);
  text_free(&whole);
  return talk->state != TALK_ENDED;
}

static bool take_all(struct agent_talk *talk) {
  while (take_one(talk))
    continue;
  if (talk->state == TALK_ENDED)
    return false;
  if (talk->in.size == 0)
    text_free(&talk->in);
  else if (talk->sealed || !wheel_is_set(&talk->timer.timer)) // it has a step's time to go on
    step_begins(talk);
  return true;
}

static void receive(struct agent_talk *talk) {
  static _Thread_local char bytes[TALK_READ];
  for (int i = 0; i < 16; i++) { // then it is the others' turn
    ssize_t size = recv(talk->watch.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (size <= 0) {
      talk_end(talk, WEFT_ERR_PEER_LOST, size == 0 ? "it closed its connection" : "its connection broke");
      return;
    }
    text_add_bytes(&talk->in, bytes, (size_t)size);
    if (talk->in.failed) {
      talk_end(talk, WEFT_ERR_NOMEM, "no memory for a message from it");
      return;
    }
    if (!take_all(talk))
      return;
  }
}

static void connected(struct agent_talk *talk) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(talk->watch.fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error) {
    char why[AGENT_MAX_DETAIL];
    snprintf(why, sizeof why, "%s", strerror(error));
    talk_end(talk, WEFT_ERR_UNREACHABLE, why);
    return;
  }
  talk->state = TALK_WANTS_HELLO;
  talk_say_hello(talk);
}

static void ready(struct agent_watch *watch) {
  struct agent_talk *talk = watch->arg;
  if (talk->state == TALK_CONNECTING) {
    connected(talk);
    return;
  }
  if (talk->out.size > 0)
    flush(talk);
  talk_send_update(talk);
  if (talk->state != TALK_ENDED)
    receive(talk);
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
  talk->state = caller ? TALK_CONNECTING : TALK_WANTS_HELLO;
  talk->done_fd = -1;
  talk->watch = (struct agent_watch){.fd = fd, .events = caller ? EPOLLOUT : EPOLLIN, .ready = ready, .arg = talk};
  if (agent_watch_add(meta->agent, &talk->watch) != 0) {
    close(fd);
    free(talk);
    return NULL;
  }
  TAILQ_INSERT_TAIL(&meta->meet->talks, talk, all);
  meta->meet->num_half_open += !caller;
  step_begins(talk);
  return talk;
}
