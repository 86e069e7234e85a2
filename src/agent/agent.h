// What an agent is inside, and how its parts meet.
//
// Locks, in the order in which they are taken:
//   tending       (recursive) the housekeeping: one thread at a time looks after deadlines, peers and descriptors
//   lock          regions, lists, transfers, the table of peers
//   worker locks  one for each worker, in their order: calls of the worker's transport, and what its callbacks read
// post and poll take none of them: they try a worker's lock, and leave what they want done to its holder
// (progress/submit.c). Callbacks of transports run with a worker's lock held, so they touch nothing that `lock` guards.
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/agent.h>

#include "agent/metadata/description.h"
#include "base/time/trace.h"
#include "device/device.h"
#include "secure/exchange.h"
#include "topology/served/serve.h"
#include "transport/transport.h"

enum {
  AGENT_MAX_WORKERS = 8,
  AGENT_MAX_PEERS = 1 << 16,   // that live
  AGENT_MAX_FOREIGN = 1 << 20, // regions of all peers: some 700 MB
  AGENT_CREDITS = 1024,        // unread notifications of one peer
  AGENT_CREDIT_BATCH = 256,    // the reader tells the sender after so many
  AGENT_NEWS = 1024,           // messages of a peer that wait for housekeeping: more than its regions gone at once
  AGENT_MAX_DETAIL = 160,      // bytes of a sentence that is kept
  AGENT_PEER_SLOT_BITS = 24    // of a weft_peer_t: its slot + 1; above them the slot's generation
};

// --- metadata, decoded (metadata/describe.c, peer/load.c) ---

// The key that its metadata and that of others is sealed with; NULL: it has no token. [any]
#define agent_seal(agent) ((agent)->seals ? (agent)->seal : NULL)

// Host, process. [open]
void agent_identify(weft_agent_t *agent);

// Fills one in from the agent; free() frees it. `regions` NULL: all but those of no_metadata, and then all_regions is
// set. [any, takes lock and worker locks]
int agent_describe(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions, bool with_addresses,
                   struct agent_description **description);

// Makes a peer of it or updates the one that it names, all or nothing; nothing of the description is kept. `only`: the
// one peer that it may speak of; 0: any. EXISTS: a living peer of that name is of another incarnation, or it is this
// agent's name; NOT_FOUND: a partial one of an unknown peer; UNREACHABLE: no transport reaches it, the text says why;
// PROTOCOL: it contradicts itself, or speaks of another than `only`; LIMIT: it is more than an agent holds of a peer,
// or of all. Its own description gives WEFT_PEER_SELF. [any, takes lock and worker locks; tells on_event]
int agent_adopt(weft_agent_t *agent, const struct agent_description *description, weft_peer_t only, weft_peer_t *peer);

// Regions of a living peer have gone, by its own word. [any, takes lock and worker locks; tells on_event]
void agent_regions_gone(weft_agent_t *agent, weft_peer_t peer, const uint64_t *ids, uint32_t count);

// --- regions (memory/region.c, memory/region_index.c) ---

