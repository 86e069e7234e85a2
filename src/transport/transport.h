// A transport moves bytes between regions of two workers, and carries small messages. The layers above (agent, EP)
// choose one and drive it; nothing here starts a thread of its own unless its comment says so.
//
// Rules for all of the table's functions:
// - Threads: at most one thread at a time calls functions of a worker and of all that belongs to it. With
//   TRANSPORT_CONCURRENT_POST, post() of different requests may run in any number of threads, beside each other and
//   beside any other call.
// - Nothing blocks unless its comment says so. Only `open`, `close`, `reg`, `connect`, `import` and `prepare` allocate.
// - Results: 0 or a negative enum weft_err, with fail()'s sentence; outputs are written only on success; a call that
//   failed leaves nothing to undo.
// - A back end embeds the structs of this file as the first member of its own, and fills in only the fields that a
//   comment calls the transport's.
// - Callbacks (`on_message`, `on_peer`, request.done) run inside post(), progress(), cancel() or close(), in the thread
//   that called; they may call post() of other requests, and no other function of the worker. A post() that runs beside
//   other calls (TRANSPORT_CONCURRENT_POST) calls no callback but `done`.
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/agent.h>

enum {
  TRANSPORT_KINDS = 4,                // values of enum weft_memory_kind
  TRANSPORT_MAX_MESSAGE = 4096 + 128, // bytes; every transport with messages carries messages of this size
  TRANSPORT_MAX_ADDRESS = 4096,       // bytes of a worker's address
  TRANSPORT_MAX_KEY = 1024,           // bytes of a packed region
  TRANSPORT_END_MS = 1000,            // a request ends at most so long after cancel() or disconnect()
};

// What a transport can do; `kinds` are bits 1 << enum weft_memory_kind.
struct transport_abilities {
  uint32_t local_kinds;  // memory kinds of the initiator's pieces
  uint32_t remote_kinds; // memory kinds of the peer's pieces
  uint32_t flags;
  uint32_t max_pieces; // pieces of a request; 0: no limit
};

enum transport_flag {
  TRANSPORT_MESSAGES = 1 << 0,        // carries messages
  TRANSPORT_OTHER_HOSTS = 1 << 1,     // reaches other hosts
  TRANSPORT_ONE_SIDED = 1 << 2,       // the peer need not call progress() for data
  TRANSPORT_CONCURRENT_POST = 1 << 3, // see above
  TRANSPORT_SELF_ONLY = 1 << 4,       // the only peer is the worker itself (storage)
  TRANSPORT_REPORTS_DEATH = 1 << 5,   // on_peer is called soon after a peer's process has died
  TRANSPORT_MAPS = 1 << 6,            // map() can return a pointer
  TRANSPORT_MAPPED_ONLY = 1 << 8,     // reaches peers' host memory only if it has a descriptor
  TRANSPORT_LENGTHS = 1 << 7,         // lengths of a prepared request may change: see struct transport_request
  TRANSPORT_MOVES = 1 << 9,           // addresses may change, too
};

struct transport;
struct transport_worker;
struct transport_region;
struct transport_peer;
struct transport_remote;
struct transport_request;

// A message has arrived; its bytes are valid until this returns, and the message itself has to name its sender.
typedef void (*transport_message_fn)(void *arg, const void *bytes, size_t size);
// A peer cannot be reached any more; its requests have ended, or will end with PEER_LOST. Called at most once for each
// peer, after all messages of the peer that have arrived.
typedef void (*transport_peer_fn)(void *arg, struct transport_peer *peer, int err, const char *why);

// Begins with `size`, like the public structs. A field that is zero has its default.
struct transport_options {
  size_t size;
  transport_message_fn on_message; // NULL: messages are dropped
  transport_peer_fn on_peer;       // may be NULL
  void *arg;
  const char *device; // NIC or interface to use ("mlx5_0:1", "eth0"); NULL: the transport or the environment chooses
  const char *const *settings; // "name=value" settings from this transport's own table, NULL at the end; may be NULL
  bool threads;                // different threads will call (one at a time); false: always the same one
  const char *owner; // the owner of the worker: a text that no other worker has, such as a name and an incarnation;
                     // NULL: none. connect() accepts this worker's address only for this owner
  bool unasked;      // nobody named the transport: it is opened because it is available, and must not use anything that
                     // trusts the network. UNSUPPORTED: it could use nothing else
};

// An opened transport: the end point that reaches peers, and that peers reach.
struct transport_worker {
  const struct transport *transport;
  struct transport_abilities abilities; // abilities of this worker: may be fewer than the table's
  char lacks[256];                      // why abilities are missing, if there is something to say
  struct transport_options options;     // its strings are not kept
};

