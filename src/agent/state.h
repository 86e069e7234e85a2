// What an agent is inside, and how its parts meet.
//
// Locks, in the order in which they are taken:
//   tending   (recursive) the housekeeping: one thread at a time looks after deadlines, peers and descriptors
//   lock      regions, lists, transfers, the table of peers
//   turns     one for each worker, in their order: calls of the worker's transport, and what its callbacks read
// post and poll take none of them: they try a turn, and leave what they want done to its holder (turn.c).
// Callbacks of transports run with a turn held, so they touch nothing that `lock` guards.
#ifndef AGENT_STATE_H
#define AGENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/agent.h>

#include "agent/description.h"
#include "transport/transport.h"

enum {
  AGENT_MAX_WORKERS = 8,
  AGENT_CREDITS = 1024,     // unread notifications of one peer
  AGENT_CREDIT_TELL = 256,  // the reader tells the sender after so many
  AGENT_MAX_DETAIL = 160,   // bytes of a sentence that is kept
  AGENT_PEER_SLOT_BITS = 24 // of a weft_peer_t: its slot + 1; above them the slot's generation
};

// --- metadata, decoded (describe.c, adopt.c) ---

// Fills one in from the agent; free() frees it. `regions` NULL: all but those of no_metadata, and then all_regions is
// set. [any, takes lock and turns]
int agent_describe(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions, bool with_addresses,
                   struct agent_description **description);

// Makes a peer of it or updates the one that it names, all or nothing; nothing of the description is kept. EXISTS: a
// living peer of that name is of another incarnation, or it is this agent's name; NOT_FOUND: a partial one of an
// unknown peer; UNREACHABLE: no transport reaches it, the text says why. Its own description gives WEFT_PEER_SELF.
// [any, takes lock and turns; tells on_event]
int agent_adopt(weft_agent_t *agent, const struct agent_description *description, weft_peer_t *peer);

// --- regions (region.c, ranges.c) ---

// A region of this agent or of a peer.
struct agent_region {
  weft_region_t id;
  enum weft_memory_kind kind;
  uint64_t address, length; // FILE, OBJECT: address 0; length UINT64_MAX: no limit
  int32_t device;
  bool read_only, no_metadata;
  bool gone;             // of a peer: it was deregistered, or the peer is
  uint32_t lists;        // that use it
  struct agent_peer *of; // NULL: of this agent
  // By worker. Of this agent: `local`. `remote` comes when a transfer first needs it, for this agent by loopback.
  struct transport_region *local[AGENT_MAX_WORKERS];
  struct transport_remote *remote[AGENT_MAX_WORKERS];
  char *why[AGENT_MAX_WORKERS]; // why this worker does not have it; NULL: it was not asked
  // Of this agent: what it owns.
  void *mapping; // of weft_agent_allocate()
  int fd;
  bool owns_fd;
  char *path;
  // Of a peer: one block for each worker that has a key; NULL: none.
  struct agent_key keys[AGENT_MAX_WORKERS];
};

// Regions by id, and by address.
struct agent_ranges {
  struct agent_region **by_id;
  uint32_t count, capacity;
  struct agent_range {
    uint64_t begin, end;
    uint64_t reach; // the highest end of this one and those before
    struct agent_region *region;
  } * by_address; // HOST and CUDA only, ascending by begin
  uint32_t num_addresses;
};

// --- workers and what they are given (worker.c, turn.c) ---

// A request of a transport, on its way there. Its owner embeds it.
struct agent_post {
  struct transport_request request; // request.arg is the post's matter
  struct agent_worker *worker;
  struct agent_post *next; // in the worker's queue
  _Atomic bool queued;     // in it
  _Atomic bool wanted;     // to be posted
  _Atomic bool posting;    // inside the transport's post(), outside of the turn
  _Atomic bool cancel;     // to be cancelled, when in flight
  bool prepared;
  // It has ended: `err` is 0 or a code. With the turn held, or in the thread that posted; last touch of the post.
  void (*ended)(struct agent_post *post, int err);
};

