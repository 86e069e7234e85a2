// What an agent runs beside its transfers: liveness of peers (liveness/), exchange of metadata by sockets and by the
// store (exchange/), and the server of metrics (metrics/).
//
// Housekeeping (agent->tending) guards all of it, but for what is said to have another lock.
#ifndef AGENT_SERVICES_H
#define AGENT_SERVICES_H

#include <sys/queue.h>

#include "agent/agent.h"
#include "agent/liveness/timer_wheel.h"
#include "agent/metrics/metrics.h"

struct agent_talk;
struct agent_keeper;
struct agent_meet;

struct meta_timer {
  struct wheel_timer timer; // first
  void (*fired)(struct meta_timer *timer, uint64_t now_ns);
};

// A peer as liveness sees it: peer->meta.
struct agent_life {
  struct meta_timer timer; // first: the next heartbeat, or the end of patience
  weft_agent_t *agent;
  struct agent_peer *peer; // until `ended`
  weft_peer_t id;
  struct agent_watch process; // a pidfd; fd -1: none
  uint64_t beat_ns;           // the next heartbeat
  bool has_begun;             // the first was sent
  uint64_t patience_ns;       // it may be silent for so long
  uint64_t loaded_ns;         // silence counts once something was heard after this
  uint64_t heard_ns;          // peer->heard_ns when it was last looked at
  uint64_t silent_from;       // in watched time
  bool ended;                 // agent->lock
  const char *dead;           // found so: why; the end is told when its last messages have been read
  bool begun;                 // likewise: it is no newcomer any more
  struct agent_life *next_came, *next_ended;
  LIST_HEAD(, agent_talk) talks;
  char why[AGENT_MAX_DETAIL];
};

struct agent_meta {
  weft_agent_t *agent;
  struct wheel wheel;
  _Atomic bool regions_changed;
  uint64_t *gone; // ids of regions that peers may know and that have gone, until they are told; agent->lock
  uint32_t num_gone, room_gone;

  // Liveness. Watched time stands still while this process does not look.
  uint64_t watched_ns, last_tick_ns, blind_until;
  struct agent_life *newcomers, *ended; // agent->lock

  struct agent_meet *meet;
  pthread_mutex_t keeper_lock; // makes the keeper
  struct agent_keeper *keeper; // the store's side; NULL: not needed so far
  void *metrics_server;
  struct agent_meter past[AGENT_MAX_WORKERS]; // sums of links that have gone
};

// Has the timer fire at `due_ns` or soon after.
void meta_timer_set(struct agent_meta *meta, struct meta_timer *timer, uint64_t due_ns);

// services.c
// Opens what the options ask for (listen, ...); last in weft_agent_open().
int agent_meta_open(weft_agent_t *agent, const struct weft_agent_options *options);
// Says goodbye, leaves the store, stops what runs of its own. The transports still work. [no lock]
void agent_meta_leave(weft_agent_t *agent);
// Frees agent->meta; the peers' are gone. Also after a failed open.
void agent_meta_close(weft_agent_t *agent);
// What is due: heartbeats, silent peers. Returns when it is due next (CLOCK_MONOTONIC, ns). [tending]
uint64_t agent_meta_tick(weft_agent_t *agent, uint64_t now_ns);
void agent_meta_regions(weft_agent_t *agent); // hook: regions_changed

// liveness/heartbeat.c
void agent_meta_peer(weft_agent_t *agent, struct agent_peer *peer, enum weft_agent_event_kind kind); // peer_changed
uint64_t liveness_tick(struct agent_meta *meta, uint64_t now_ns);
// Frees what is left, at the end.
void liveness_close(struct agent_meta *meta);
// The life of a living peer; NULL. [tending]
struct agent_life *liveness_of(weft_agent_t *agent, weft_peer_t id);

// liveness/region_updates.c: messages to all peers, and hooks
void agent_meta_message(weft_agent_t *agent, weft_peer_t peer, enum agent_message_kind kind, const void *bytes,
                        uint32_t size);
void agent_meta_forget(weft_agent_t *agent, weft_peer_t peer);
void agent_meta_gone(weft_agent_t *agent, weft_region_t region);
void tell_gone(struct agent_meta *meta); // of regions that have gone since the last call
void tell_goodbye(struct agent_meta *meta);

// exchange/socket_exchange.c
int meet_open(struct agent_meta *meta, const struct weft_agent_options *options);
void meet_leave(struct agent_meta *meta); // says goodbye
void meet_close(struct agent_meta *meta);
void meet_tick(struct agent_meta *meta);   // sends updates that are due, frees connections that have ended
void meet_update(struct agent_meta *meta); // those who met are to learn of changed regions
// The peer has ended: its connections end too.
void meet_end(struct agent_life *life);

// exchange/store_thread.c: any thread
void keeper_update(struct agent_meta *meta); // the regions have changed
void keeper_leave(struct agent_meta *meta);  // takes the key back, stops the thread
void keeper_close(struct agent_meta *meta);

// metrics/http.c
void metrics_server_close(struct agent_meta *meta);

#endif
