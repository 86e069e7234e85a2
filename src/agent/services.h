// What an agent runs beside its transfers: liveness of peers (liveness/), exchange of metadata by sockets and by the
// store (exchange/), and the server of metrics (metrics/).
//
// Housekeeping (agent->housekeeping) guards all of it, but for what is said to have another lock.
#ifndef AGENT_SERVICES_H
#define AGENT_SERVICES_H

#include <sys/queue.h>

#include "agent/agent.h"
#include "agent/liveness/timer_wheel.h"
#include "agent/metrics/metrics.h"

struct agent_connection;
struct agent_store_thread;
struct agent_sockets;

struct agent_timer {
  struct wheel_timer timer; // first
  void (*fired)(struct agent_timer *timer, uint64_t now_ns);
};

// A peer as liveness sees it: peer->life.
struct agent_life {
  struct agent_timer timer; // first: the next heartbeat, or when silence has been too long
  weft_agent_t *agent;
  struct agent_peer *peer; // until `ended`
  weft_peer_t id;
  struct agent_watch process; // a pidfd; fd -1: none
  uint64_t beat_ns;           // the next heartbeat
  bool has_begun;             // the first was sent
  uint64_t silence_limit_ns;  // it may be silent for so long; 0: for ever
  uint64_t loaded_ns;         // silence counts once something was received after this
  uint64_t received_ns;       // peer->received_ns when it was last looked at
  uint64_t silent_from;       // in watched time
  bool ended;                 // agent->lock
  const char *dead;           // found so: why; the end is reported when its last messages have been read
  bool left;                  // it said goodbye by its socket, and is not lost
  bool begun;                 // likewise: it is no newcomer any more
  struct agent_life *next_came, *next_ended;
  LIST_HEAD(, agent_connection) connections;
  char why[AGENT_MAX_DETAIL];
};

struct agent_services {
  weft_agent_t *agent;
  struct wheel wheel;
  _Atomic bool regions_changed;
  uint64_t *gone; // ids of regions that peers may know and that have gone, until all peers know; agent->lock
  uint32_t num_gone, room_gone;
  uint64_t gone_before; // so many have gone before these; changed with both locks
  bool gone_due;        // some peer does not know yet

  // Liveness. Watched time stands still while this process does not look.
  uint64_t watched_ns, last_tick_ns, blind_until;
  struct agent_life *newcomers, *ended; // agent->lock

  struct agent_sockets *sockets;
  pthread_mutex_t store_thread_lock;       // makes the store thread
  struct agent_store_thread *store_thread; // the store's side; NULL: not needed so far
  struct metrics_server *metrics_server;
  bool serves_metrics;                        // by that server, or one that is being opened
  struct agent_meter past[AGENT_MAX_WORKERS]; // sums of links that have gone
};

// Has the timer fire at `due_ns` or soon after.
void agent_timer_set(struct agent_services *services, struct agent_timer *timer, uint64_t due_ns);

// services.c
// Opens what the options ask for (listen, ...); last in weft_agent_open().
int agent_services_open(weft_agent_t *agent, const struct weft_agent_options *options);
// Sends goodbyes, leaves the store, stops the threads of the services. The transports still work. [no lock]
void agent_services_leave(weft_agent_t *agent);
// Frees agent->services; the peers' are gone. Also after a failed open.
void agent_services_close(weft_agent_t *agent);
// What is due: heartbeats, silent peers. Returns when it is due next (CLOCK_MONOTONIC, ns). [housekeeping]
uint64_t agent_services_tick(weft_agent_t *agent, uint64_t now_ns);
void agent_services_regions_changed(weft_agent_t *agent); // hook: regions_changed

// liveness/heartbeat.c
void liveness_peer_changed(weft_agent_t *agent, struct agent_peer *peer,
                           enum weft_agent_event_kind kind); // peer_changed
uint64_t liveness_tick(struct agent_services *services, uint64_t now_ns);
// Frees what is left, at the end.
void liveness_close(struct agent_services *services);
// The life of a living peer; NULL. [housekeeping]
struct agent_life *liveness_of(weft_agent_t *agent, weft_peer_t id);
// The peer has said goodbye by its socket. True: its last notifications come by a transport and may be behind; it ends
// when they have had a moment, or when the goodbye that follows them has come. [housekeeping]
bool liveness_said_goodbye(struct agent_life *life);
// The peer has met this agent by another socket: it had let go of the one before, and has not left. [housekeeping]
void liveness_met_again(struct agent_life *life);

// liveness/region_updates.c: messages to all peers, and hooks
void liveness_control_message(weft_agent_t *agent, weft_peer_t peer, enum agent_message_kind kind, const void *bytes,
                              uint32_t size);
void liveness_forget_peer(weft_agent_t *agent, weft_peer_t peer);
void liveness_region_gone(weft_agent_t *agent, weft_region_t region);
// Sends the ids of regions that have gone to the peers that do not know them yet.
void liveness_send_regions_gone(struct agent_services *services);
void liveness_send_goodbyes(struct agent_services *services);

// exchange/socket_exchange.c
int socket_exchange_open(struct agent_services *services, const struct weft_agent_options *options);
void socket_exchange_leave(struct agent_services *services); // says goodbye
void socket_exchange_close(struct agent_services *services);
void socket_exchange_tick(
    struct agent_services *services); // sends updates that are due, frees connections that have ended
void socket_exchange_update(struct agent_services *services); // those who met are to learn of changed regions
// The peer has ended: its connections end too.
void socket_exchange_end(struct agent_life *life);

// exchange/store_thread.c: any thread
void store_thread_update(struct agent_services *services); // the regions have changed
void store_thread_leave(struct agent_services *services);  // takes the key back, stops the thread
void store_thread_close(struct agent_services *services);

// metrics/serve.c
void agent_metrics_server_close(struct agent_services *services);

#endif