// What to register. HOST memory with a descriptor can be mapped by peers.
struct transport_memory {
  enum weft_memory_kind kind;
  void *address; // ucx: with NULL, UCX allocates memory that peers of this host reach one-sided, and the region has its
                 // address
  uint64_t length;
  int32_t device;
  int fd; // HOST: a memfd whose bytes from fd_offset on are `address`, or -1. CUDA: exportable handle or -1. FILE: an
          // open descriptor
  uint64_t fd_offset;
  const char *path; // OBJECT: bucket/key; FILE: for messages
  bool read_only;
};

struct transport_region {
  struct transport_worker *worker;
  struct transport_memory memory; // the caller keeps the descriptor and the strings, which outlive the region
};

struct transport_peer {
  struct transport_worker *worker;
  void *arg;  // the caller's
  int failed; // 0, or why no request can succeed any more
};

// A peer's region, as this worker reaches it.
struct transport_remote {
  struct transport_peer *peer;
  enum weft_memory_kind kind;
  uint64_t address, length; // in the owner's address space
  bool copies;              // the processor reads the source of a WRITE to this region: see struct transport_request
};

// A run of bytes on both sides, each within one region.
struct transport_piece {
  struct transport_region *local;
  struct transport_remote *remote;
  uint64_t local_address;  // HOST, CUDA: an address in this process; storage: an offset
  uint64_t remote_address; // HOST, CUDA: an address in the peer's space; storage: an offset
  uint64_t length;
};

enum { TRANSPORT_IN_FLIGHT = 1 };

// `why` of a request that was cancelled while the transport tried again: this, and the reason of the last failure.
#define TRANSPORT_CANCELED_AFTER "cancelled: "

// A request: pieces, then a message; either may be missing. The caller owns it, and keeps it, its pieces and its
// message unchanged from prepare() to unprepare(), with these exceptions. Between posts, the size of a message may be
// changed, from 1 on. With TRANSPORT_LENGTHS, the length of a piece may be set between posts to anything up to its
// length at prepare(); 0 leaves the piece out. With TRANSPORT_MOVES, the addresses of a piece may be set, too: the
// caller makes sure that the piece lies within its regions, since a post checks nothing. A WRITE to a remote that
// `copies` may take its data from any host memory of this process instead of the memory that the pieces had at
// prepare(): set their local_address between posts. `taken` is then called. A request can be posted again whenever it
// is not in flight.
struct transport_request {
  struct transport_peer *peer;
  enum weft_transfer_op op;
  const struct transport_piece *pieces;
  uint32_t num_pieces;
  int32_t *status;       // [num_pieces] of the last post, written before `state`; NULL: not wanted
  const void *message;   // the peer's on_message gets it once all data is visible there (READ: once the data was read),
                         // and never if a piece failed
  uint32_t message_size; // may be changed between posts, like the message's bytes
  void (*done)(struct transport_request *request); // after `state` has left IN_FLIGHT; may be NULL
  // Called at most once for each post, in flight: nothing reads the pieces' local memory any more. May be NULL; called
  // only where remotes copy.
  void (*taken)(struct transport_request *request);
  void *arg;
  // The transport's:
  _Atomic int state; // IN_FLIGHT; 0: all data is visible at its destination, and the message is on its way; negative:
                     // an error. Stored with release, last of all, when nothing touches the pieces any more
  uint64_t moved;    // bytes moved by the last post, as far as known
  char why[120];     // why it failed; see TRANSPORT_CANCELED_AFTER
  void *own;         // made by prepare()
};

// The rough cost of a request, for choosing a transport, explaining the choice and estimating times.
struct transport_cost {
  uint64_t latency_ns; // of the first byte
  uint64_t piece_ns;   // of each further piece
  uint64_t bytes_per_s;
  uint64_t gpu_piece_ns; // additional cost of a piece for each side of it that is GPU memory
};

struct transport {
  const char *name;
  const char *what; // a few words for people, below 63 bytes: weft_transport_info has no room for more
  struct transport_abilities abilities;

  // Whether the transport works on this host; if not, `why` gets the reason in words. It does not look at peers. May
  // block for some milliseconds. Any thread.
  int (*probe)(char *why, size_t cap);

  // The version of the library that the transport uses, in digits and points. Any thread. NULL: the transport uses no
  // library that has a version.
  void (*version)(char *text, size_t cap);
  // Asks the server for the length of the object `path`, in bytes; blocks, at most for `timeout_ms`. Any thread, beside
  // any call but close(). NOT_FOUND: there is no such object. NULL: the transport has no objects.
  int (*query)(struct transport_worker *worker, const char *path, uint32_t timeout_ms, uint64_t *length);

  // May block for some milliseconds.
  int (*open)(const struct transport_options *options, struct transport_worker **worker);
  // First ends all requests in flight with CANCELED; then frees the peers, remotes and regions that are left. Blocks
  // until no memory is touched any more, for some seconds at most.
  void (*close)(struct transport_worker *worker);
  // Writes the address that connect() of other workers needs; `*size` is the space on entry, TRANSPORT_MAX_ADDRESS
  // suffices.
  int (*address)(struct transport_worker *worker, void *bytes, size_t *size);

