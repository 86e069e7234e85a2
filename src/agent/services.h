// Services of an agent beside its transfers: liveness of peers (liveness/), exchange of metadata by sockets and by the
// store (exchange/), and the metrics server (metrics/).
//
// The lock agent->housekeeping guards everything here, except where a comment names another lock.
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
  struct wheel_timer timer; // first member
  void (*fired)(struct agent_timer *timer, uint64_t now_ns);
};

// State of a peer for liveness: peer->life.
struct agent_life {
  struct agent_timer timer; // first member: the next heartbeat, or the end of the silence limit
  weft_agent_t *agent;
  struct agent_peer *peer; // valid until `ended`
  weft_peer_t id;
  struct agent_watch process; // a pidfd; fd -1: none
  uint64_t beat_ns;           // when the next heartbeat is due
  bool has_begun;             // the first heartbeat was sent
  uint64_t silence_limit_ns;  // longest time for which it may be silent; 0: no limit
  uint64_t loaded_ns;         // silence is measured only if something was received after this time
  uint64_t received_ns;       // peer->received_ns when it was last looked at
  uint64_t silent_from;       // start of the silence, in watched time
  bool ended;                 // agent->lock
  const char *dead;           // why it was found dead; its end is reported when its last messages have been read
  bool left;                  // it said goodbye through its socket, so it is not lost
  bool begun;                 // guarded by agent->lock: it is not in `newcomers` any more
  struct agent_life *next_came, *next_ended;
  LIST_HEAD(, agent_connection) connections;
  char why[AGENT_MAX_DETAIL];
};

struct agent_services {
  weft_agent_t *agent;
  struct wheel wheel;
  _Atomic bool regions_changed;
  uint64_t *gone; // ids of gone regions that peers may still know, until all peers were informed; agent->lock
  uint32_t num_gone, room_gone;
  uint64_t gone_before; // number of regions that have gone before these; changed with both locks held
  bool gone_due;        // some peer was not informed yet

  // Liveness. Watched time does not advance while this process does not check.
  uint64_t watched_ns, last_tick_ns, blind_until;
  struct agent_life *newcomers, *ended; // agent->lock

  struct agent_sockets *sockets;
  pthread_mutex_t store_thread_lock;       // held while the store thread is made
  struct agent_store_thread *store_thread; // the thread that works with the store; NULL: not needed so far
  struct metrics_server *metrics_server;
  bool serves_metrics;                        // metrics_server exists or is being opened
  struct agent_meter past[AGENT_MAX_WORKERS]; // sums of links that no longer exist
};

// Makes the timer fire at `due_ns` or soon after.
void agent_timer_set(struct agent_services *services, struct agent_timer *timer, uint64_t due_ns);

// services.c Opens the services that the options request (listen, ...); the last step of weft_agent_open().
int agent_services_open(weft_agent_t *agent, const struct weft_agent_options *options);
// Sends goodbyes, leaves the store, stops the threads of the services. The transports still work. [no lock]
void agent_services_leave(weft_agent_t *agent);
// Frees agent->services, after the data of all peers. Also called after a failed open.
void agent_services_close(weft_agent_t *agent);
// Does what is due: heartbeats, silent peers. Returns when the next thing is due (CLOCK_MONOTONIC, ns). [housekeeping]
uint64_t agent_services_tick(weft_agent_t *agent, uint64_t now_ns);
void agent_services_regions_changed(weft_agent_t *agent); // hook: regions_changed

// liveness/heartbeat.c
void liveness_peer_changed(weft_agent_t *agent, struct agent_peer *peer,
                           enum weft_agent_event_kind kind); // peer_changed
uint64_t liveness_tick(struct agent_services *services, uint64_t now_ns);
// Frees the rest when the agent closes.
void liveness_close(struct agent_services *services);
// The life of a living peer; NULL: none. [housekeeping]
struct agent_life *liveness_of(weft_agent_t *agent, weft_peer_t id);
// The peer has said goodbye through its socket. True: its last notifications come through a transport and may arrive
// later; the peer ends after a short time, or when the goodbye that follows them has arrived. [housekeeping]
bool liveness_said_goodbye(struct agent_life *life);
// The peer has connected to this agent by another socket: it had closed the earlier one, and has not left.
// [housekeeping]
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
void socket_exchange_update(struct agent_services *services); // sends changed regions to the agents that are connected
// The peer has ended: ends its connections, too.
void socket_exchange_end(struct agent_life *life);

// exchange/store_thread.c: any thread
void store_thread_update(struct agent_services *services); // the regions have changed
void store_thread_leave(struct agent_services *services);  // takes the key back, stops the thread
void store_thread_close(struct agent_services *services);

// metrics/serve.c
void agent_metrics_server_close(struct agent_services *services);

#endif
