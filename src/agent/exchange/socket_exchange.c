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

#include "agent/exchange/socket_exchange.h"
#include "agent/net/endpoint.h"
#include "base/fail.h"
#include "base/time/clock.h"

enum {
  LOOK_MS = 5,        // where the caller drives the agent
  AGAIN_MIN_MS = 10,  // between two calls of one that has many callers
  AGAIN_MAX_MS = 500, // likewise, later
};

// Small messages leave at once; a host that has gone is noticed as a silent peer is.
void meet_set_up_socket(struct agent_meta *meta, int fd) {
  int on = 1, seconds = (int)(meta->agent->options.peer_timeout_ms / 3000), probes = 2;
  unsigned patience = meta->agent->options.peer_timeout_ms;
  seconds = seconds < 1 ? 1 : seconds;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

int meet_open(struct agent_meta *meta, const struct weft_agent_options *options) {
  struct agent_meet *meet = calloc(1, sizeof *meet);
  if (!meet)
    return fail(WEFT_ERR_NOMEM, "no memory for agent %s", meta->agent->name);
  meet->meta = meta;
  meet->listener.fd = -1;
  TAILQ_INIT(&meet->talks);
  TAILQ_INIT(&meet->ended);
  meta->meet = meet;
  const char *token = meta->agent->options.token;
  int err = token && *token ? secret_derive(token, TALK_PROTOCOL, meet->key) : 0;
  meet->has_key = !err && token && *token;
  return err ? err : options->listen ? meet_listen(meet, options->listen) : 0;
}

// --- all connections ---

static void free_ended(struct agent_meet *meet) {
  struct agent_talk *talk = TAILQ_FIRST(&meet->ended);
  while (talk) {
    struct agent_talk *next = TAILQ_NEXT(talk, all);
    if (!talk->waited)
      talk_free(talk);
    talk = next;
  }
}

// To those to whom nothing else is on its way. What cannot be written for want of memory stays due.
static void send_updates(struct agent_meet *meet) {
  struct agent_talk *talk = TAILQ_FIRST(&meet->talks);
  while (talk) {
    struct agent_talk *next = TAILQ_NEXT(talk, all);
    talk_send_update(talk);
    talk = next;
  }
}

void meet_tick(struct agent_meta *meta) {
  if (!meta->meet)
    return;
  send_updates(meta->meet);
  free_ended(meta->meet);
}

void meet_update(struct agent_meta *meta) {
  struct agent_talk *talk;
  if (!meta->meet)
    return;
  TAILQ_FOREACH(talk, &meta->meet->talks, all)
  talk->update_due |= talk->told;
}

static void say_goodbye(struct agent_talk *talk) {
  if (talk->state >= TALK_WANTS_PROOF)
    talk_send(talk, TALK_GOODBYE, NULL, 0);
  talk_end(talk, WEFT_ERR_CANCELED, "this agent let go of it");
}

void meet_end(struct agent_life *life) {
  struct agent_talk *talk;
  while ((talk = LIST_FIRST(&life->talks)))
    say_goodbye(talk);
}

// Those whom the goodbye reached end too; what is left has no peer any more that it could tell.
void meet_leave(struct agent_meta *meta) {
  if (!meta->meet)
    return;
  meet_stop_listening(meta->meet);
  struct agent_talk *talk;
  while ((talk = TAILQ_FIRST(&meta->meet->talks))) {
    talk_set_peer(talk, 0);
    say_goodbye(talk);
  }
}

void meet_close(struct agent_meta *meta) {
  if (!meta->meet)
    return;
  meet_leave(meta);
  free_ended(meta->meet);
  explicit_bzero(meta->meet->key, sizeof meta->meet->key);
  free(meta->meet);
  meta->meet = NULL;
}

// --- the caller ---

static int dial(struct agent_meta *meta, const struct addrinfo *address, struct agent_talk **talk) {
  int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return fail_errno(errno, "no socket to meet by");
  meet_set_up_socket(meta, fd);
  if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
    int error = errno;
    close(fd);
    return fail(WEFT_ERR_UNREACHABLE, "%s", strerror(error));
  }
  int done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (done < 0) {
    int error = errno;
    close(fd);
    return fail_errno(error, "no descriptor to wait with");
  }
  pthread_mutex_lock(&meta->agent->tending);
  *talk = talk_start(meta, fd, true);
  if (*talk) {
    (*talk)->done_fd = done;
    (*talk)->waited = true;
  }
  pthread_mutex_unlock(&meta->agent->tending);
  if (!*talk)
    close(done);
  return *talk ? 0 : fail(WEFT_ERR_NOMEM, "no memory or descriptor for a connection");
}

