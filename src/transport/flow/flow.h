// What the transports over networks share: how a request's pieces flow. Each back end (ucx, ofi) starts single
// operations and says when they end; this part cuts pieces into operations, keeps a bounded number of them under way,
// queues what the network does not take at once, sends the message when all data is visible at the peer, and ends
// requests, cancelled ones and those of lost peers too.
//
//   post -> move, move, ... (a window of them) -> all ended -> settle (WRITE) -> send the message -> state
//
// An operation of a network cannot be cancelled. A cancelled request starts no more operations, and ends when those
// under way have; if they do not within GRACE_MS (a stopped peer, a link that is down), the back end severs the peer,
// which ends them by force. Then the peer is lost for all its requests.
#ifndef TRANSPORT_FLOW_FLOW_H
#define TRANSPORT_FLOW_FLOW_H

#include "transport/link.h"
#include "transport/transport.h"

enum {
  FLOW_WINDOW = 64,             // operations of a request under way
  FLOW_CHUNK = 8 << 20,         // bytes of an operation at most
  FLOW_WINDOW_BYTES = 32 << 20, // of a request's operations under way, unless there is only one
  FLOW_BURST = 1 << 20, // bytes that a post or one progress() moves of a request, where the network copies at once
  FLOW_GRACE_MS = 500,  // from cancel() to severing the peer
  FLOW_CLOSE_MS = 1000,
};

// How an operation stands after it was started.
enum flow_start {
  FLOW_STARTED = 0, // flow_ended() will be called, not from inside the call that started it
  FLOW_DONE = 1,    // it has ended well already
  FLOW_AGAIN = 2,   // not now: flow_progress() tries again
};

struct flow_request;

// An operation under way. The back end's own bytes follow it.
struct flow_op {
  struct flow_request *own;
  struct flow_op *next; // of those that are free
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
  struct link waiting; // in the peer's list of requests that the network did not take
  struct flow_op *free;
  uint32_t piece;   // the next to be started, from `offset` on
  uint32_t running; // operations under way
  uint32_t reading; // of these, may still read local memory
  uint32_t window;  // operations that there are
  uint64_t offset;
  uint64_t running_bytes;
  uint64_t deadline; // cancelled: when the peer is severed
  uint8_t stage;
  bool pumping, again, canceled;
  bool taken_called; // request->taken has been called
  bool wrote;        // something of a WRITE was started
  bool severed;      // its peer was severed for it, or the worker closes: it ends by force, and settles nothing
  int err;           // why it will fail
};

struct flow_peer {
  struct transport_peer base;
  struct link peers; // in the worker's list
  struct link remotes;
  struct link active; // requests
  struct link waiting;
  struct link wanting; // in the worker's list of peers with requests waiting
  uint32_t running;    // operations of its requests under way
  bool refused;        // the last operation that was tried
  uint64_t delay_ns;   // what waits is tried again so much later,
  uint64_t retry_ns;   // then
  uint64_t deadline;   // leaving: when it is severed
  char why[120];       // it failed
  bool leaving, unreported;
  bool lost; // its connection has failed
};

struct flow_region {
  struct transport_region base;
  uint64_t max_operation; // bytes, as with remotes; no limit unless reg() sets one
  struct link regions;
};

struct flow_remote {
  struct transport_remote base;
  uint64_t max_operation; // bytes; from the wire's, may be set to less by import()
  bool read_only;
  struct link remotes;
};

// What a back end does. move(), settle() and send() get a request whose peer has not failed.
struct flow_wire {
  size_t op_size;          // of struct flow_op and what follows
  bool settled_when_moved; // an ended WRITE operation is visible at the peer: no settle()
  uint64_t max_operation;  // bytes
  bool connects;           // on demand: FLOW_AGAIN with nothing under way is a peer that is not connected, perhaps gone
  uint32_t lost_ms;        // from a peer's failure to severing it, if its operations have not ended by then
  // Start one; or negative, with fail()'s sentence.
  int (*move)(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *op);
  int (*settle)(struct flow_request *own, struct flow_op *op); // what the ended WRITE operations wrote becomes visible
  int (*send)(struct flow_request *own, struct flow_op *op);
  // Ends by force the operations under way to that peer whose requests are past their deadlines, in later progress() at
  // the latest; if that costs the connection to it, the peer has failed. Called again and again as long as there are
  // some.
  void (*sever)(struct flow_peer *peer);
  // A disconnected peer without requests, from each progress(): false while there is still something to do. After true
  // it is freed.
  bool (*part)(struct flow_peer *peer);
  void (*free_remote)(struct flow_remote *remote);
};

struct flow_worker {
  struct transport_worker base;
  struct flow_wire wire;
  struct link peers, regions;
  struct link wanting;
  uint32_t doomed;     // cancelled requests and leaving peers, whose deadlines flow_progress() has to check
  uint32_t unreported; // peers that have failed, before on_peer
  uint32_t events;     // since the last progress()
};

void flow_worker_init(struct flow_worker *worker, const struct transport *transport,
                      const struct transport_options *options);
void flow_peer_init(struct flow_peer *peer, struct flow_worker *worker);
void flow_remote_init(struct flow_remote *remote, struct flow_peer *peer);
void flow_region_init(struct flow_region *region, struct flow_worker *worker, const struct transport_memory *memory);

// The table's functions that are the same for all.
int flow_prepare(struct transport_request *request);
void flow_unprepare(struct transport_request *request);
int flow_post(struct transport_request *request);
void flow_cancel(struct transport_request *request);
void flow_disconnect(struct transport_peer *peer);
void flow_release(struct transport_remote *remote);

// Its i-th operation, of `window`; the back end knows whether it is under way.
struct flow_op *flow_op_of(struct flow_request *own, uint32_t i);
// Between the two, flow_ended() does not end the request.
void flow_hold(struct flow_request *own);
void flow_let(struct flow_request *own);

// Whether it is to be ended by force.
bool flow_overdue(const struct flow_request *own, uint64_t now);

// Inside flow: moves a request on; has it end with `err` as soon as it can, by force from `deadline` on.
void flow_pump(struct flow_request *own);
void flow_break(struct flow_request *own, int err, const char *why, uint64_t deadline);

// An operation of a WRITE that was started no longer reads its local memory. For wires whose remotes copy; their move()
// sets op->taken itself where that is so when it returns.
void flow_taken(struct flow_op *op);
// An operation that was started has ended: 0, or why not.
void flow_ended(struct flow_op *op, int err, const char *why);
// Part of progress(), after the network's own: waiting requests, deadlines, peers that leave. Returns events.
uint32_t flow_progress(struct flow_worker *worker);
// Whether flow_progress() has something to do that no event of the network will announce.
bool flow_busy(const struct flow_worker *worker);
// No request to that peer can succeed any more. on_peer is called by flow_progress().
void flow_peer_failed(struct flow_peer *peer, int err, const char *why);
// For close(), first: no operation is started any more; CANCELED is what requests end with.
void flow_stop(struct flow_worker *worker);
// For close(), after the network has released all memory: ends what is left and frees peers and remotes.
void flow_end(struct flow_worker *worker);
bool flow_idle(const struct flow_worker *worker);

// --- host.c ---

// Numbers that are equal for two workers of one host and one network namespace, and else not.
void flow_host(uint64_t *host, uint64_t *net);

#endif
