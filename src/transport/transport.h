// A transport moves bytes between regions of two workers, and carries small messages. The layers above (agent, EP)
// choose one and drive it; nothing here starts a thread of its own unless its comment says so.
//
// Rules for all of the table's functions:
// - Threads: one at a time for one worker and all that belongs to it. With TRANSPORT_CONCURRENT_POST, post() may run in
//   any number of threads beside anything else (of different requests).
// - Nothing blocks unless its comment says so. Only `open`, `close`, `reg`, `connect`, `import` and `prepare` allocate.
// - Results: 0 or a negative enum weft_err, with fail()'s sentence; outputs are written only on success; what failed
//   left nothing behind.
// - A back end embeds the structs of this file as the first member of its own, and fills in only what is said to be the
//   transport's.
// - Callbacks (`on_message`, `on_peer`, request.done) run inside post(), progress(), cancel() or close(), in the thread
//   that called; they may call post() of other requests, and nothing else of the worker. A post() that runs beside
//   other calls (TRANSPORT_CONCURRENT_POST) calls none but `done`.
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/agent.h>

enum {
  TRANSPORT_KINDS = 4,                // of enum weft_memory_kind
  TRANSPORT_MAX_MESSAGE = 4096 + 128, // bytes that every transport with messages carries
  TRANSPORT_MAX_ADDRESS = 4096,       // of a worker's address
  TRANSPORT_MAX_KEY = 1024,           // of a packed region
  TRANSPORT_END_MS = 1000,            // from cancel() or disconnect() to the end of a request
};

// What a transport can do; `kinds` are bits 1 << enum weft_memory_kind.
struct transport_abilities {
  uint32_t local_kinds;  // of the initiator's pieces
  uint32_t remote_kinds; // of the peer's
  uint32_t flags;
  uint32_t max_pieces; // of a request; 0: no limit
};

enum transport_flag {
  TRANSPORT_MESSAGES = 1 << 0,        // carries messages
  TRANSPORT_OTHER_HOSTS = 1 << 1,     // reaches other hosts
  TRANSPORT_ONE_SIDED = 1 << 2,       // data needs no progress() at the peer
  TRANSPORT_CONCURRENT_POST = 1 << 3, // see above
  TRANSPORT_SELF_ONLY = 1 << 4,       // the only peer is the worker itself (storage)
  TRANSPORT_REPORTS_DEATH = 1 << 5,   // on_peer comes soon after a peer's process has died
  TRANSPORT_MAPS = 1 << 6,            // map() can give a pointer
  TRANSPORT_MAPPED_ONLY = 1 << 8,     // of peers' host memory, only such as has a descriptor
  TRANSPORT_LENGTHS = 1 << 7,         // lengths of a prepared request may change, see struct transport_request
  TRANSPORT_MOVES = 1 << 9,           // and so may its addresses
};

struct transport;
struct transport_worker;
struct transport_region;
struct transport_peer;
struct transport_remote;
struct transport_request;

// A message has arrived; its bytes are valid until this returns, and have to name their sender.
typedef void (*transport_message_fn)(void *arg, const void *bytes, size_t size);
// A peer cannot be reached any more; its requests have ended, or will end with PEER_LOST. Once for each peer at most,
// after the messages of it that have arrived.
typedef void (*transport_peer_fn)(void *arg, struct transport_peer *peer, int err, const char *why);

// `size` first, as the public structs: what is zero has its default.
struct transport_options {
  size_t size;
  transport_message_fn on_message; // NULL: messages are dropped
  transport_peer_fn on_peer;       // may be NULL
  void *arg;
  const char *device; // NIC or interface to use ("mlx5_0:1", "eth0"); NULL: the transport's or the environment's choice
  const char *const *settings; // "name=value" of this transport's own table, NULL at the end; may be NULL
  bool threads;                // different threads will call (one at a time); false: always the same one
  const char *owner; // whose worker it is: text that no other worker has, such as a name and an incarnation; NULL:
                     // nobody's. connect() accepts its addresses for that owner only
  bool unasked;      // nobody named the transport: it is opened because it is there, and uses nothing that trusts the
                     // network. UNSUPPORTED: it has nothing else
};

// An opened transport; what it reaches and is reached by.
struct transport_worker {
  const struct transport *transport;
  struct transport_abilities abilities; // of this one: may be less than the table's
  char lacks[256];                      // why, where there is something to say
  struct transport_options options;     // its strings are not kept
};