// A region of this agent or of a peer.
struct agent_region {
  weft_region_t id;
  enum weft_memory_kind kind;
  uint64_t address, length; // FILE, OBJECT: address 0; length UINT64_MAX: no limit
  int32_t device;
  bool read_only, no_metadata;
  bool described;            // own: metadata was made that has it
  bool gone;                 // of a peer: it was deregistered, or the peer is
  uint32_t lists;            // that use it
  struct agent_peer *of;     // whose it is: a peer's, or &agent->self
  struct agent_region *next; // among a peer's orphans
  // By worker. Of this agent: `local`. `remote` comes when a transfer first needs it, for this agent by loopback.
  struct transport_region *local[AGENT_MAX_WORKERS];
  struct transport_remote *remote[AGENT_MAX_WORKERS];
  char *why[AGENT_MAX_WORKERS]; // why this worker does not have it; NULL: it was not asked
  // Of this agent: what it owns.
  void *mapping;               // of weft_agent_allocate(); HOST
  struct device_window window; // likewise; CUDA
  struct device *gpu;
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

// --- workers and what they are given (worker.c, progress/submit.c) ---

// A request of a transport, on its way there. Its owner embeds it.
struct agent_post {
  struct transport_request request; // first; done and arg are progress/submit.c's
  struct agent_worker *worker;
  void *owner;
  struct agent_post *next;   // in the worker's queue
  _Atomic bool queued;       // in it
  _Atomic bool wanted;       // to be posted
  _Atomic bool posting;      // inside the transport's post(), outside of the worker's lock
  _Atomic uint32_t number;   // counts its starts
  _Atomic uint32_t canceled; // the start that is to be cancelled
  bool prepared;             // worker lock
  // It has ended: `err` is 0 or a code, and request.why says more. Inside a callback of the transport or in the thread
  // that started it; nothing touches the post afterwards.
  void (*ended)(struct agent_post *post, int err);
};

struct agent_worker {
  const struct transport *transport;
  struct transport_worker *worker;
  weft_agent_t *agent;
  uint32_t index;
  bool concurrent; // TRANSPORT_CONCURRENT_POST
  int fd;          // the transport's, to sleep on; -1: none
  _Atomic uint32_t lock;
  _Atomic uint32_t waiting; // for the worker's lock: who spins on it steps back
  _Alignas(64) _Atomic(struct agent_post *) queue;
  struct agent_link *failed_links; // worker lock: for housekeeping
  char nics[TOPOLOGY_SERVED_WHY];  // which it uses and why, in words; "": there is nothing to say
  struct trace_name traces[2];     // by enum weft_op: what profilers call its transfers
  char trace_texts[2][48];
  _Alignas(64) _Atomic(struct agent_note *)
      spare_notes[2]; // small and large; taken with the worker's lock, given back by any
};

// --- peers (peer/table.c, peer/teardown.c, peer/load.c) ---

struct agent_life;

enum agent_peer_state { AGENT_PEER_ALIVE, AGENT_PEER_LEFT, AGENT_PEER_LOST };

// A peer as one worker reaches it.
struct agent_link {
  struct agent_peer *peer;
  struct agent_worker *worker;
  struct transport_peer *to; // NULL: this worker does not reach it
  struct agent_link *next_failed;
  _Atomic int failed;         // by on_peer
  char why[AGENT_MAX_DETAIL]; // why `to` is NULL, or it failed
  struct agent_meter *meter;  // counters: metrics/metrics.c's
};

struct agent_peer {
  weft_peer_t id; // WEFT_PEER_SELF: this agent
  char name[WEFT_AGENT_MAX_NAME];
  uint64_t incarnation;
  uint64_t mark_in, mark_out; // of messages from it, and to it: only the two of them know these (peer/load.c)
  _Atomic int failed;         // 0: alive; else what post gives
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
  struct agent_region *orphans;    // gone, but in use by lists
  struct weft_list *lists;         // of its regions
  struct weft_transfer *transfers; // with it
  bool torn;                       // ended, and let go of by the transports
  // Notifications to it: those in flight, and how far the reader is behind what has arrived (peer/message_send.c).
  _Atomic uint64_t sent;                // the newest number
  _Atomic uint64_t arrived;             // the highest number that has arrived
  _Atomic uint64_t read;                // the highest number that it says it has read
  _Atomic uint32_t on_way;              // in flight
  struct agent_letter *letters;         // all; lock of the messenger
  _Atomic(struct agent_letter *) spare; // those that are not in flight; taken with that lock
  _Atomic uint32_t flying;              // letters in flight
  // From it.
  _Atomic uint32_t unread;
  _Atomic uint32_t news;  // messages that housekeeping has not read
  _Atomic bool flooded;   // it has sent more than it may, which was said
  _Atomic uint64_t taken; // the highest number that the application has taken
  _Atomic uint64_t told;  // of that, what the peer knows
  struct agent_peer *next_by_name, *next_by_mark;
  struct agent_peer *next; // among the dying, or the free
  struct agent_life *life; // liveness and sockets; NULL: it has none
};

struct agent_peers {
  struct agent_peer **slots;
  uint32_t count, capacity, living;
  struct agent_peer *free_first, *free_last; // torn and let go of, oldest first
  uint32_t num_free;
  struct agent_peer **by_name; // chains by hash; living ones
  struct agent_peer **by_mark; // likewise; changed with all worker locks held, read with any
  uint32_t mask;
};

// The peer of that id, dead or alive; NULL: there is none any more. [lock]
struct agent_peer *agent_peer_get(weft_agent_t *agent, weft_peer_t id);
// The living peer of that name; NULL. [lock]
struct agent_peer *agent_peer_named(weft_agent_t *agent, const char *name);
// The living peer whose messages bear that mark, this agent itself too; NULL. [any worker lock]
struct agent_peer *agent_peer_of(weft_agent_t *agent, uint64_t mark);

// Ends a living peer: `kind` is LEFT or LOST. Its transfers in flight are cancelled and end with PEER_LOST. Does
// nothing when it has ended. [any; takes lock and worker locks; tells on_event]
void agent_peer_end(weft_agent_t *agent, weft_peer_t id, enum weft_agent_event_kind kind, const char *why);

static inline void agent_peer_lost(weft_agent_t *agent, weft_peer_t id, const char *why) {
  agent_peer_end(agent, id, WEFT_AGENT_EVENT_PEER_LOST, why);
}

// --- messages (peer/message.h, peer/message_send.c) ---

enum agent_message_kind {
  AGENT_NOTIFICATION = 1,
  AGENT_CREDIT = 2,    // the header says it all
  AGENT_HEARTBEAT = 3, // likewise: every message is a sign of life
  AGENT_GOODBYE = 4,
  AGENT_UPDATE = 5, // of what is known of the sender: liveness/region_updates.c
};

// Sends a message of at most WEFT_AGENT_MAX_NOTIFICATION bytes, in order after those sent before. NOT_CONNECTED: no
// transport carries messages to it; PEER_LOST. [any, takes the messenger's lock; not from callbacks]
int agent_send(weft_agent_t *agent, struct agent_peer *peer, enum agent_message_kind kind, const void *bytes,
               uint32_t size);

// --- descriptors that housekeeping watches (progress/progress.c) ---

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

// --- lists and transfers (memory/descriptor_list.c, transfer/coalesce.c, transfer/*.c) ---

struct agent_span {
  uint64_t address, length;
  struct agent_region *region;
};

struct weft_list {
  weft_agent_t *agent;
  struct agent_peer *peer; // &agent->self: of this agent
  enum weft_memory_kind kind;
  uint32_t count, num_regions;
  struct agent_span *spans;
  struct agent_region **regions; // those that the spans lie in, each once
  uint32_t transfers;            // that use it; lock
  _Atomic uint64_t broken;       // id of a region of it that has gone; 0: none
  struct weft_list *next, **back;
};

// Of a transfer's state, while it is not 0 or a code.
enum {
  AGENT_IN_FLIGHT = 1,
  AGENT_SLEEPER = 2, // somebody sleeps on the state
  AGENT_EVENT = 4,   // the event descriptor wants to know
  AGENT_NEVER = 8,   // not posted yet
};

struct weft_transfer {
  // What post and poll touch comes first.
  _Atomic int state;
  _Atomic uint32_t left; // parts in flight
  _Atomic int err;       // the first failure
  uint32_t num_parts;
  struct agent_post *parts;
  weft_agent_t *agent;
  struct agent_peer *peer;
  struct weft_list *local, *remote; // the caller's
  struct agent_link *link;
  _Atomic uint32_t number; // counts posts
  _Atomic uint64_t ending; // of post `number`: number << 8 | -code, when it was asked to end early
  uint64_t posted_ticks, timeout_ticks, timeout_ns;
  uint64_t range; // a profiler's, from post to end
  _Atomic uint64_t deadline_ticks;
  uint64_t bytes; // of all pieces
  uint32_t polls;
  enum weft_op op;   // as the caller sees it
  uint64_t sequence; // of its notification in the last post
  uint8_t *message;  // header and notification; NULL: none
  uint32_t message_size;
  struct agent_post *letter; // sends it when the last part has ended well; NULL: the only part carries it
  int event_fd;
  _Atomic uint32_t leaving; // threads that still touch it though its state is final

