// A connection from its beginning to its end: the handshake of TLS, the bytes that are sent and received, and the time
// and memory that these may take.
#include "agent/exchange/socket_connection.h"
#include "agent/agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "base/wire/wire.h"

enum {
  MAX_READS = 16,       // at once, so that other connections have theirs
  TLS_HANDSHAKE = 0x16, // the first byte of each connection (RFC 8446, 5.1)
};

static void begin_step(struct agent_connection *connection, uint32_t ms) {
  agent_timer_set(connection->agent->services, &connection->timer, clock_deadline_ms(ms));
}

// The time of a message begins with its first byte, and anew when a message is `done`; other bytes do not extend it.
static void mind_time(struct agent_connection *connection, bool done) {
  if (connection->state == CONNECTION_OPEN && connection->in.size == 0 && connection->out.size == 0)
    wheel_cancel(&connection->agent->services->wheel, &connection->timer.timer);
  else if (done || !wheel_is_set(&connection->timer.timer))
    begin_step(connection, CONNECTION_MESSAGE_MS);
}

static void watch_for(struct agent_connection *connection, uint32_t events) {
  if (connection->state == CONNECTION_ENDED || connection->watch.events == events)
    return;
  agent_watch_remove(connection->agent, &connection->watch);
  connection->watch.events = events;
  if (agent_watch_add(connection->agent, &connection->watch) != 0)
    connection_end(connection, WEFT_ERR_SYSTEM, "its socket cannot be watched");
}