// What to register. HOST memory with a descriptor can be mapped by peers.
struct transport_memory {
  enum weft_memory_kind kind;
  void
      *address; // ucx: NULL has UCX allocate memory that peers of this host reach one-sided; the region has its address
  uint64_t length;
  int32_t device;
  int fd; // HOST: a memfd whose bytes from fd_offset on are `address`, or -1. CUDA: exportable handle or -1. FILE: open
  uint64_t fd_offset;
  const char *path; // OBJECT: bucket/key; FILE: for messages
  bool read_only;
};

struct transport_region {
  struct transport_worker *worker;
  struct transport_memory memory; // the descriptor and the strings stay the caller's and outlive the region
};

struct transport_peer {
  struct transport_worker *worker;
  void *arg;  // the caller's
  int failed; // 0, or why no request can succeed any more
};

// A peer's region, from here.
struct transport_remote {
  struct transport_peer *peer;
  enum weft_memory_kind kind;
  uint64_t address, length; // as its owner knows them
  bool copies;              // what a WRITE brings there is read by the processor: see struct transport_request
};

// A run of bytes on both sides, within one region each.
struct transport_piece {
  struct transport_region *local;
  struct transport_remote *remote;
  uint64_t local_address;  // HOST, CUDA: an address in this process; storage: offset
  uint64_t remote_address; // HOST, CUDA: an address in the peer's space; storage: offset
  uint64_t length;
};

enum { TRANSPORT_IN_FLIGHT = 1 };

// One posted thing: pieces, then a message; either may be missing. It is the caller's, who keeps it, its pieces and its
// message unchanged from prepare() to unprepare(); but where the transport has TRANSPORT_LENGTHS, between posts a
// piece's may be set to anything up to what it was at prepare(), 0 included, which leaves the piece out; and everywhere
// the size of a message, from 1 on. Where it has TRANSPORT_MOVES, a piece's addresses may be set, too: the caller sees
// to it that the piece lies within its regions, since a post checks nothing. A WRITE to a remote that `copies` may have
// any of this process's host memory in the place of its pieces' from prepare(): set their local_address between posts,
// and have `taken` called. It can be posted again whenever it is not in flight.
struct transport_request {
  struct transport_peer *peer;
  enum weft_transfer_op op;
  const struct transport_piece *pieces;
  uint32_t num_pieces;
  int32_t *status;       // [num_pieces] of the last post, written before `state`; NULL: nobody asks
  const void *message;   // the peer's on_message gets it once all data is visible there, never if a piece failed. The
  uint32_t message_size; // bytes may be changed between posts. READ: when the data has been read
  void (*done)(struct transport_request *request); // after `state` has left IN_FLIGHT; may be NULL
  // Once at most, in flight: nothing reads the pieces' local memory any more. May be NULL; only where remotes copy.
  void (*taken)(struct transport_request *request);
  void *arg;
  // The transport's:
  _Atomic int state; // IN_FLIGHT; 0: all data is visible at its destination, and the message is on its way; negative.
                     // Stored with release, last of all, when nothing touches the pieces any more
  uint64_t moved;    // bytes of the last post, as far as known
  char why[120];     // of a failure
  void *own;         // from prepare()
};

// What a request costs, roughly; for choosing, explaining and estimating.
struct transport_cost {
  uint64_t latency_ns; // of the first byte
  uint64_t piece_ns;   // of each further piece
  uint64_t bytes_per_s;
  uint64_t gpu_piece_ns; // what a piece costs more for each side of it that is memory of a GPU
};

struct transport {
  const char *name;
  const char *what; // a few words for people, below 63 bytes: weft_transport_info has no room for more
  struct transport_abilities abilities;

  // Whether it works here, and if not, why in words. Says nothing of peers. May block for some milliseconds. Any
  // thread.
  int (*probe)(char *why, size_t cap);

  // The version of the library below it, in digits and points. Any thread. NULL: it has none that says so.
  void (*version)(char *text, size_t cap);
  // The bytes of that object, from its server; blocks, at most for `timeout_ms`. Any thread, beside everything but
  // close(). NOT_FOUND: there is no such object. NULL: it knows no objects.
  int (*query)(struct transport_worker *worker, const char *path, uint32_t timeout_ms, uint64_t *length);

