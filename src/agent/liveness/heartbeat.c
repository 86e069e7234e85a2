// Finds out whether peers are alive: by heartbeats to each peer over the transport that carries its messages, by a
// pidfd if the peer runs in the same pid namespace, and by a limit on silence.
//
// A peer is lost when it has been silent for its limit. Silence is measured only after the peer's first message, since
// a peer that does not know this agent has no reason to send anything. Time counts only
// while this process checks its peers. So after a gap (the process was stopped, or nobody called) most of the limit is
// left to receive every peer's messages.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/services.h"
#include "base/log.h"
#include "base/process.h"
#include "base/random.h"
#include "base/time/clock.h"

enum {
  PATIENCE_BEATS = 3,               // a peer may leave out two heartbeats, however short this agent's time limit is
  GAP_PARTS = 8,                    // of the time limit: a gap in which no thread looked counts as no more
  MAX_FIRED = 64,                   // at once; then it is the transfers' turn
  LAST_WORDS_NS = 20 * 1000 * 1000, // for messages that are on their way when the process is found dead or has left
};

static uint64_t gap_limit_ns(const struct agent_services *services) {
  return (uint64_t)services->agent->options.peer_timeout_ms * 1000000u / GAP_PARTS + 1000000u;
}

void agent_timer_set(struct agent_services *services, struct agent_timer *timer, uint64_t due_ns) {
  wheel_set(&services->wheel, &timer->timer, due_ns);
}

// --- the process ---

static void found_dead(struct agent_life *life, const char *why) {
  life->dead = why;
  agent_timer_set(life->agent->services, &life->timer, clock_ns() + LAST_WORDS_NS);
}

bool liveness_said_goodbye(struct agent_life *life) {
  pthread_mutex_lock(&life->agent->lock);
  bool waits = !life->ended && atomic_load(&life->peer->messenger);
  pthread_mutex_unlock(&life->agent->lock);
  if (waits) {
    life->left = true;
    found_dead(life, "it closed");
  }
  return waits;
}

void liveness_met_again(struct agent_life *life) {
  if (!life->left)
    return;
  life->left = false;
  life->dead = NULL;
  agent_timer_set(life->agent->services, &life->timer, clock_ns());
}

static void stop_watching(struct agent_life *life) {
  if (life->process.fd < 0)
    return;
  agent_watch_remove(life->agent, &life->process);
  close(life->process.fd);
  life->process.fd = -1;
}

static void process_ended(struct agent_watch *watch) {
  struct agent_life *life = watch->arg;
  stop_watching(life);
  found_dead(life, "its process has ended");
}

// Without a descriptor to spare, only heartbeats show its death.
static void watch_process(struct agent_life *life, int32_t pid, uint64_t start_ticks) {
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) {
    if (errno == ESRCH)
      found_dead(life, "its process has ended");
    return;
  }
  if (!process_lives(pid, start_ticks)) { // the pid is another's by now
    close(fd);
    found_dead(life, "its process has ended");
    return;
  }
  life->process = (struct agent_watch){.fd = fd, .events = EPOLLIN, .ready = process_ended, .arg = life};
  if (agent_watch_add(life->agent, &life->process) != 0) {
    close(fd);
    life->process.fd = -1;
  }
}

// --- silence ---

static void end_lost(struct agent_life *life, const char *why) {
  agent_peer_lost(life->agent, life->id, why);
}

// Brings life->silent_from up to date; returns for how long it has been silent, in watched time.
static uint64_t silence(struct agent_services *services, struct agent_life *life, uint64_t now_ns) {
  uint64_t received = atomic_load_explicit(&life->peer->received_ns, memory_order_relaxed);
  if (received != life->received_ns) {
    life->received_ns = received;
    uint64_t from = received > services->blind_until ? received : services->blind_until;
    uint64_t since = from < now_ns ? now_ns - from : 0;
    life->silent_from = services->watched_ns > since ? services->watched_ns - since : 0;
  }
  if (received <= life->loaded_ns)
    return 0;
  return services->watched_ns - life->silent_from;
}

static void fired(struct agent_timer *timer, uint64_t now_ns) {
  struct agent_life *life = (struct agent_life *)timer;
  weft_agent_t *agent = life->agent;
  struct agent_services *services = agent->services;
  pthread_mutex_lock(&agent->lock);
  bool ended = life->ended;
  uint64_t silent = ended ? 0 : silence(services, life, now_ns);
  pthread_mutex_unlock(&agent->lock);
  if (ended)
    return;
  if (life->dead) {
    agent_peer_end(agent, life->id, life->left ? WEFT_AGENT_EVENT_PEER_LEFT : WEFT_AGENT_EVENT_PEER_LOST, life->dead);
    return;
  }
  if (life->silence_limit_ns > 0 && silent >= life->silence_limit_ns) {
    char why[AGENT_MAX_DETAIL];
    snprintf(why, sizeof why, "nothing was received from it for %" PRIu64 " ms", silent / 1000000);
    end_lost(life, why);
    return;
  }
  uint64_t beat = (uint64_t)agent->options.heartbeat_ms * 1000000u;
  if (now_ns >= life->beat_ns) {
    agent_send(agent, life->peer, AGENT_HEARTBEAT, NULL, 0); // a failure shows in the link
    life->beat_ns = now_ns + (life->has_begun ? beat : random_mix(life->id) % (beat + 1));
    life->has_begun = true; // peers that were loaded at the same time do not stay in step
  }
  uint64_t due = life->beat_ns;
  if (life->silence_limit_ns > 0 && life->received_ns > life->loaded_ns &&
      now_ns + life->silence_limit_ns - silent < due)
    due = now_ns + life->silence_limit_ns - silent;
  agent_timer_set(services, timer, due);
}