  struct transport_piece *pieces;
  int32_t *status;    // [num_pieces]
  uint32_t *piece_of; // [num_pairs]; NULL: pair i is piece i
  uint32_t num_pieces, num_pairs;
  uint64_t estimate_ns;
  char *explanation;
  char why[AGENT_MAX_DETAIL + WEFT_AGENT_MAX_NAME + 64];
  struct weft_transfer *next, **back; // of the agent
  struct weft_transfer *next_of_peer, **back_of_peer;
};

// Has post `number` of it end with `code`, unless it ends before. [any]
void agent_transfer_stop(weft_transfer_t *transfer, uint32_t number, int code);
// Whether it is in flight. [any]
static inline bool agent_transfer_flies(weft_transfer_t *transfer) {
  int state = atomic_load(&transfer->state);
  return state > 0 && (state & AGENT_IN_FLIGHT);
}

// How long it still has; 0: its time is over. [any]
uint64_t agent_transfer_left_ns(const weft_transfer_t *transfer);

// --- hooks: calls from lower folders to higher ones (open.c has the table) ---
//
// progress < memory < metadata < metrics, peer < transfer < liveness < exchange < services.c, housekeeping.c < open.c

struct agent_hooks {
  // Housekeeping; returns when it is due next (CLOCK_MONOTONIC, ns). [tending]
  uint64_t (*tick)(weft_agent_t *agent, uint64_t now_ns);
  // Callbacks of transports: agent_worker is the argument. [worker lock]
  void (*message)(void *worker, const void *bytes, size_t size);
  void (*link_failed)(void *worker, struct transport_peer *peer, int err, const char *why);
  // A region that was described goes: peers are told so when regions_changed() has been called. [lock]
  void (*region_gone)(weft_agent_t *agent, weft_region_t region);
  // The regions that peers are told of have changed. [any thread, no lock]
  void (*regions_changed)(weft_agent_t *agent);
  // The transfers of a peer that has ended: stops them; lets the transports go of them. [lock; lock and all worker
  // locks]
  void (*stop_transfers)(struct agent_peer *peer);
  void (*unprepare_transfers)(struct agent_peer *peer);
  // A peer came (`kind` LOADED: sets peer->life), changed, or ended (frees peer->life). [lock: calls nothing that takes
  // one]
  void (*peer_changed)(weft_agent_t *agent, struct agent_peer *peer, enum weft_agent_event_kind kind);
  // The peer is about to be forgotten here: tells it, so that it does not take silence for death. [no lock]
  void (*forget_peer)(weft_agent_t *agent, weft_peer_t peer);
  // A GOODBYE or UPDATE came. [tending]
  void (*control_message)(weft_agent_t *agent, weft_peer_t peer, enum agent_message_kind kind, const void *bytes,
                          uint32_t size);
  // A peer has ended: its connections end too. [tending]
  void (*life_ended)(struct agent_life *life);
};

// --- the agent ---

struct weft_agent {
  // What post, poll and a sleeping thread touch comes first.
  _Atomic uint64_t in_flight; // transfers
  _Atomic uint64_t tend_ns;   // when housekeeping is due
  _Atomic bool attention;     // it is due now
  _Atomic bool asleep;        // the thread, or whoever waits in its place
  _Atomic bool stop;
  bool has_thread;
  int epoll, wake;
  const struct agent_hooks *hooks;

