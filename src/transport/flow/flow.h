// The part that all transports over networks share: it moves the pieces of a request. Each back end (ucx, ofi) starts
// single operations and reports when they end. This part cuts pieces into operations, keeps a bounded number of them
// under way, queues operations that the network does not accept at once, and sends the message when all data is visible
// at the peer. It ends all requests, also cancelled ones and those of lost peers.
//
//   post -> move, move, ... (a window of them) -> all ended -> settle (WRITE) -> send the message -> state
//
// An operation of a network cannot be cancelled. A cancelled request starts no more operations, and ends when its
// operations under way have ended. If they have not ended within FLOW_GRACE_MS (the peer is stopped, or the link is
// down), the back end severs the peer, which ends them by force. Then the peer is lost for all its requests.
#ifndef TRANSPORT_FLOW_FLOW_H
#define TRANSPORT_FLOW_FLOW_H

#include "transport/link.h"
#include "transport/transport.h"

enum {
  FLOW_WINDOW = 64,             // operations of a request under way at once
  FLOW_CHUNK = 8 << 20,         // bytes of an operation at most
  FLOW_WINDOW_BYTES = 32 << 20, // bytes of a request's operations under way, unless there is only one operation
  FLOW_BURST = 1 << 20, // bytes of a request that a post or one progress() moves, where the network copies at once
  FLOW_GRACE_MS = 500,  // from cancel() to severing the peer
  FLOW_CLOSE_MS = 1000,
};

// The result of starting an operation.
enum flow_start {
  FLOW_STARTED = 0, // flow_ended() will be called later, not from inside the call that started the operation
  FLOW_DONE = 1,    // it has ended already, without an error
  FLOW_AGAIN = 2,   // the network does not accept it now: flow_progress() tries again
};

struct flow_request;

// An operation under way. The back end's own bytes follow the struct.
struct flow_op {
  struct flow_request *own;
  struct flow_op *next; // in the list of free operations
  uint64_t length;
  uint32_t piece;
  uint32_t more; // the back end's
  bool taken;    // see flow_taken()
} __attribute__((aligned(16)));

enum flow_stage { FLOW_MOVING, FLOW_SETTLING, FLOW_SENDING };

struct flow_worker;
struct flow_peer;

// What prepare() makes; request->own.
struct flow_request {
  struct transport_request *request;
  struct flow_worker *worker;
  struct flow_peer *peer;
  struct link active;  // in the peer's list of requests in flight
  struct link waiting; // in the peer's list of requests that the network did not accept
  struct flow_op *free;
  uint32_t piece;   // the next piece to start, from `offset` on
  uint32_t running; // operations under way
  uint32_t reading; // operations under way that may still read local memory
  uint32_t window;  // number of operations that the request has
  uint64_t offset;
  uint64_t running_bytes;
  uint64_t deadline; // when a cancelled request severs the peer
  uint8_t stage;
  bool pumping, again, canceled;
  bool taken_called; // request->taken has been called
  bool wrote;        // something of a WRITE was started
  bool severed; // its peer was severed for this request, or the worker closes: it ends by force, and calls no settle()
  int err;      // why it will fail
};

struct flow_peer {
  struct transport_peer base;
  struct link peers; // in the worker's list
  struct link remotes;
  struct link active; // requests
  struct link waiting;
  struct link wanting; // in the worker's list of peers with waiting requests
  uint32_t running;    // operations of its requests under way
  bool refused;        // the network did not accept the last operation that was tried
  uint64_t delay_ns;   // what waits is tried again so much later,
  uint64_t retry_ns;   // then
  uint64_t deadline;   // of a leaving peer: when it is severed
  char why[120];       // why the peer failed
  bool leaving, unreported;
  bool lost; // its connection has failed
};

struct flow_region {
  struct transport_region base;
  uint64_t max_operation; // bytes, like a remote's; no limit unless reg() sets one
  struct link regions;
};

struct flow_remote {
  struct transport_remote base;
  uint64_t max_operation; // bytes; the wire's, unless import() sets less
  bool read_only;
  struct link remotes;
};