struct agent_worker {
  const struct transport *transport;
  struct transport_worker *worker;
  weft_agent_t *agent;
  uint32_t index;
  bool concurrent; // TRANSPORT_CONCURRENT_POST
  pthread_mutex_t turn;
  _Atomic uint32_t waiting; // for the turn: who spins on it steps back
  _Alignas(64) _Atomic(struct agent_post *) queue;
  _Alignas(64) _Atomic uint64_t in_flight; // posts that the transport has
  _Atomic bool stuck;                      // a link of it has failed: housekeeping looks
};

// --- peers (peer.c, adopt.c) ---

enum agent_peer_state { AGENT_PEER_ALIVE, AGENT_PEER_LEFT, AGENT_PEER_LOST };

// A peer as one worker reaches it.
struct agent_link {
  struct agent_peer *peer;
  struct agent_worker *worker;
  struct transport_peer *to;  // NULL: this worker does not reach it
  _Atomic int failed;         // by on_peer
  char why[AGENT_MAX_DETAIL]; // why `to` is NULL, or it failed
  struct agent_meter *meter;  // counters: metrics.c's
};

struct agent_peer {
  weft_peer_t id; // WEFT_PEER_SELF: this agent
  char name[WEFT_AGENT_MAX_NAME];
  uint64_t incarnation;
  _Atomic int failed; // 0: alive; else what post gives
  enum agent_peer_state state;
  char why[AGENT_MAX_DETAIL]; // of its end
  char host[AGENT_MAX_HOST];  // these as its description has them
  uint64_t pid_namespace, start_ticks, change;
  int32_t pid;
  uint32_t heartbeat_ms;
  _Atomic uint64_t heard_ns; // its last message came
  struct agent_link links[AGENT_MAX_WORKERS];
  struct agent_worker *messenger; // carries messages to it; NULL: nothing does
  struct agent_ranges regions;
  struct weft_list *lists;         // of its regions
  struct weft_transfer *transfers; // with it
  bool torn;                       // ended, and let go of by the transports
  // Notifications to it: those in flight, and how far the reader is behind what has arrived (notify.c).
  _Atomic uint64_t sent;      // the newest number
  _Atomic uint64_t arrived;   // the highest number that has arrived
  _Atomic uint64_t read;      // the highest number that it says it has read
  _Atomic uint32_t on_way;    // in flight
  struct agent_letter *spare; // letters that are not in flight; turn of the messenger
  uint32_t num_letters;
  // From it.
  _Atomic uint32_t unread;
  _Atomic uint64_t taken; // the highest number that the application has taken
  _Atomic uint64_t told;  // of that, what the peer knows
  struct agent_peer *next_by_name, *next_by_incarnation, *next_free;
  void *meta; // liveness and sockets: agentmeta's
};

struct agent_peers {
  struct agent_peer **slots;
  uint32_t count, capacity, living;
  struct agent_peer *free_first, *free_last; // torn and let go of, oldest first
  uint32_t num_free;
  struct agent_peer **by_name;        // chains by hash; living ones
  struct agent_peer **by_incarnation; // likewise; changed with all turns held, read with any
  uint32_t mask;
};

// The peer of that id, dead or alive; NULL: there is none any more. [lock]
struct agent_peer *agent_peer_get(weft_agent_t *agent, weft_peer_t id);
// The living peer of that name; NULL. [lock]
struct agent_peer *agent_peer_named(weft_agent_t *agent, const char *name);
// The living peer of that incarnation; NULL. [any turn]
struct agent_peer *agent_peer_of(weft_agent_t *agent, uint64_t incarnation);

// Ends a living peer: `kind` is LEFT or LOST. Its transfers in flight are cancelled and end with PEER_LOST. Does
// nothing when it has ended. [any; takes lock and turns; tells on_event]
void agent_peer_end(weft_agent_t *agent, weft_peer_t id, enum weft_agent_event_kind kind, const char *why);

static inline void agent_peer_lost(weft_agent_t *agent, weft_peer_t id, const char *why) {
  agent_peer_end(agent, id, WEFT_AGENT_EVENT_PEER_LOST, why);
}

// --- messages (message.h, notify.c) ---

