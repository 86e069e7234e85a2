// A link to a rank on another host. Its `out` is a shadow of the peer's area: the engine writes into it as into a
// mapped window, and where it raises a flag it publishes: the rows go as pieces of a transport's requests, and behind
// them a message with the words that the flag's line holds, which the peer stores into its area. Words that the reader
// of an area writes (`taken`) go back likewise, into the writer's shadow. So all else is as on one host.
//
// Rows leave in chunks while the next are written. The message goes when all of them are visible at the peer.
//
// The socket of the handshake stays open, as on one host. It carries what must be known before its hang-up: that the
// peer left, or takes this rank for lost; and how many messages it has sent, for these come another way, and may come
// later. It also says which windows of its neighbours the peer reads (neighbours.h).
//
// Where NVLink joins the GPUs of both hosts (EP_FABRIC), kernels write the peer's window as on one host, and the socket
// is all that there is of this.
#ifndef EP_REMOTE_REMOTE_LINK_H
#define EP_REMOTE_REMOTE_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ep.h>

#include "ep/core/engine.h"
#include "ep/link/handshake_wire.h"
#include "ep/remote/carrier.h"
#include "ep/remote/net/net.h"
#include "ep/remote/update.h"
#include "secure/tls.h"

#define EP_FABRIC "nvlink" // in the place of a transport's name

enum {
  EP_CHUNKS = 16,             // of a part, at most;
  EP_FLOW_CHUNKS = 64,        // where the parts are large windows, of which an operation may use little
  EP_READS = 64,              // areas of neighbours that a peer is known to read: the newest
  EP_CHUNK_BYTES = 240 << 10, // about; more, where that would be too many. The most that ucx serves as one operation
};

// A message and its way.
struct ep_message {
  struct ep_post post;
  struct ep_update update;
};

// One part of a slot.
struct ep_publication {
  struct ep_post *chunks; // [num_chunks] rows without a message
  struct transport_piece *pieces;
  struct ep_post heads; // of all these rows: small, so they go at once, with the last chunk
  struct transport_piece heads_piece;
  struct ep_message last; // with the rows of the first chunk and their heads, if these are all
  struct transport_piece last_pieces[2];
  uint32_t num_chunks, chunk_rows;
  uint32_t strides[2];      // of rows and heads; the latter's may be 0: there are none
  uint32_t head_base;       // bytes before the first head that travel with them
  uint32_t posted;          // rows, of what is being written; [owner]
  uint64_t zero_copied;     // bit i: chunk i is read where the caller has it; [owner]
  _Atomic bool apart;       // the flag waits for rows of other links: the owner wants to know when these are there
  _Atomic uint32_t pending; // chunks and heads under way, and 1 while the last is not ready
  _Atomic bool busy;        // from the first chunk until the message has left
};

struct ep_proxy; // gpu/remote/proxy.h

struct ep_remote {
  weft_ep_t *ep;
  struct ep_net *net;   // NULL: by NVLink
  uint64_t id, peer_id; // of the link: what the peer's messages say, and ours
  struct ep_link *link;
  struct ep_proxy *proxy; // on CUDA memory (gpu/remote/proxy.h): it has what is registered, and nothing is published
  int area_fd;            // of what the peer's transport writes
  struct transport_region *in, *out;
  struct transport_peer *peer;
  bool met;                      // the peer: the handshake came so far that it may know our keys
  bool fenced;                   // it is; [net lock]
  struct transport_remote *area; // the peer's; NULL when it was disconnected,
  uint64_t area_at;              // and its address there, for what no peer has been sent yet
  struct ep_publication parts[EP_DEPTH][EP_PARTS];
  // What the peer should know besides: the newest counts, so one message at a time is enough.
  struct ep_message state;
  _Atomic bool state_busy, state_dirty, heartbeat;
  _Atomic uint64_t start_plus_1, start_epoch;
  _Atomic uint64_t messages_sent, messages_received;
  pthread_mutex_t socket_lock;
  // Under socket_lock:
  struct tls *tls; // over the link's socket
  uint64_t word;   // that the peer sends on the socket: what has come of it
  size_t word_bytes;
  bool owes_welcome; // the peer's call has not been answered: words wait for that,
  uint32_t owed;     // a bit for each
  // Which areas of its neighbours the peer reads, by their numbers: written under socket_lock, read by any.
  _Atomic uint64_t reads[EP_READS];
  uint32_t num_reads;
  uint32_t group; // on CUDA memory: of peers that share rows (gpu/remote/sharers.h), from 1 on; 0: none. [net lock]
  _Atomic uint64_t awaited; // messages that the peer had sent when it left
  _Atomic int failed;       // 0, or why the transport cannot reach the peer any more
  char why[160];            // set before
};