// The functions of a back end. move(), settle() and send() get a request whose peer has not failed.
struct flow_wire {
  size_t op_size;          // size of struct flow_op and of the bytes that follow it
  bool settled_when_moved; // an ended WRITE operation is visible at the peer: no settle()
  uint64_t max_operation;  // bytes
  bool connects; // the wire connects on demand: FLOW_AGAIN with nothing under way means that the peer is not connected,
                 // and has perhaps ended
  uint32_t lost_ms; // from a peer's failure to severing it, if its operations have not ended by then
  // These three start an operation, or return a negative code with fail()'s sentence.
  int (*move)(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *op);
  int (*settle)(struct flow_request *own, struct flow_op *op); // makes the data of the ended WRITE operations visible
  int (*send)(struct flow_request *own, struct flow_op *op);
  // Ends by force the operations under way to that peer whose requests are past their deadlines, at the latest in a
  // later progress(). If this breaks the connection, the peer has failed. Called repeatedly as long as there are such
  // operations.
  void (*sever)(struct flow_peer *peer);
  // Called from each progress() for a disconnected peer without requests. False: there is still something to do. After
  // true the peer is freed.
  bool (*part)(struct flow_peer *peer);
  void (*free_remote)(struct flow_remote *remote);
};

struct flow_worker {
  struct transport_worker base;
  struct flow_wire wire;
  struct link peers, regions;
  struct link wanting;
  uint32_t doomed;     // cancelled requests and leaving peers, whose deadlines flow_progress() has to check
  uint32_t unreported; // peers that have failed, for which on_peer was not called yet
  uint32_t events;     // since the last progress()
};

void flow_worker_init(struct flow_worker *worker, const struct transport *transport,
                      const struct transport_options *options);
void flow_peer_init(struct flow_peer *peer, struct flow_worker *worker);
void flow_remote_init(struct flow_remote *remote, struct flow_peer *peer);
void flow_region_init(struct flow_region *region, struct flow_worker *worker, const struct transport_memory *memory);

// The functions of struct transport that all back ends share.
int flow_prepare(struct transport_request *request);
void flow_unprepare(struct transport_request *request);
int flow_post(struct transport_request *request);
void flow_cancel(struct transport_request *request);
void flow_disconnect(struct transport_peer *peer);
void flow_release(struct transport_remote *remote);

// The request's i-th operation, of `window`; the back end knows whether it is under way.
struct flow_op *flow_op_of(struct flow_request *own, uint32_t i);
// Between these two calls, flow_ended() does not end the request.
void flow_hold(struct flow_request *own);
void flow_let(struct flow_request *own);

// Whether the request is to be ended by force.
bool flow_overdue(const struct flow_request *own, uint64_t now);

// Used only inside flow. The first starts the next operations of a request. The second makes the request end with `err`
// as soon as possible, by force from `deadline` on.
void flow_pump(struct flow_request *own);
void flow_break(struct flow_request *own, int err, const char *why, uint64_t deadline);

// A started operation of a WRITE does not read its local memory any more. Wires whose remotes copy call this; if it is
// so already when their move() returns, move() sets op->taken itself instead.
void flow_taken(struct flow_op *op);
// An operation that was started has ended: 0, or why not.
void flow_ended(struct flow_op *op, int err, const char *why);
// The second part of progress(), after the network's own: handles waiting requests, deadlines and leaving peers.
// Returns the number of events.
uint32_t flow_progress(struct flow_worker *worker);
// Whether flow_progress() has something to do that no event of the network will announce.
bool flow_busy(const struct flow_worker *worker);
// No request to that peer can succeed any more. on_peer is called by flow_progress().
void flow_peer_failed(struct flow_peer *peer, int err, const char *why);
// close() calls this first: no operation is started any more, and requests end with CANCELED.
void flow_stop(struct flow_worker *worker);
// close() calls this after the network has released all memory: ends the requests that are left, and frees peers and
// remotes.
void flow_end(struct flow_worker *worker);
bool flow_idle(const struct flow_worker *worker);

// --- host.c ---

// Numbers that are equal for two workers of one host (`host`) and of one network namespace (`net`), and differ
// otherwise.
void flow_host(uint64_t *host, uint64_t *net);

#endif
