// The listener of an agent, and which callers keep a place.
//
// A caller that has sent the first message of a handshake (secure/lobby.h) has a place until it has proved the token,
// at most for the time of the handshake. When all places are taken, a new caller gets the place of a caller that has
// proved nothing: the oldest one of the address that has most places. But for a moment after its arrival a caller
// cannot lose its place; this is long enough for a legitimate caller's second message, and no new caller is accepted
// meanwhile. So a flood of strangers is served at a limited rate and displaces only itself, and legitimate callers wait
// for their turn.
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/exchange/socket_exchange.h"
#include "base/fail.h"
#include "base/net/endpoint.h"
#include "base/time/clock.h"
#include "secure/lobby.h"

enum {
  MAX_HALF_OPEN = 256, // places of callers that have not proved the token
  MAX_TAKEN = 4096,    // of all accepted connections; beyond this number, callers that have not proved to be a peer are
                       // disconnected
  MAX_AT_ONCE = 16,    // taken, then it is the others' turn
  AT_ONCE_NS = 500000, // the same with their first messages
  MOMENT_MS = 25,      // nobody is cut off before
  PROVED_MS = 1000,    // the same for a caller that has proved the token in its first message
  MEMORY_MS = 100,     // until memory may have come free
};

static bool has_proved(const struct agent_connection *connection) {
  return connection->state != CONNECTION_HANDSHAKE || (connection->tls && tls_is_proved(connection->tls));
}

// The connection that may be closed for a new caller. NULL: there is none at the moment.
static struct agent_connection *find_cut(struct agent_sockets *sockets) {
  uint32_t counts[LOBBY_BUCKETS] = {0}, most = 0;
  uint64_t now = clock_ns();
  struct agent_connection *connection, *cut = NULL;
  bool cut_proved = true;
  TAILQ_FOREACH(connection, &sockets->connections, all)
  counts[connection->bucket] += connection_is_half_open(connection);
  TAILQ_FOREACH(connection, &sockets->connections, all) { // the oldest comes first
    if (connection->caller || connection->state == CONNECTION_OPEN)
      continue;
    bool proved = has_proved(connection);
    uint32_t count = counts[connection->bucket];
    uint64_t age_ms = (now - connection->begun_ns) / 1000000;
    if (age_ms < (proved ? PROVED_MS : MOMENT_MS) || proved > cut_proved)
      continue;
    if (!cut || proved < cut_proved || count > most) {
      cut = connection;
      cut_proved = proved;
      most = count;
    }
  }
  return cut;
}

// Accepts nobody for a while: otherwise the descriptor would be ready all the time.
static void pause_listening(struct agent_sockets *sockets, uint32_t ms) {
  agent_watch_remove(sockets->services->agent, &sockets->listener);
  agent_timer_set(sockets->services, &sockets->again, clock_deadline_ms(ms));
}

static void listen_again(struct agent_timer *timer, uint64_t now_ns) {
  (void)now_ns;
  struct agent_sockets *sockets = (struct agent_sockets *)((char *)timer - offsetof(struct agent_sockets, again));
  if (agent_watch_add(sockets->services->agent, &sockets->listener) != 0) // for want of memory, say
    agent_timer_set(sockets->services, &sockets->again, clock_deadline_ms(MEMORY_MS));
}

// False: nobody has spoken, or nobody can be taken at this moment.
static bool take_one(struct agent_sockets *sockets) {
  bool full = sockets->num_half_open >= MAX_HALF_OPEN || sockets->num_taken >= MAX_TAKEN;
  struct agent_connection *cut = full ? find_cut(sockets) : NULL;
  if (full && !cut) {
    pause_listening(sockets, MOMENT_MS);
    return false;
  }
  struct lobby_caller caller;
  if (!lobby_next(sockets->lobby, &caller))
    return false;
  if (cut)
    connection_end(cut, WEFT_ERR_LIMIT, "too many others are connecting");
  socket_exchange_set_up(sockets->services, caller.fd);
  struct agent_connection *connection = connection_start(sockets->services, caller.fd, false);
  if (!connection)
    return true;
  connection->bucket = lobby_bucket(&caller.address);
  connection->watch.ready(&connection->watch); // its first message has arrived already
  return true;
}

static void take_some(struct agent_watch *watch) {
  uint64_t begun = clock_ns();
  for (int i = 0; i < MAX_AT_ONCE && clock_ns() - begun < AT_ONCE_NS; i++)
    if (!take_one(watch->arg))
      return;
}

static void close_lobby(struct agent_sockets *sockets) {
  lobby_close(sockets->lobby);
  close(sockets->listening_fd);
  sockets->lobby = NULL;
  sockets->listener.fd = -1;
}

int socket_listener_start(struct agent_sockets *sockets, const char *address) {
  if (!sockets->has_key)
    return fail(WEFT_ERR_INVALID, "listen is \"%s\" without a token: agents that exchange metadata have to share one",
                address);
  int fd, err = endpoint_listen(address, &fd, &sockets->port);
  if (err)
    return err;
  err = lobby_open(&sockets->lobby, fd, LOBBY_TLS, LOBBY_PLACES);
  if (err) {
    close(fd);
    return err;
  }
  sockets->listening_fd = fd;
  sockets->again.fired = listen_again;
  sockets->listener =
      (struct agent_watch){.fd = lobby_fd(sockets->lobby), .events = EPOLLIN, .ready = take_some, .arg = sockets};
  err = agent_watch_add(sockets->services->agent, &sockets->listener);
  if (err)
    close_lobby(sockets);
  return err;
}

void socket_listener_stop(struct agent_sockets *sockets) {
  if (sockets->listener.fd < 0)
    return;
  wheel_cancel(&sockets->services->wheel, &sockets->again.timer);
  agent_watch_remove(sockets->services->agent, &sockets->listener);
  close_lobby(sockets);
}