// --- peers that come and go ---

static bool may_watch(const weft_agent_t *agent, const struct agent_peer *peer) {
  return *agent->host && strcmp(agent->host, peer->host) == 0 && agent->pid_namespace != 0 &&
         agent->pid_namespace == peer->pid_namespace && peer->pid > 0 && peer->pid != getpid();
}

static void finish(struct agent_services *services, struct agent_life *life) {
  wheel_cancel(&services->wheel, &life->timer.timer);
  stop_watching(life);
  life->agent->hooks->life_ended(life);
  free(life);
}

static void begin(struct agent_services *services, struct agent_life *life, uint64_t now_ns) {
  weft_agent_t *agent = services->agent;
  pthread_mutex_lock(&agent->lock);
  bool ended = life->ended, watch = !ended && may_watch(agent, life->peer);
  bool messages = !ended && life->peer->messenger;
  int32_t pid = ended ? 0 : life->peer->pid;
  uint64_t start_ticks = ended ? 0 : life->peer->start_ticks;
  pthread_mutex_unlock(&agent->lock);
  if (ended && !life->peer) {
    finish(services, life);
    return;
  }
  if (messages) {
    life->beat_ns = now_ns; // the first at once: it lets the peer count silence from here on
    agent_timer_set(services, &life->timer, now_ns);
  }
  if (watch)
    watch_process(life, pid, start_ticks);
}

// Takes the lists, which the hook below fills with agent->lock held.
static void take_changes(struct agent_services *services, uint64_t now_ns) {
  pthread_mutex_lock(&services->agent->lock);
  struct agent_life *came = services->newcomers, *ended = services->ended;
  services->newcomers = services->ended = NULL;
  for (struct agent_life *life = came; life; life = life->next_came)
    life->begun = true;
  pthread_mutex_unlock(&services->agent->lock);
  while (came) {
    struct agent_life *life = came;
    came = life->next_came;
    begin(services, life, now_ns);
  }
  while (ended) {
    struct agent_life *life = ended;
    ended = life->next_ended;
    finish(services, life);
  }
}

void liveness_peer_changed(weft_agent_t *agent, struct agent_peer *peer, enum weft_agent_event_kind kind) {
  struct agent_services *services = agent->services;
  struct agent_life *life = peer->life;
  if (!services)
    return;
  if (kind == WEFT_AGENT_EVENT_PEER_LOADED) {
    life = calloc(1, sizeof *life);
    if (!life) {
      log_warn("agent %s: no memory to watch over %s", agent->name, peer->name);
      return;
    }
    uint64_t limit = agent->options.peer_timeout_ms, beats = (uint64_t)peer->heartbeat_ms * PATIENCE_BEATS;
    *life = (struct agent_life){.timer = {.fired = fired},
                                .agent = agent,
                                .peer = peer,
                                .id = peer->id,
                                .process = {.fd = -1},
                                .loaded_ns = clock_ns()};
    life->silence_limit_ns = peer->heartbeat_ms == 0 ? 0 : (limit > beats ? limit : beats) * 1000000u;
    LIST_INIT(&life->connections);
    life->next_came = services->newcomers;
    services->newcomers = life;
    peer->life = life;
    agent_wake(agent);
  } else if (kind != WEFT_AGENT_EVENT_PEER_UPDATED && life) {
    peer->life = NULL;
    life->ended = true;
    if (life->begun) {
      life->next_ended = services->ended;
      services->ended = life;
    } else {
      life->peer = NULL; // begin() frees it
    }
    agent_wake(agent);
  }
}

struct agent_life *liveness_of(weft_agent_t *agent, weft_peer_t id) {
  pthread_mutex_lock(&agent->lock);
  struct agent_peer *peer = id == WEFT_PEER_SELF ? NULL : agent_peer_get(agent, id);
  struct agent_life *life = peer ? peer->life : NULL; // it is freed by housekeeping only
  pthread_mutex_unlock(&agent->lock);
  return life;
}

uint64_t liveness_tick(struct agent_services *services, uint64_t now_ns) {
  uint64_t gap = now_ns > services->last_tick_ns ? now_ns - services->last_tick_ns : 0, limit = gap_limit_ns(services);
  if (gap > limit)
    services->blind_until = now_ns;
  services->watched_ns += gap > limit ? limit : gap;
  services->last_tick_ns = now_ns;
  take_changes(services, now_ns);
  struct wheel_timer *timer;
  for (int i = 0; i < MAX_FIRED && (timer = wheel_expire(&services->wheel, now_ns)); i++)
    ((struct agent_timer *)timer)->fired((struct agent_timer *)timer, now_ns);
  take_changes(services, now_ns);
  uint64_t next = wheel_next(&services->wheel);
  return next == UINT64_MAX || next < now_ns + limit / 2 ? next : now_ns + limit / 2; // often enough to see a gap
}

void liveness_close(struct agent_services *services) {
  take_changes(services, clock_ns());
}