enum agent_message_kind {
  AGENT_NOTIFICATION = 1,
  AGENT_CREDIT = 2,    // the header says it all
  AGENT_HEARTBEAT = 3, // likewise: every message is a sign of life
  AGENT_GOODBYE = 4,
  AGENT_UPDATE = 5, // metadata
};

// Sends a message of at most WEFT_AGENT_MAX_NOTIFICATION bytes, in order after those sent before. NOT_CONNECTED: no
// transport carries messages to it; PEER_LOST. [any, takes the messenger's turn; not from callbacks]
int agent_send(weft_agent_t *agent, struct agent_peer *peer, enum agent_message_kind kind, const void *bytes,
               uint32_t size);

// --- descriptors that housekeeping watches (tend.c) ---

struct agent_watch {
  int fd;
  uint32_t events;                          // EPOLLIN...
  void (*ready)(struct agent_watch *watch); // [tending]
  void *arg;
};

// ready() does not run any more when remove has returned. [takes tending]
int agent_watch_add(weft_agent_t *agent, struct agent_watch *watch);
void agent_watch_remove(weft_agent_t *agent, struct agent_watch *watch);
// Has the thread look at everything soon. [any]
void agent_wake(weft_agent_t *agent);

// --- the agent ---

struct weft_agent {
  char name[WEFT_AGENT_MAX_NAME];
  uint64_t incarnation;
  char host[AGENT_MAX_HOST];
  uint64_t pid_namespace, start_ticks;
  struct weft_agent_options options; // completed; its strings are the agent's own
  char *strings;                     // they stand here

  pthread_mutex_t tending;
  pthread_mutex_t lock;
  struct agent_worker workers[AGENT_MAX_WORKERS];
  uint32_t num_workers;

  // lock
  struct agent_ranges regions;
  weft_region_t next_region;
  uint64_t change; // counts changes of the regions that peers are told of
  struct agent_peers peers;
  struct agent_peer self;
  struct weft_list *lists; // of its own regions
  bool closing;

  // notifications that came, first in, first out (inbox.c)
  struct agent_inbox *inbox;
  int event_fd;

  // progress
  pthread_t thread;
  bool has_thread;
  _Atomic bool stop;
  _Atomic bool asleep; // the thread, or whoever waits in its place
  int epoll, wake;
  _Atomic uint64_t in_flight; // transfers
  _Atomic uint64_t tend_ns;   // when housekeeping is due
  _Atomic bool attention;     // it is due now

  struct agent_meta *meta; // publish, sockets, liveness, metrics: agentmeta's
};

// --- what the files of metadata and liveness provide ---

// Opens what the options ask for (listen, ...); last in weft_agent_open().
int agent_meta_open(weft_agent_t *agent, const struct weft_agent_options *options);
// Says goodbye, leaves the store, stops what runs of its own. The transports still work. [no lock]
void agent_meta_leave(weft_agent_t *agent);
// Frees agent->meta; the peers' are gone. Also after a failed open.
void agent_meta_close(weft_agent_t *agent);
// What is due: heartbeats, silent peers. Returns when it is due next (CLOCK_MONOTONIC, ns). [tending]
uint64_t agent_meta_tick(weft_agent_t *agent, uint64_t now_ns);
// A GOODBYE or UPDATE came. [tending]
void agent_meta_message(weft_agent_t *agent, weft_peer_t peer, enum agent_message_kind kind, const void *bytes,
                        uint32_t size);
// A peer came (`kind` LOADED: sets peer->meta as it likes), changed, or ended (frees peer->meta). [lock: calls nothing
// that takes one]
void agent_meta_peer(weft_agent_t *agent, struct agent_peer *peer, enum weft_agent_event_kind kind);
// The regions that peers are told of have changed. [any thread, no lock]
void agent_meta_regions(weft_agent_t *agent);
// A transfer over this link has ended: counts it. Allocates nothing, waits for nothing. [any]
void agent_metrics_transfer(struct agent_link *link, enum weft_op op, uint64_t bytes, uint64_t ns, int err);
// Makes link->meter, and frees it. [lock]
int agent_metrics_open(struct agent_link *link);
void agent_metrics_close(struct agent_link *link);

#endif