// --- making one: remote_link.c ---

// Makes the link one to another host: registers its area, of which `area_fd` (taken) is the descriptor, and makes the
// shadow. Messages to it are received from here on. `net` NULL: by NVLink, which needs none of that. [owner, service]
int ep_remote_new(weft_ep_t *ep, struct ep_net *net, struct ep_link *link, int area_fd);
// What the peer needs of it.
int ep_remote_describe(struct ep_remote *remote, struct ep_tcp_message *message);
// With what the peer says: ready to publish. [owner, service]
int ep_remote_connect(struct ep_remote *remote, const struct ep_tcp_message *message);
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
// Disconnects the peer, which ends by force what is under way to it, soon. [net lock]
void ep_remote_disconnect(struct ep_remote *remote);
// The transport does not reach the peer any more: the service thread takes the link down. [any]
void ep_remote_fail(struct ep_remote *remote, int err, const char *why);
// What the net thread is to do with messages and failures.
extern const struct ep_net_events ep_remote_events;
// The link of that number, NULL when it has gone. [net lock]
struct ep_remote *ep_remote_find(struct ep_net *net, uint64_t id);

// --- path.c: the engine's calls on a link (link/path.h) ---

extern const struct ep_path_ops ep_path_remote;

// --- put.c: publishing; all [owner]; contracts: link/path.h ---

bool ep_put_settle(struct ep_link *link, uint64_t op, enum ep_part part, uint64_t deadline_ns);
void ep_put_rows_written(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t rows);
void ep_put_publish(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t rows);
uint32_t ep_put_zero_copy_rows(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t first, uint32_t rows);
void ep_put_zero_copy(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t first, const void *from);
// For rows that ranks of one host share (host/send/): begins to send `rows` rows of a dispatch that were written, and
// `heads` row headers; with `counts` also what lies before these. The flag does not follow by itself.
void ep_put_rows_apart(struct ep_link *link, uint64_t op, uint32_t rows, uint32_t heads, bool counts);
// Whether all of that is in the peer's area.
bool ep_put_rows_arrived(const struct ep_link *link, uint64_t op);
// It is, and the peer is to see it: publishes the header and its flag, which were written.
void ep_put_publish_apart(struct ep_link *link, uint64_t op);
// It is, and it will be written anew.
void ep_put_take_back(struct ep_link *link, uint64_t op);
// Whether all of it has left, or never will.
bool ep_put_all_left(struct ep_remote *remote);

// --- words.c: publishing words that stand alone; all [owner]; contracts: link/path.h ---

void ep_words_acknowledge(struct ep_link *link);
void ep_words_publish_start(struct ep_link *link, uint64_t op, uint64_t epoch);
// Sends a heartbeat to all peers on other hosts, if the last one is an interval ago: this rank waits.
void ep_words_heartbeat(weft_ep_t *ep, uint64_t now_ns);

// --- flush.c ---

// Waits a moment until all that was published has left: this rank is about to. [owner]
void ep_remote_flush(weft_ep_t *ep);

// --- zero_copy.c: the caller's memory ---

// Waits until the caller's memory is read no more. At the operation's deadline the peers that it is still read for are
// lost, and their requests are cancelled, which ends them (transport.h). If it does not, their connections are torn
// down TRANSPORT_END_MS later; and if that does not help either, another TRANSPORT_END_MS later, the transport is
// closed, which ends everything: this rank, which is the isolated one then, reaches no rank on another host any more,
// and they put it out. [owner]
void ep_zero_copy_wait(weft_ep_t *ep);

// --- control_socket.c; contracts: link/path.h ---

// Answers the call that became this link, which is installed. If this fails the caller has gone, and its hang-up takes
// the link down. [service]
void ep_remote_welcome(struct ep_link *link, const struct ep_tcp_message *welcome);
void ep_control_notify(struct ep_link *link, enum ep_notice notice);
// Tells the peer that this rank reads the area of that number. False: not yet, the handshake is not over.
bool ep_control_notify_reads(struct ep_link *link, uint64_t area);
int ep_control_listen(struct ep_link *link);
void ep_control_receive_last(struct ep_link *link);
// It is silent, unless most of the view is.
enum ep_link_state ep_control_verdict(weft_ep_t *ep, struct ep_link *link);

#endif