  // May block for some milliseconds.
  int (*open)(const struct transport_options *options, struct transport_worker **worker);
  // Ends all requests in flight with CANCELED, first; frees peers, remotes and regions that are left. Blocks until no
  // memory is touched any more, for some seconds at most.
  void (*close)(struct transport_worker *worker);
  // What connect() of other workers needs; `*size` is the space on entry, TRANSPORT_MAX_ADDRESS suffices.
  int (*address)(struct transport_worker *worker, void *bytes, size_t *size);

  int (*reg)(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
  // The caller has seen to it that no request uses it. Peers' requests that are under way fail or end before it returns
  // where the hardware or the kernel fences memory; else they may still write, as its owner's documentation says.
  void (*unreg)(struct transport_region *region);
  // What import() needs; `*size` is the space on entry, TRANSPORT_MAX_KEY suffices.
  int (*pack)(struct transport_region *region, void *bytes, size_t *size);

  // Makes ready to reach the worker of that address (one's own is legal). UNREACHABLE: this transport cannot, e.g. for
  // another host; the sentence says why. AUTH: the process that it names has not made it, or not for `owner`, which is
  // the text that the peer's worker was opened with (NULL: none), as the caller knows it by itself and not by what
  // brought the address: so nobody gives another's address, or the caller's, as his own. A peer that does not answer
  // shows in on_peer, later. May block for milliseconds, not for the peer's sake.
  int (*connect)(struct transport_worker *worker, const void *address, size_t size, const char *owner,
                 struct transport_peer **peer);
  // Its requests end with CANCELED, as soon as after cancel(); when the last one has, the peer and its remotes are
  // freed. The caller uses neither from here on.
  void (*disconnect)(struct transport_peer *peer);
  // Severs what that peer's worker can reach this one by: from the return on nothing changes this worker's memory that
  // it started before, nor what it starts before it connects to this worker anew. What it was doing fails there. What
  // this worker does with the peer, and other peers, go on. A transport that cannot says so in its comment. May block
  // for the peer's sake, for a fifth of a second at most. NULL: it cannot, or its peer is itself.
  void (*fence)(struct transport_peer *peer);
  // PROTOCOL: malformed. AUTH: not made by that peer's worker, or changed. UNREACHABLE: that region cannot be reached
  // this way.
  int (*import)(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);
  void (*release)(struct transport_remote *remote);
  // A pointer through which this process reads and writes the peer's bytes from remote->address on; NULL: there is
  // none. Valid until release(). NULL in the table: never.
  void *(*map)(struct transport_remote *remote);

  // Makes what post() needs; the request's pieces, peer and op are set.
  int (*prepare)(struct transport_request *request);
  // The request is not in flight. Its peer may be gone, by disconnect() or close().
  void (*unprepare)(struct transport_request *request);
  // Messages of requests without pieces come in the order of their posts to that peer; others when their data is there.
  // Starts it. 0: `state` says how it stands; it may have ended already. Negative: it was not started, `state` is that
  // code, done() is not called. No allocation, no lock, no wait for the peer.
  int (*post)(struct transport_request *request);
  // Asks that it ends soon. It has ended, with CANCELED or as it happened to, when `state` says so: here or in
  // progress(), and only when nothing can touch its memory any more. That is within TRANSPORT_END_MS of calls of
  // progress(), whatever its peer does, which may be stopped or out of reach: at last by force, and the peer has failed
  // then. A transport that cannot end some so says in its comment which; they end with close().
  void (*cancel)(struct transport_request *request);

  // Moves everything on; returns the number of things that happened. Does not wait.
  uint32_t (*progress)(struct transport_worker *worker);
  // A descriptor that is readable when progress() has something to do, after arm() returned 0; -1: there is none, poll.
  int (*fd)(struct transport_worker *worker);
  // Before sleeping on fd(): 0, or BUSY: call progress() first. NULL when fd() is always -1 or needs no arming.
  int (*arm)(struct transport_worker *worker);

  // Towards that peer (NULL: in general).
  void (*cost)(struct transport_worker *worker, const struct transport_peer *peer, struct transport_cost *cost);
};

// --- registry.c: all transports ---

// The transport of that name: built in, or a plug-in, which is loaded now (and kept). NOT_FOUND: there is none of that
// name; UNSUPPORTED: not in this build, or its libraries are missing, in words. Any thread. "fault:SEED:SCRIPT:NAME" is
// the transport NAME with faults on purpose, see fault/fault.h.
int transport_find(const char *name, const struct transport **transport);

// Names of all that this version knows of, built or not, NULL at the end; best first, which breaks ties of cost.
const char *const *transport_names(void);

#endif
