// A peer, and the table of all peers: table.c, teardown.c, load.c.
#ifndef AGENT_PEER_PEER_H
#define AGENT_PEER_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/agent.h>

#include "agent/limits.h"
#include "agent/memory/region_index.h"
#include "agent/metadata/description.h"

struct agent_worker;
struct agent_outgoing;
struct agent_event;
struct agent_meter;

struct agent_life;

enum agent_peer_state { AGENT_PEER_ALIVE, AGENT_PEER_LEFT, AGENT_PEER_LOST };

// The link between one worker and a peer.
struct agent_link {
  struct agent_peer *peer;
  struct agent_worker *worker;
  struct transport_peer *to; // NULL: this worker does not reach it
  bool untried; // not tried: the peer had no address for this worker, or the worker was added later; the next metadata
                // may help
  struct agent_link *next_failed;
  _Atomic int failed;         // set by on_peer
  char why[AGENT_MAX_DETAIL]; // why `to` is NULL, or why the link failed
  struct agent_meter *meter;  // counters: metrics/metrics.c's
};

struct agent_peer {
  weft_peer_t id; // WEFT_PEER_SELF: this agent
  char name[WEFT_AGENT_MAX_NAME];
  uint64_t incarnation;
  uint64_t mark_in, mark_out; // marks of messages from the peer and to it: only the two agents know them (peer/load.c)
  _Atomic int failed;         // 0: the peer is alive; else the error of a post
  enum agent_peer_state state;
  char why[AGENT_MAX_DETAIL]; // why it ended
  char host[AGENT_MAX_HOST];  // these fields are copied from its description
  uint64_t pid_namespace, start_ticks, change;
  int32_t pid;
  uint32_t heartbeat_ms;
  _Atomic uint64_t received_ns; // when its last message arrived
  struct agent_link links[AGENT_MAX_WORKERS];
  _Atomic(struct agent_worker *) messenger; // the worker that carries messages to it; NULL: none yet
  struct agent_ranges regions;
  struct agent_region *orphans; // regions that have gone, but that lists still use
  uint64_t *gone;               // ids of regions that the peer reported gone: older metadata may still name them
  uint32_t num_gone, room_gone;
  struct weft_dlist *lists;        // lists of its regions
  struct weft_transfer *transfers; // transfers with it
  uint64_t gone_sent;              // number of ids of gone regions that were sent to it; housekeeping
  bool torn;                       // it has ended, and the transports have released it
  // Notifications to it: those in flight, and how far the reader is behind what has arrived (peer/message_send.c).
  uint64_t numbered_from;                 // numbers up to this one belong to earlier peers
  _Atomic uint64_t sent;                  // the newest number
  _Atomic uint64_t arrived;               // the highest number that has arrived
  _Atomic uint64_t read;                  // the highest number that the peer reports as read
  _Atomic uint32_t on_way;                // number in flight
  struct agent_outgoing *outgoing_all;    // all; lock of the messenger
  _Atomic(struct agent_outgoing *) spare; // those not in flight; taken with that lock held
  _Atomic uint32_t flying;                // outgoing messages in flight
  // Notifications and messages from it.
  _Atomic uint32_t unread;
  _Atomic uint32_t news;         // messages that housekeeping has not read
  _Atomic bool flooded;          // it has sent more messages than it may; this was logged
  _Atomic bool heard;            // a message has arrived
  _Atomic uint64_t taken;        // the highest number that the application has taken
  _Atomic uint64_t num_taken;    // number that the application has taken
  _Atomic uint64_t acknowledged; // the last sequence acknowledged to the peer
  struct agent_peer *next_by_name, *next_by_mark;
  struct agent_peer *next;       // in the list of dying or of free peers
  struct agent_event *end_event; // for its LEFT or LOST: events.c; NULL: it was queued
  struct agent_life *life;       // data of liveness and sockets; NULL: it has none
};

struct agent_peers {
  struct agent_peer **slots;
  uint32_t count, capacity, living;
  struct agent_peer *free_first, *free_last; // torn down and released, oldest first
  uint32_t num_free;
  struct agent_peer **by_name; // living peers, in chains by hash
  struct agent_peer **by_mark; // the same by mark; changed with all worker locks held, read with any of them held
  uint32_t mask;
};

// The peer of that id, dead or alive; NULL: it is forgotten. [lock]
struct agent_peer *agent_peer_get(weft_agent_t *agent, weft_peer_t id);
// The living peer of that name; NULL: none. [lock]
struct agent_peer *agent_peer_named(weft_agent_t *agent, const char *name);
// The living peer whose messages have that mark, which may be this agent itself; NULL: none. [any worker lock]
struct agent_peer *agent_peer_of(weft_agent_t *agent, uint64_t mark);

// Ends a living peer: `kind` is LEFT or LOST. Its transfers in flight are cancelled and end with PEER_LOST. Does
// nothing when it has ended. [any; takes lock and worker locks]
void agent_peer_end(weft_agent_t *agent, weft_peer_t id, enum weft_agent_event_kind kind, const char *why);

static inline void agent_peer_lost(weft_agent_t *agent, weft_peer_t id, const char *why) {
  agent_peer_end(agent, id, WEFT_AGENT_EVENT_PEER_LOST, why);
}

// --- messages: message.h, message_send.c ---

enum agent_message_kind {
  AGENT_NOTIFICATION = 1,
  AGENT_CREDIT = 2,    // the header contains everything
  AGENT_HEARTBEAT = 3, // no content either: every message is a sign of life
  AGENT_GOODBYE = 4,
  AGENT_UPDATE = 5, // changes what is known of the sender: liveness/region_updates.c
};

// Sends a message of at most WEFT_AGENT_MAX_NOTIFICATION bytes, in order after those sent before. NOT_CONNECTED: no
// transport carries messages to it; PEER_LOST. [any, takes the messenger's lock; not from callbacks]
int agent_send(weft_agent_t *agent, struct agent_peer *peer, enum agent_message_kind kind, const void *bytes,
               uint32_t size);

#endif
