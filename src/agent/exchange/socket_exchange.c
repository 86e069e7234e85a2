// Agents that meet by socket: all connections, and weft_agent_meet().
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/exchange/socket_exchange.h"
#include "base/fail.h"
#include "base/net/endpoint.h"
#include "base/time/clock.h"

enum {
  LOOK_MS = 5,             // where the caller drives the agent
  AGAIN_MIN_MS = 10,       // between two attempts to connect to an agent with many callers
  AGAIN_MAX_MS = 500,      // the same after more attempts
  KEEPALIVE_MAX_S = 32767, // Linux refuses more, and the system's default would hold
};

// Small messages are sent at once; a lost host is noticed as soon as a silent peer.
void socket_exchange_set_up(struct agent_services *services, int fd) {
  int on = 1, seconds = (int)(services->agent->options.peer_timeout_ms / 3000), probes = 2;
  unsigned wait_limit = services->agent->options.peer_timeout_ms;
  seconds = seconds < 1 ? 1 : seconds < KEEPALIVE_MAX_S ? seconds : KEEPALIVE_MAX_S;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &wait_limit, sizeof wait_limit);
}

int socket_exchange_open(struct agent_services *services, const struct weft_agent_options *options) {
  struct agent_sockets *sockets = calloc(1, sizeof *sockets);
  if (!sockets)
    return fail(WEFT_ERR_NOMEM, "no memory for agent %s", services->agent->name);
  sockets->services = services;
  sockets->listener.fd = -1;
  TAILQ_INIT(&sockets->connections);
  TAILQ_INIT(&sockets->ended);
  services->sockets = sockets;
  const char *token = services->agent->options.token;
  int err = token && *token ? secret_derive(token, CONNECTION_PROTOCOL, sockets->key) : 0;
  sockets->has_key = !err && token && *token;
  return err ? err : options->listen ? socket_listener_start(sockets, options->listen) : 0;
}

// --- all connections ---

static void free_ended(struct agent_sockets *sockets) {
  struct agent_connection *connection = TAILQ_FIRST(&sockets->ended);
  while (connection) {
    struct agent_connection *next = TAILQ_NEXT(connection, all);
    if (!connection->waited)
      connection_free(connection);
    connection = next;
  }
}

// Sends the same update on all connections on which nothing else is being sent. If memory runs out, the update stays
// due.
static void send_updates(struct agent_sockets *sockets) {
  struct connection_update update = {0};
  struct agent_connection *connection = TAILQ_FIRST(&sockets->connections);
  while (connection) {
    struct agent_connection *next = TAILQ_NEXT(connection, all);
    connection_send_update(connection, &update);
    connection = next;
  }
  free(update.content);
}

void socket_exchange_tick(struct agent_services *services) {
  if (!services->sockets)
    return;
  send_updates(services->sockets);
  free_ended(services->sockets);
}

void socket_exchange_update(struct agent_services *services) {
  struct agent_connection *connection;
  if (!services->sockets)
    return;
  TAILQ_FOREACH(connection, &services->sockets->connections, all)
  connection->update_due |= connection->published;
}

// The reason is for a call of weft_agent_meet() that has not seen yet that the two have met.
void socket_exchange_end(struct agent_life *life) {
  struct agent_connection *connection;
  while ((connection = LIST_FIRST(&life->connections)))
    connection_say_goodbye(connection, WEFT_ERR_PEER_LOST, CONNECTION_PEER_ENDED);
}

// Connections on which the goodbye was sent end, too; the others have no peer any more to which to send it.
void socket_exchange_leave(struct agent_services *services) {
  if (!services->sockets)
    return;
  socket_listener_stop(services->sockets);
  struct agent_connection *connection;
  while ((connection = TAILQ_FIRST(&services->sockets->connections))) {
    connection_set_peer(connection, 0);
    connection_say_goodbye(connection, WEFT_ERR_CANCELED, "this agent closes");
  }
}

void socket_exchange_close(struct agent_services *services) {
  if (!services->sockets)
    return;
  socket_exchange_leave(services);
  free_ended(services->sockets);
  explicit_bzero(services->sockets->key, sizeof services->sockets->key);
  free(services->sockets);
  services->sockets = NULL;
}

// --- the caller ---

static int fail_connect(const struct sockaddr *to, int error) {
  const struct sockaddr_in *v4 = (const struct sockaddr_in *)to;
  bool down = error == ENETUNREACH && to->sa_family == AF_INET && ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  return fail(WEFT_ERR_UNREACHABLE, "%s%s", strerror(error),
              down ? ", since the loopback interface lo is down: run 'ip link set dev lo up'" : "");
}

static int dial(struct agent_services *services, const struct addrinfo *address, struct agent_connection **connection) {
  int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 && errno == EAFNOSUPPORT) // a system without IPv6; the name may have another address
    return fail(WEFT_ERR_UNREACHABLE, "%s", strerror(errno));
  if (fd < 0)
    return fail_errno(errno, "no socket for the exchange of metadata");
  socket_exchange_set_up(services, fd);
  if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
    int error = errno;
    close(fd);
    return fail_connect(address->ai_addr, error);
  }
  int done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (done < 0) {
    int error = errno;
    close(fd);
    return fail_errno(error, "no descriptor to wait with");
  }
  pthread_mutex_lock(&services->agent->housekeeping);
  *connection = connection_start(services, fd, true);
  if (*connection) {
    (*connection)->done_fd = done;
    (*connection)->waited = true;
  }
  pthread_mutex_unlock(&services->agent->housekeeping);
  if (!*connection)
    close(done);
  return *connection ? 0 : fail(WEFT_ERR_NOMEM, "no memory or descriptor for a connection");
}