  char name[WEFT_AGENT_MAX_NAME];
  uint64_t incarnation;
  char host[AGENT_MAX_HOST];
  struct exchange exchange;      // its key pair; the public one decides the incarnation
  bool seals;                    // it has a token,
  uint8_t seal[SECRET_KEY_SIZE]; // from which this is derived: metadata has to be sealed with it
  uint64_t pid_namespace, start_ticks;
  struct weft_agent_options options; // completed; its strings are the agent's own
  char *strings;                     // they stand here

  pthread_mutex_t tending;
  pthread_mutex_t lock;
  struct agent_worker workers[AGENT_MAX_WORKERS];
  uint32_t num_workers;

  // lock
  weft_region_t next_region;
  uint64_t change;  // counts changes of the regions that peers are told of
  uint32_t foreign; // regions of all peers
  struct agent_peers peers;
  struct agent_peer self;
  struct weft_transfer *transfers;
  struct agent_peer *dying; // ended, and not torn yet
  bool closing;

  // notifications that came, first in, first out (peer/message_recv.c)
  struct agent_inbox {
    _Alignas(64) _Atomic(struct agent_note *) last; // pushed by any
    _Alignas(64) struct agent_note *first;          // popped by one
    struct agent_note *held;                        // handed out
    _Atomic bool signalled, watched;                // event_fd: readable; asked for
  } inbox, control;
  int event_fd;
  _Atomic uint64_t dropped; // messages of unknown senders, and beyond the credits

  pthread_t thread; // progress

  struct agent_services *services; // services.c: liveness, exchange, metrics
};

// What post and poll touch of an agent lies in one cache line, and so do the first fields of a transfer.
_Static_assert(offsetof(struct weft_agent, hooks) + sizeof(void *) <= 64, "what post and poll touch comes first");
_Static_assert(offsetof(struct weft_transfer, state) == 0 && offsetof(struct weft_transfer, link) < 80 &&
                   offsetof(struct weft_transfer, polls) < 160,
               "what post and poll touch comes first");

// --- metrics/metrics.c ---

// A transfer over this link has ended: counts it. Allocates nothing, waits for nothing. [any]
void agent_metrics_transfer(struct agent_link *link, enum weft_op op, uint64_t bytes, uint64_t ns, int err);
// Makes link->meter, and frees it. [lock]
int agent_metrics_open(struct agent_link *link);
void agent_metrics_close(struct agent_link *link);

#endif
