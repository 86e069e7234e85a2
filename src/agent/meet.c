// Agents that meet by socket: the listener, all connections, and weft_agent_meet().
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/endpoint.h"
#include "agent/talk.h"
#include "base/clock.h"
#include "base/fail.h"

enum {
  MAX_HALF_OPEN = 64, // a new caller beyond them has the oldest one cut off
  MAX_ACCEPTED = 32,  // at once; then it is the others' turn
  AGAIN_MS = 100,
  LOOK_MS = 5, // where the caller drives the agent
};

// Small messages leave at once; a host that has gone is noticed as a silent peer is.
static void set_up(struct agent_meta *meta, int fd) {
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

// --- the listener ---

static void cut_oldest(struct agent_meet *meet) {
  struct agent_talk *talk;
  TAILQ_FOREACH(talk, &meet->talks, all) {
    if (talk_is_half_open(talk)) {
      talk_end(talk, WEFT_ERR_LIMIT, "too many others call");
      return;
    }
  }
}

static void accept_again(struct meta_timer *timer, uint64_t now_ns) {
  (void)now_ns;
  struct agent_meet *meet = (struct agent_meet *)((char *)timer - offsetof(struct agent_meet, again));
  if (agent_watch_add(meet->meta->agent, &meet->listener) != 0) // for want of memory, say
    meta_timer_set(meet->meta, &meet->again, clock_deadline_ms(AGAIN_MS));
}

static void accept_some(struct agent_watch *watch) {
  struct agent_meet *meet = watch->arg;
  for (int i = 0; i < MAX_ACCEPTED; i++) {
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
      cut_oldest(meet);
      agent_watch_remove(meet->meta->agent, watch); // it would be ready all the time
      meta_timer_set(meet->meta, &meet->again, clock_deadline_ms(AGAIN_MS));
    }
    if (fd < 0)
      return;
    while (meet->num_half_open >= MAX_HALF_OPEN)
      cut_oldest(meet);
    set_up(meet->meta, fd);
    talk_start(meet->meta, fd, false);
  }
}

static int start_listening(struct agent_meet *meet, const char *address) {
  if (!hmac_is_there())
    return hmac_sha256(NULL, 0, NULL, 0, NULL);
  if (!meet->token || !*meet->token)
    return fail(WEFT_ERR_INVALID, "listen is \"%s\" without a token: those who meet have to share one", address);
  int fd, err = endpoint_listen(address, &fd, &meet->port);
  if (err)
    return err;
  meet->listener = (struct agent_watch){.fd = fd, .events = EPOLLIN, .ready = accept_some, .arg = meet};
  err = agent_watch_add(meet->meta->agent, &meet->listener);
  if (err) {
    close(fd);
    meet->listener.fd = -1;
  }
  return err;
}

int meet_open(struct agent_meta *meta, const struct weft_agent_options *options) {
  struct agent_meet *meet = calloc(1, sizeof *meet);
  if (!meet)
    return fail(WEFT_ERR_NOMEM, "no memory for agent %s", meta->agent->name);
  meet->meta = meta;
  meet->listener.fd = -1;
  meet->again.fired = accept_again;
  meet->token = meta->agent->options.token;
  TAILQ_INIT(&meet->talks);
  TAILQ_INIT(&meet->ended);
  meta->meet = meet;
  return options->listen ? start_listening(meet, options->listen) : 0;
}

static void stop_listening(struct agent_meet *meet) {
  if (meet->listener.fd < 0)
    return;
  wheel_cancel(&meet->meta->wheel, &meet->again.timer);
  agent_watch_remove(meet->meta->agent, &meet->listener);
  close(meet->listener.fd);
  meet->listener.fd = -1;
}

// --- all connections ---

static void free_talk(struct agent_meet *meet, struct agent_talk *talk) {
  TAILQ_REMOVE(&meet->ended, talk, all);
  if (talk->done_fd >= 0)
    close(talk->done_fd);
  text_free(&talk->in);
  text_free(&talk->out);
  explicit_bzero(talk->keys, sizeof talk->keys);
  free(talk);
}

static void free_ended(struct agent_meet *meet) {
  struct agent_talk *talk = TAILQ_FIRST(&meet->ended);
  while (talk) {
    struct agent_talk *next = TAILQ_NEXT(talk, all);
    if (!talk->waited)
      free_talk(meet, talk);
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
  talk->update_due |= talk->state >= TALK_WANTS_ADOPTED;
}

static void say_goodbye(struct agent_talk *talk) {
  if (talk->state >= TALK_WANTS_ADOPTED)
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
  stop_listening(meta->meet);
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
  free(meta->meet);
  meta->meet = NULL;
}

// --- the caller ---

static int dial(struct agent_meta *meta, const struct addrinfo *address, struct agent_talk **talk) {
  int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return fail_errno(errno, "no socket to meet by");
  set_up(meta, fd);
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

// Sleeps, or drives the agent where nobody else does, until the handshake is over.
static void await(struct agent_talk *talk, uint64_t deadline_ns) {
  struct pollfd done = {.fd = talk->done_fd, .events = POLLIN};
  bool drive = talk->agent->options.progress == WEFT_AGENT_PROGRESS_NONE;
  agent_wake(talk->agent);
  do {
    int left = clock_left_ms(deadline_ns);
    if (drive)
      weft_agent_progress(talk->agent, NULL);
    if (poll(&done, 1, drive && left > LOOK_MS ? LOOK_MS : left) > 0)
      return;
  } while (!clock_passed(deadline_ns));
}

// Takes the outcome; from here on the connection is nobody's who waits.
static int settle(struct agent_meta *meta, struct agent_talk *talk, weft_peer_t *peer) {
  static const char *const steps[] = {[TALK_CONNECTING] = "to be called",
                                      [TALK_WANTS_HELLO] = "with a greeting",
                                      [TALK_WANTS_PROOF] = "to the proof",
                                      [TALK_WANTS_METADATA] = "with its metadata"};
  int err = 0;
  pthread_mutex_lock(&meta->agent->tending);
  talk->waited = false;
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

// What another address of the same name may do better.
static bool may_try_next(int err) {
  return err == WEFT_ERR_UNREACHABLE;
}

int weft_agent_meet(weft_agent_t *agent, const char *address, uint32_t timeout_ms, weft_peer_t *peer) {
  if (!agent || !peer)
    return fail(WEFT_ERR_INVALID, "%s is NULL", agent ? "peer" : "agent");
  if (!hmac_is_there())
    return hmac_sha256(NULL, 0, NULL, 0, NULL);
  if (!agent->options.token || !*agent->options.token)
    return fail(WEFT_ERR_INVALID, "this agent was opened without a token: those who meet have to share one");
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  struct addrinfo *all;
  int err = endpoint_resolve(address, false, &all);
  if (err)
    return err;
  err = WEFT_ERR_UNREACHABLE;
  for (const struct addrinfo *at = all; at && may_try_next(err); at = at->ai_next) {
    struct agent_talk *talk = NULL;
    err = dial(agent->meta, at, &talk);
    if (err)
      continue;
    await(talk, deadline);
    err = settle(agent->meta, talk, peer);
  }
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