// Sleeps until the descriptor can be read (-1: there is none) or the time has come, and drives the agent if no other
// thread does.
static void sleep_until(weft_agent_t *agent, int fd, uint64_t deadline_ns) {
  struct pollfd done = {.fd = fd, .events = POLLIN};
  bool drive = agent->options.progress == WEFT_AGENT_PROGRESS_NONE;
  do {
    int left = clock_left_ms(deadline_ns);
    if (drive) {
      agent_wake(agent); // a socket may be ready, which nothing else signals
      weft_agent_progress(agent, NULL);
    }
    if (poll(&done, 1, drive && left > LOOK_MS ? LOOK_MS : left) > 0)
      return;
  } while (!clock_passed(deadline_ns));
}

// Takes the result; from then on no thread waits for the connection. `*was_cut`: another attempt may succeed.
static int settle(struct agent_services *services, struct agent_connection *connection, weft_peer_t *peer,
                  bool *was_cut) {
  static const char *const steps[] = {[CONNECTION_CONNECTING] = "to be called",
                                      [CONNECTION_HANDSHAKE] = "the handshake",
                                      [CONNECTION_WANTS_METADATA] = "with its metadata",
                                      [CONNECTION_WANTS_ADOPTED] = "to the metadata of this agent"};
  int err = 0;
  pthread_mutex_lock(&services->agent->housekeeping);
  connection->waited = false;
  *was_cut = connection->was_cut;
  if (connection->state == CONNECTION_OPEN) {
    *peer = connection->peer;
  } else if (connection->state == CONNECTION_ENDED) {
    err = fail(connection->err ? connection->err : WEFT_ERR_PEER_LOST, "%s", connection->why);
  } else {
    err = fail(WEFT_ERR_TIMEOUT, "it did not answer %s", steps[connection->state]);
    connection_end(connection, WEFT_ERR_TIMEOUT, "this agent gave up");
  }
  pthread_mutex_unlock(&services->agent->housekeeping);
  return err;
}

static bool is_connecting(struct agent_services *services, const struct agent_connection *connection) {
  pthread_mutex_lock(&services->agent->housekeeping);
  bool is = connection->state == CONNECTION_CONNECTING;
  pthread_mutex_unlock(&services->agent->housekeeping);
  return is;
}

// When a call of the first of these addresses gives up if nothing has accepted the connection: each gets an equal share
// of the time that is left.
static uint64_t share_ends(const struct addrinfo *addresses, uint64_t deadline_ns) {
  uint64_t number = 0, left = clock_left_ns(deadline_ns);
  for (const struct addrinfo *at = addresses; at; at = at->ai_next)
    number++;
  return deadline_ns - left + left / number;
}

// Calls the addresses of a name, until one can be reached.
static int call_any(struct agent_services *services, const struct addrinfo *all, uint64_t deadline_ns,
                    weft_peer_t *peer, bool *was_cut) {
  int err = WEFT_ERR_UNREACHABLE;
  for (const struct addrinfo *at = all; at && err == WEFT_ERR_UNREACHABLE; at = at->ai_next) {
    struct agent_connection *connection = NULL;
    err = dial(services, at, &connection);
    if (err)
      continue;
    agent_wake(services->agent);
    sleep_until(services->agent, connection->done_fd, share_ends(at, deadline_ns));
    bool is_silent = at->ai_next && is_connecting(services, connection);
    if (!is_silent)
      sleep_until(services->agent, connection->done_fd, deadline_ns);
    err = settle(services, connection, peer, was_cut);
    if (is_silent && err == WEFT_ERR_TIMEOUT)
      err = WEFT_ERR_UNREACHABLE;
  }
  return err;
}

// A listener that is flooded by strangers may cut off a lawful caller as well: that one calls again.
static int call_until(struct agent_services *services, const struct addrinfo *all, uint64_t deadline_ns,
                      weft_peer_t *peer) {
  for (uint32_t pause_ms = AGAIN_MIN_MS;; pause_ms = pause_ms < AGAIN_MAX_MS ? 2 * pause_ms : AGAIN_MAX_MS) {
    bool was_cut = false;
    int err = call_any(services, all, deadline_ns, peer, &was_cut);
    uint64_t again = clock_deadline_ms(pause_ms);
    if (!was_cut || again >= deadline_ns)
      return err;
    sleep_until(services->agent, -1, again);
  }
}

int weft_agent_meet(weft_agent_t *agent, const char *address, uint32_t timeout_ms, weft_peer_t *peer) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!peer)
    return fail(WEFT_ERR_INVALID, "peer is NULL");
  if (!agent->services->sockets->has_key)
    return fail(WEFT_ERR_INVALID,
                "this agent was opened without a token: agents that exchange metadata have to share one");
  uint64_t deadline = clock_wait_deadline(timeout_ms);
  struct addrinfo *all;
  int err = endpoint_resolve(address, false, &all);
  if (err)
    return err;
  err = call_until(agent->services, all, deadline, peer);
  freeaddrinfo(all);
  return err ? fail_context(err, "meeting %s", address) : 0;
}

int weft_agent_port(weft_agent_t *agent, uint16_t *port) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!port)
    return fail(WEFT_ERR_INVALID, "port is NULL");
  struct agent_sockets *sockets = agent->services->sockets;
  if (sockets->listener.fd < 0)
    return fail(WEFT_ERR_NOT_FOUND, "agent %s does not listen: its options name no address", agent->name);
  *port = sockets->port;
  return 0;
}
