// A link to a rank on another host. Its `out` is a shadow of the peer's area: the engine writes into it as into a
// mapped window, and where it raises a flag it publishes: the rows go as pieces of a transport's requests, and behind
// them a message with the words that the flag's line holds, which the peer stores into its area. Words that the reader
// of an area writes (`taken`) go back likewise, into the writer's shadow. So all else is as on one host.
//
// Rows leave in chunks while the next are written. The message goes when all of them are visible at the peer.
//
// The socket of the greeting stays, as on one host. It carries what must be heard before its hang-up: that the peer
// left, or takes this rank for lost; and how many messages it has sent, for these come another way, and may come later.
//
// Where NVLink joins the GPUs of both hosts (EP_FABRIC), kernels write the peer's window as on one host, and the socket
// is all that there is of this.
#ifndef EP_REMOTE_REMOTE_LINK_H
#define EP_REMOTE_REMOTE_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/link/handshake_wire.h"
#include "ep/remote/update.h"
#include "ep/remote/worker.h"
#include "secure/tls.h"

#define EP_FABRIC "nvlink" // in the place of a transport's name

enum ep_part { EP_PART_DISPATCH, EP_PART_WEIGHTS, EP_PART_COMBINE, EP_PARTS };

enum {
  EP_CHUNKS = 16,             // of a part, at most
  EP_CHUNK_BYTES = 240 << 10, // about; more, where that would be too many. The most that ucx serves as one operation
};

// A message and its way.
struct ep_telling {
  struct ep_post post;
  struct ep_note note;
};

// One part of a slot.
struct ep_publication {
  struct ep_post *chunks; // [num_chunks] rows without a message
  struct transport_piece *pieces;
  struct ep_post heads; // of all these rows: small, so they go at once, with the last chunk
  struct transport_piece heads_piece;
  struct ep_telling last; // with the rows of the first chunk and their heads, if these are all
  struct transport_piece last_pieces[2];
  uint32_t num_chunks, chunk_rows;
  uint32_t strides[2];      // of rows and heads; the latter's may be 0: there are none
  uint32_t posted;          // rows, of what is being written; [owner]
  uint64_t lent;            // bit i: chunk i is read where the caller has it; [owner]
  _Atomic uint32_t pending; // chunks and heads under way, and 1 while the last is not ready
  _Atomic bool busy;        // from the first chunk until the message has left
};

struct ep_proxy;

struct ep_remote {
  weft_ep_t *ep;
  struct ep_net *net;   // NULL: by NVLink
  uint64_t id, peer_id; // of the link: what the peer's messages say, and ours
  struct ep_link *link;
  struct ep_proxy *proxy; // on CUDA memory (gpu/proxy.h), where what is registered is its, and nothing is published
  int area_fd;
  struct transport_region *in, *out;
  struct transport_peer *peer;
  struct transport_remote *area; // the peer's; NULL when it was disconnected,
  uint64_t area_at;              // and its address there, for what is still published to nobody
  struct ep_publication parts[WEFT_EP_DEPTH][EP_PARTS];
  // What the peer should know besides: the newest counts, so one message at a time is enough.
  struct ep_telling state;
  _Atomic bool state_busy, state_dirty, sign;
  _Atomic uint64_t start_plus_1, start_epoch;
  _Atomic uint64_t told, heard; // messages, to the peer and from it
  pthread_mutex_t said_lock;
  // Under said_lock:
  struct tls *tls; // over the link's socket
  uint64_t said;   // by the peer on the socket: what has come of the next word
  size_t said_bytes;
  bool owes_welcome;        // the peer's call has not been answered: words wait for that,
  uint32_t owed;            // a bit for each
  _Atomic uint64_t awaited; // messages that the peer had sent when it left
  _Atomic int failed;       // 0, or why the transport cannot reach the peer any more
  char why[160];            // set before
};

// --- making one: remote_link.c ---

// Makes the link one to another host: registers its area, of which `area_fd` (taken) is the descriptor, and makes the
// shadow. Messages to it are heard from here on. `net` NULL: by NVLink, which needs none of that. [owner, service]
int ep_remote_new(weft_ep_t *ep, struct ep_net *net, struct ep_link *link, int area_fd);
// What the peer needs of it.
int ep_remote_describe(struct ep_remote *remote, struct ep_far_greeting *greeting);
// With what the peer says: ready to publish.
int ep_remote_connect(struct ep_remote *remote, const struct ep_far_greeting *greeting);
// Ends what is under way and frees all but the windows. When it returns nothing of the link is written or read by the
// transport, and what comes late meets no data. NULL is legal.
void ep_remote_free(struct ep_remote *remote);