// Sleeps until the descriptor can be read (-1: there is none) or the time has come, and drives the agent where nobody
// else does.
static void sleep_until(weft_agent_t *agent, int fd, uint64_t deadline_ns) {
  struct pollfd done = {.fd = fd, .events = POLLIN};
  bool drive = agent->options.progress == WEFT_AGENT_PROGRESS_NONE;
  do {
    int left = clock_left_ms(deadline_ns);
    if (drive) {
      agent_wake(agent); // a socket may be ready, of which nobody else tells
      weft_agent_progress(agent, NULL);
    }
    if (poll(&done, 1, drive && left > LOOK_MS ? LOOK_MS : left) > 0)
      return;
  } while (!clock_passed(deadline_ns));
}

// Takes the outcome; from here on the connection is nobody's who waits. `*was_cut`: it is worth while to call again.
static int settle(struct agent_meta *meta, struct agent_talk *talk, weft_peer_t *peer, bool *was_cut) {
  static const char *const steps[] = {[TALK_CONNECTING] = "to be called",
                                      [TALK_HANDSHAKE] = "the handshake",
                                      [TALK_WANTS_METADATA] = "with its metadata",
                                      [TALK_WANTS_ADOPTED] = "to the metadata of this agent"};
  int err = 0;
  pthread_mutex_lock(&meta->agent->tending);
  talk->waited = false;
  *was_cut = talk->was_cut;
  if (talk->state == TALK_OPEN) {
    *peer = talk->peer;
  } else if (talk->state == TALK_ENDED) {
    err = fail(talk->err ? talk->err : WEFT_ERR_PEER_LOST, "%s", talk->why);
  } else {
    err = fail(WEFT_ERR_TIMEOUT, "it did not answer %s", steps[talk->state]);
    talk_end(talk, WEFT_ERR_TIMEOUT, "this agent gave up");
  }
  pthread_mutex_unlock(&meta->agent->tending);
  return err;
}

// Calls the addresses of a name, until one can be reached.
static int call_any(struct agent_meta *meta, const struct addrinfo *all, uint64_t deadline_ns, weft_peer_t *peer,
                    bool *was_cut) {
  int err = WEFT_ERR_UNREACHABLE;
  for (const struct addrinfo *at = all; at && err == WEFT_ERR_UNREACHABLE; at = at->ai_next) {
    struct agent_talk *talk = NULL;
    err = dial(meta, at, &talk);
    if (err)
      continue;
    agent_wake(meta->agent);
    sleep_until(meta->agent, talk->done_fd, deadline_ns);
    err = settle(meta, talk, peer, was_cut);
  }
  return err;
}

// A listener that is flooded by strangers may cut off a lawful caller as well: that one calls again.
static int call_until(struct agent_meta *meta, const struct addrinfo *all, uint64_t deadline_ns, weft_peer_t *peer) {
  for (uint32_t pause_ms = AGAIN_MIN_MS;; pause_ms = pause_ms < AGAIN_MAX_MS ? 2 * pause_ms : AGAIN_MAX_MS) {
    bool was_cut = false;
    int err = call_any(meta, all, deadline_ns, peer, &was_cut);
    uint64_t again = clock_deadline_ms(pause_ms);
    if (!was_cut || again >= deadline_ns)
      return err;
    sleep_until(meta->agent, -1, again);
  }
}

int weft_agent_meet(weft_agent_t *agent, const char *address, uint32_t timeout_ms, weft_peer_t *peer) {
  if (!agent || !peer)
    return fail(WEFT_ERR_INVALID, "%s is NULL", agent ? "peer" : "agent");
  if (!agent->meta->meet->has_key)
    return fail(WEFT_ERR_INVALID, "this agent was opened without a token: those who meet have to share one");
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  struct addrinfo *all;
  int err = endpoint_resolve(address, false, &all);
  if (err)
    return err;
  err = call_until(agent->meta, all, deadline, peer);
  freeaddrinfo(all);
  return err ? fail_context(err, "meeting %s", address) : 0;
}

int weft_agent_port(weft_agent_t *agent, uint16_t *port) {
  if (!agent || !port)
    return fail(WEFT_ERR_INVALID, "%s is NULL", agent ? "port" : "agent");
  struct agent_meet *meet = agent->meta->meet;
  if (meet->listener.fd < 0)
    return fail(WEFT_ERR_NOT_FOUND, "agent %s does not listen: its options name no address", agent->name);
  *port = meet->port;
  return 0;
}