  int (*reg)(struct transport_worker *worker, const struct transport_memory *memory, struct transport_region **region);
  // The caller makes sure that no request uses the region. Where the hardware or the kernel fences memory, peers'
  // requests that are under way fail or end before this call returns. Elsewhere they may still write afterwards; the
  // documentation of the public call says so.
  void (*unreg)(struct transport_region *region);
  // Writes the key that import() needs; `*size` is the space on entry, TRANSPORT_MAX_KEY suffices.
  int (*pack)(struct transport_region *region, void *bytes, size_t *size);

  // Prepares to reach the worker of that address, which may be this worker itself. UNREACHABLE: this transport cannot,
  // e.g. because the peer is on another host; the sentence says why. AUTH: the process that the address names has not
  // made the address, or has made it for another owner. `owner` is the text that the peer's worker was opened with
  // (NULL: none). The caller has to know it from another source than the one that brought the address: so no process
  // can pass the address of another one, or of the caller, as its own. If a peer does not answer, on_peer is called
  // later. May block for milliseconds, but never waits for the peer.
  int (*connect)(struct transport_worker *worker, const void *address, size_t size, const char *owner,
                 struct transport_peer **peer);
  // The peer's requests end with CANCELED, as soon as after cancel(). When the last one has ended, the peer and its
  // remotes are freed. The caller must not use them after this call.
  void (*disconnect)(struct transport_peer *peer);
  // Cuts the way by which the peer's worker can reach this one. After the return, no operation that the peer started
  // before changes this worker's memory, and none that it starts before it connects to this worker anew. Its operations
  // under way fail at the peer. Operations of this worker to the peer, and other peers, continue. A transport that
  // cannot do this says so in its comment. May wait for the peer, for a fifth of a second at most. NULL: it cannot, or
  // a worker's only peer is itself.
  void (*fence)(struct transport_peer *peer);
  // PROTOCOL: the key is malformed. AUTH: the peer's worker has not made the key, or the key was changed. UNREACHABLE:
  // this transport cannot reach the region.
  int (*import)(struct transport_peer *peer, const void *bytes, size_t size, struct transport_remote **remote);
  void (*release)(struct transport_remote *remote);
  // A pointer through which this process reads and writes the peer's bytes from remote->address on; NULL: there is
  // none. Valid until release(). NULL in the table: never.
  void *(*map)(struct transport_remote *remote);

  // Prepares a request for post(); its pieces, peer and op are set.
  int (*prepare)(struct transport_request *request);
  // The request must not be in flight. Its peer may have been freed already, by disconnect() or close().
  void (*unprepare)(struct transport_request *request);
  // Starts the request. 0: `state` has its state; it may have ended already. Negative: the request was not started,
  // `state` is that code, and done() is not called. Messages of requests without pieces arrive in the order of their
  // posts to that peer, other messages when their data has arrived. No allocation, no lock, no wait for the peer.
  int (*post)(struct transport_request *request);
  // Asks the transport to end the request soon. It has ended, with CANCELED or otherwise, when `state` says so: inside
  // this call or in progress(), and only when nothing can touch its memory any more. It ends within TRANSPORT_END_MS if
  // progress() is called, whatever the peer does (it may be stopped or out of reach): in the end by force, and the peer
  // has failed then. A transport that cannot end some requests names them in its comment; they end with close().
  void (*cancel)(struct transport_request *request);

  // Drives all requests and connections; returns the number of events. Does not wait.
  uint32_t (*progress)(struct transport_worker *worker);
  // A descriptor that becomes readable when progress() has something to do, after arm() returned 0; -1: there is none,
  // and the caller has to poll.
  int (*fd)(struct transport_worker *worker);
  // Before sleeping on fd(): 0, or BUSY: call progress() first. NULL when fd() is always -1 or needs no arming.
  int (*arm)(struct transport_worker *worker);

  // Writes what the transport's library has chosen to reach that peer, in the library's words and for people: "tcp
  // eth0", "rc_mlx5 mlx5_0:1". Several ways have a comma and a blank between them. "": not known now. It may be called
  // for a peer that has failed. NULL: the transport uses no library that chooses.
  void (*uses)(struct transport_worker *worker, const struct transport_peer *peer, char *text, size_t cap);

  // The cost of requests to that peer (NULL: in general).
  void (*cost)(struct transport_worker *worker, const struct transport_peer *peer, struct transport_cost *cost);
};

// --- registry.c: all transports ---

// The transport of that name: built in, or a plug-in, which is loaded now and stays loaded. NOT_FOUND: there is no
// transport of that name. UNSUPPORTED: it is not in this build, or its libraries are missing; the sentence says which.
// Any thread. "fault:SEED:SCRIPT:NAME" is the transport NAME with faults on purpose, see fault/fault.h.
int transport_find(const char *name, const struct transport **transport);

// The names of all transports that this version knows, built or not, NULL at the end. The best comes first: the order
// decides between transports of equal cost.
const char *const *transport_names(void);

#endif