// Name of the transport, or EP_FABRIC.
static inline const char *ep_remote_way(const struct ep_remote *remote) {
  return remote->net ? remote->net->transport->name : EP_FABRIC;
}

static inline bool ep_remote_failed(struct ep_remote *remote) {
  return atomic_load_explicit(&remote->failed, memory_order_acquire) != 0;
}
// Disconnects the peer, which ends by force what is under way to it, soon. [turn]
void ep_remote_disconnect(struct ep_remote *remote);
// The worker is about to close, with all peers and regions. [turn]
void ep_remote_abandon(struct ep_remote *remote);
// The transport does not reach the peer any more: the service thread takes the link down. [any]
void ep_remote_fail(struct ep_remote *remote, int err, const char *why);
// A message has come. [turn]
void ep_remote_hear(struct ep_net *net, const void *bytes, size_t size);

// --- publishing: put.c; all [owner] ---

// Waits a moment until all that was published has left: this rank is about to.
void ep_remote_flush(weft_ep_t *ep);

// Waits until what was published in that place before has left the shadow. False: the link is down.
bool ep_remote_settle(struct ep_remote *remote, uint64_t op, enum ep_part part, uint64_t deadline_ns);
// How many rows from `first` on, of `rows` in all, may go from where the caller has them, if they stand there one after
// another, as they travel. 0: none, they go by the shadow.
uint32_t ep_remote_lendable(struct ep_remote *remote, uint64_t op, enum ep_part part, uint32_t first, uint32_t rows);
// They go from `from`, and need not be written to the shadow. It must be left as it is until ep_remote_return().
void ep_remote_lend(struct ep_remote *remote, uint64_t op, enum ep_part part, uint32_t first, const void *from);
// `rows` rows of a part stand in the shadow, or are lent: sends those chunks that are whole.
void ep_remote_rows(struct ep_remote *remote, uint64_t op, enum ep_part part, uint32_t rows);
// All `rows` rows do, and the flag: sends the rest, and the words.
void ep_remote_publish(struct ep_remote *remote, uint64_t op, enum ep_part part, uint32_t rows);
// `taken` words, in the area, or the start: tells the peer.
void ep_remote_tell(struct ep_remote *remote);
void ep_remote_tell_start(struct ep_remote *remote, uint64_t op, uint64_t epoch);
// The owner returns to its caller, or sleeps: the net thread drives.
static inline void ep_remote_hand_over(weft_ep_t *ep) {
  struct ep_net *net = atomic_load_explicit(&ep->net, memory_order_acquire);
  if (net && !ep->holds)
    ep_net_hand_over(net);
}
// Tells all peers on other hosts that this rank waits, if it has not done so for a while.
void ep_remote_sign(weft_ep_t *ep, uint64_t now_ns);

// --- the caller's memory: zero_copy.c ---

// Waits until the caller's memory is read no more. At the operation's deadline the peers that it is still read for are
// lost, and their requests are cancelled, which ends them (transport.h). If it does not, their connections are torn
// down TRANSPORT_END_MS later; and if that does not help either, another TRANSPORT_END_MS later, the transport is
// closed, which ends everything: this rank, which is the one astray then, reaches no rank on another host any more, and
// they put it out. [owner]
void ep_remote_return(weft_ep_t *ep);

// --- the socket: control_socket.c ---

// Answers the call that became this link, which is installed. If this fails the caller has gone, and its hang-up takes
// the link down. [service]
void ep_link_say_welcome(struct ep_link *link, const struct ep_far_greeting *welcome);
// Tells the peer that this rank takes it for lost, as on one host. [any]
void ep_link_say_lost(struct ep_link *link);
// Takes what the peer has said there. 0: it has not hung up; else an errno: EPIPE and ECONNRESET when it has, EPROTO
// when it said what no rank says, others when its host does not answer. [any]
int ep_remote_listen(struct ep_link *link);
// Hears what is on its way from a peer that has hung up, for a moment at most. [service]
void ep_remote_hear_last(struct ep_link *link);
// What is to be thought of a peer whose host does not answer: it is silent, unless most of the view is.
enum ep_link_state ep_remote_verdict(weft_ep_t *ep, struct ep_link *link);

#endif