static void watch_for_more(struct agent_connection *connection) {
  watch_for(connection, connection->out.size > 0 || connection->wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void set_life(struct agent_connection *connection, bool has) {
  struct agent_life *life =
      connection->peer != 0 && has && !connection->has_life ? liveness_of(connection->agent, connection->peer) : NULL;
  if (life) {
    LIST_INSERT_HEAD(&life->connections, connection, of_life);
    connection->has_life = true;
    liveness_met_again(life);
  } else if (!has && connection->has_life) {
    LIST_REMOVE(connection, of_life);
    connection->has_life = false;
  }
}

void connection_set_peer(struct agent_connection *connection, weft_peer_t peer) {
  connection->peer = peer;
  set_life(connection, true);
}

void connection_wake_caller(struct agent_connection *connection) {
  uint64_t one = 1;
  if (connection->done_fd >= 0 && write(connection->done_fd, &one, sizeof one) < 0)
    return; // it is readable already
}

static void drop_out(struct agent_connection *connection) {
  connection_sockets(connection)->sending -= connection->out.size;
  text_free(&connection->out);
  connection->out_at = 0;
}

void connection_end(struct agent_connection *connection, int err, const char *why) {
  if (connection->state == CONNECTION_ENDED)
    return;
  struct agent_sockets *sockets = connection_sockets(connection);
  sockets->num_half_open -= connection_is_half_open(connection);
  sockets->num_taken -= !connection->caller;
  sockets->held -= connection->in.size;
  connection_drop_shown(connection);
  drop_out(connection);
  bool known = connection->peer != 0 && connection->peer != WEFT_PEER_SELF && connection->has_life;
  struct agent_life *life = known ? liveness_of(connection->agent, connection->peer) : NULL;
  connection->state = CONNECTION_ENDED;
  connection->err = err;
  snprintf(connection->why, sizeof connection->why, "%s", why);
  wheel_cancel(&sockets->services->wheel, &connection->timer.timer);
  agent_watch_remove(connection->agent, &connection->watch);
  tls_close(connection->tls);
  connection->tls = NULL;
  close(connection->watch.fd);
  connection->watch.fd = -1;
  set_life(connection, false);
  TAILQ_REMOVE(&sockets->connections, connection, all);
  TAILQ_INSERT_TAIL(&sockets->ended, connection, all);
  connection_wake_caller(connection);
  if (!life || !LIST_EMPTY(&life->connections)) // agents that called each other have two connections
    return;
  if (err != 0 || !liveness_said_goodbye(life))
    agent_peer_end(connection->agent, connection->peer,
                   err == 0 ? WEFT_AGENT_EVENT_PEER_LEFT : WEFT_AGENT_EVENT_PEER_LOST, connection->why);
}

void connection_say_goodbye(struct agent_connection *connection, int err, const char *why) {
  if (connection->state >= CONNECTION_WANTS_PROOF)
    connection_send(connection, CONNECTION_GOODBYE, NULL, 0);
  connection_end(connection, err, why);
}

void connection_drop_shown(struct agent_connection *connection) {
  connection_sockets(connection)->held -= connection->shown.size;
  text_free(&connection->shown);
}

struct proof_parties connection_parties(const struct agent_connection *connection) {
  return (struct proof_parties){.own = &connection->agent->exchange,
                                .other = connection->other_key,
                                .own_calls = connection->caller,
                                .tls = connection->tls};
}

void connection_free(struct agent_connection *connection) {
  TAILQ_REMOVE(&connection_sockets(connection)->ended, connection, all);
  if (connection->done_fd >= 0)
    close(connection->done_fd);
  text_free(&connection->in);
  free(connection);
}

// --- out ---

static void flush(struct agent_connection *connection) {
  while (connection->out_at < connection->out.size) {
    size_t sent = 0;
    int rc = tls_write(connection->tls, connection->out.data + connection->out_at,
                       connection->out.size - connection->out_at, &sent);
    if (rc < 0) {
      connection_end(connection, WEFT_ERR_PEER_LOST, "its connection broke");
      return;
    }
    if (rc > 0) {
      mind_time(connection, false);
      watch_for_more(connection);
      return;
    }
    connection->out_at += sent;
  }
  drop_out(connection);
  mind_time(connection, true);
  watch_for_more(connection);
}

void connection_send(struct agent_connection *connection, enum connection_kind kind, const void *bytes, size_t size) {
  if (connection->state == CONNECTION_ENDED)
    return;
  uint8_t head[CONNECTION_HEAD];
  struct wire_writer writer = {.bytes = head, .capacity = sizeof head};
  wire_put_number(&writer, size + 1, 4);
  wire_put_number(&writer, kind, 1);
  size_t before = connection->out.size;
  text_add_bytes(&connection->out, head, sizeof head);
  text_add_bytes(&connection->out, bytes, size);
  connection_sockets(connection)->sending += connection->out.size - before;
  if (connection->out.failed)
    connection_end(connection, WEFT_ERR_NOMEM, "no memory for a message to it");
  else
    flush(connection);
}

// --- in ---

static size_t held_by(const struct agent_connection *connection) {
  return connection->in.size + connection->shown.size;
}

// Ends the connection for which this agent holds most.
static void end_largest(struct agent_sockets *sockets) {
  struct agent_connection *connection, *largest = NULL;
  TAILQ_FOREACH(connection, &sockets->connections, all)
  if (!largest || held_by(connection) > held_by(largest))
    largest = connection;
  connection_end(largest, WEFT_ERR_LIMIT, "messages that others began to send took up too much memory");
}

// Handles the message at offset `at` of the received bytes, and returns its size. 0: it is not complete yet, or the
// connection has ended.
static size_t take_one(struct agent_connection *connection, size_t at) {
  struct wire_reader reader = {.bytes = (const uint8_t *)connection->in.data + at, .size = connection->in.size - at};
  if (reader.size < 4)
    return 0;
  uint64_t rest = wire_take_number(&reader, 4);
  if (rest < 1 || rest > CONNECTION_MAX_MESSAGE) {
    connection_end(connection, WEFT_ERR_PROTOCOL, "it sent a message of an impossible length");
    return 0;
  }
  if (wire_left(&reader) < rest)
    return 0;
  enum connection_kind kind = (enum connection_kind)wire_take_number(&reader, 1);
  connection_take(connection, kind, wire_take(&reader, (size_t)rest - 1), (size_t)rest - 1);
  return connection->state == CONNECTION_ENDED ? 0 : 4 + (size_t)rest;
}

// False: the connection has ended.
static bool take_bytes(struct agent_connection *connection, const uint8_t *bytes, size_t size) {
  struct agent_sockets *sockets = connection_sockets(connection);
  text_add_bytes(&connection->in, bytes, size);
  if (connection->in.failed) {
    connection_end(connection, WEFT_ERR_NOMEM, "no memory for a message from it");
    return false;
  }
  sockets->held += size;
  size_t at = 0, taken;
  while ((taken = take_one(connection, at)) > 0)
    at += taken;
  if (connection->state == CONNECTION_ENDED)
    return false;
  sockets->held -= at;
  connection->in.size -= at;
  memmove(connection->in.data, connection->in.data + at, connection->in.size);
  if (connection->in.size == 0)
    text_free(&connection->in);
  mind_time(connection, at > 0);
  if (sockets->held > CONNECTION_MAX_HELD)
    end_largest(sockets);
  return connection->state != CONNECTION_ENDED;
}

static void receive(struct agent_connection *connection) {
  uint8_t bytes[CONNECTION_READ];
  connection->wants_write = false;
  for (int i = 0; i < MAX_READS || tls_has_bytes(connection->tls); i++) {
    size_t size = 0;
    int rc = tls_read(connection->tls, bytes, sizeof bytes, &size);
    if (rc > 0) {
      connection->wants_write = rc == TLS_WANTS_WRITE;
      return;
    }
    if (rc < 0) {
      connection_end(connection, rc,
                     rc == WEFT_ERR_PROTOCOL ? "a message was altered on its way" : "it closed its connection");
      return;
    }
    if (!take_bytes(connection, bytes, size))
      return;
  }
}

// --- the handshake ---

// A caller that sends nothing, or something else than TLS, costs no more than its place.
static bool open_tls(struct agent_connection *connection) {
  struct agent_sockets *sockets = connection_sockets(connection);
  uint8_t first = TLS_HANDSHAKE;
  ssize_t got = connection->caller ? 1 : recv(connection->watch.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  if (got <= 0 || first != TLS_HANDSHAKE) {
    connection_end(connection, got > 0 ? WEFT_ERR_PROTOCOL : WEFT_ERR_PEER_LOST,
                   "it is not an agent: its first bytes are wrong");
    return false;
  }
  int rc = tls_open(&connection->tls, connection->watch.fd, connection->caller, CONNECTION_PROTOCOL, sockets->key);
  if (rc != 0)
    connection_end(connection, rc, weft_last_error());
  return rc == 0;
}

// Continues the handshake; false: it is not over, or the connection has ended.
static bool shake_hands(struct agent_connection *connection) {
  if (!connection->tls && !open_tls(connection))
    return false;
  int rc = tls_handshake(connection->tls);
  if (rc > 0) {
    watch_for(connection, rc == TLS_WANTS_WRITE ? EPOLLIN | EPOLLOUT : EPOLLIN);
    return false;
  }
  if (rc < 0) {
    connection->was_cut = rc == WEFT_ERR_PEER_LOST;
    connection_end(connection, rc,
                   rc == WEFT_ERR_AUTH ? "the two do not share one token, or it is not an agent of this version"
                                       : "it hung up before it had proved that it has the token");
    return false;
  }
  connection_sockets(connection)->num_half_open -= connection_is_half_open(connection);
  connection->state = CONNECTION_WANTS_METADATA;
  begin_step(connection, CONNECTION_MESSAGE_MS);
  connection_begin(connection);
  return connection->state != CONNECTION_ENDED;
}

// The socket has connected, or could not. False: the connection has ended.
static bool connected(struct agent_connection *connection) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(connection->watch.fd, SOL_SOCKET, SO_ERROR, &error, &size);
  connection->state = CONNECTION_HANDSHAKE;
  if (error) {
    char why[AGENT_MAX_DETAIL];
    snprintf(why, sizeof why, "%s", strerror(error));
    connection_end(connection, WEFT_ERR_UNREACHABLE, why);
  }
  return !error;
}

static void ready(struct agent_watch *watch) {
  struct agent_connection *connection = watch->arg;
  if (connection->state == CONNECTION_CONNECTING && !connected(connection))
    return;
  if (connection->state == CONNECTION_HANDSHAKE && !shake_hands(connection))
    return;
  if (connection->out.size > 0)
    flush(connection);
  connection_send_update(connection, NULL);
  if (connection->state != CONNECTION_ENDED)
    receive(connection);
  if (connection->state != CONNECTION_ENDED)
    watch_for_more(connection);
}

static void step_timed_out(struct agent_timer *timer, uint64_t now_ns) {
  (void)now_ns;
  struct agent_connection *connection = (struct agent_connection *)timer;
  connection_end(connection, connection->state == CONNECTION_OPEN ? WEFT_ERR_PEER_LOST : WEFT_ERR_TIMEOUT,
                 "it did not answer in time");
}

struct agent_connection *connection_start(struct agent_services *services, int fd, bool caller) {
  struct agent_connection *connection = calloc(1, sizeof *connection);
  if (!connection) {
    close(fd);
    return NULL;
  }
  connection->timer.fired = step_timed_out;
  connection->agent = services->agent;
  connection->caller = caller;
  connection->state = caller ? CONNECTION_CONNECTING : CONNECTION_HANDSHAKE;
  connection->done_fd = -1;
  connection->begun_ns = clock_ns();
  connection->watch =
      (struct agent_watch){.fd = fd, .events = caller ? EPOLLOUT : EPOLLIN, .ready = ready, .arg = connection};
  if (agent_watch_add(services->agent, &connection->watch) != 0) {
    close(fd);
    free(connection);
    return NULL;
  }
  TAILQ_INSERT_TAIL(&services->sockets->connections, connection, all);
  services->sockets->num_half_open += !caller;
  services->sockets->num_taken += !caller;
  if (!caller) // a connection that this agent makes has the time of the thread that waits for it
    begin_step(connection, CONNECTION_STEP_MS);
  return connection;
}
