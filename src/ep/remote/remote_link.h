// A link to a rank on another host. Its `out` is a shadow of the peer's area. The engine writes into it as into a
// mapped window, and publishes when it raises a flag: the rows travel as pieces of a transport's requests; after them
// comes a message with the words of the flag's cache line, which the peer stores into its area. Words that the reader
// of an area writes (`taken`) go back in the same way, into the writer's shadow. Everything else works as on one host.
//
// Rows are sent in chunks while the next ones are written. The message is sent when all rows are visible at the peer.
//
// The socket of the handshake stays open, as on one host. It carries what must be known before its hang-up: that the
// peer left, or considers this rank lost, and how many messages it has sent, since these take another way and may
// arrive later. On it the peer also announces which windows of its neighbours it reads (neighbours.h).
//
// If NVLink joins the GPUs of both hosts (EP_FABRIC), kernels write the peer's window as on one host, and of all this
// only the socket exists.
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

#define EP_FABRIC "nvlink" // used as the name of a transport

enum {
  EP_CHUNKS = 16,             // most chunks of a part
  EP_FLOW_CHUNKS = 64,        // the same if parts are large windows, of which an operation may use little
  EP_READS = 64,              // the newest areas of neighbours that a peer is known to read
  EP_CHUNK_BYTES = 240 << 10, // about, unless that makes too many; the most that ucx handles as one operation
};

// A message and its request.
struct ep_message {
  struct ep_post post;
  struct ep_update update;
};

// One part of a slot.
struct ep_publication {
  struct ep_post *chunks; // [num_chunks] requests of rows without a message
  struct transport_piece *pieces;
  struct ep_post heads; // of all these rows; small, so they are sent together, with the last chunk
  struct transport_piece heads_piece;
  struct ep_message last; // also with the rows and heads, if there is only one chunk
  struct transport_piece last_pieces[2];
  uint32_t num_chunks, chunk_rows;
  uint32_t strides[2];      // of rows and heads; for heads 0: there are none
  uint32_t head_base;       // bytes before the first head that travel with them
  uint32_t posted;          // rows sent so far of the data being written; [owner]
  uint64_t zero_copied;     // bit i: chunk i is read from the caller's memory; [owner]
  _Atomic bool apart;       // the flag waits for rows of other links: the owner has to be woken when rows have arrived
  _Atomic uint32_t pending; // chunks and heads in flight, plus 1 while `last` is not ready
  _Atomic bool busy;        // from the first chunk until the message has left
};

struct ep_proxy; // gpu/remote/proxy.h

struct ep_remote {
  weft_ep_t *ep;
  struct ep_net *net;   // NULL: by NVLink
  uint64_t id, peer_id; // numbers of the link: in the peer's messages, and in ours
  struct ep_link *link;
  struct ep_proxy *proxy; // on CUDA memory (gpu/remote/proxy.h): it has the registered memory, and nothing is published
  int area_fd;            // descriptor of the memory that the peer's transport writes
  struct transport_region *in, *out;
  struct transport_peer *peer;
  bool met;                      // the handshake came so far that the peer may know our keys
  bool fenced;                   // the peer is fenced; [net lock]
  struct transport_remote *area; // the peer's; NULL after it was disconnected
  uint64_t area_at;              // its address at the peer, also for pieces that were not posted yet
  struct ep_publication parts[EP_DEPTH][EP_PARTS];
  // Other words for the peer: always the newest values, so one message at a time is enough.
  struct ep_message state;
  _Atomic bool state_busy, state_dirty, heartbeat;
  _Atomic uint64_t start_plus_1, start_epoch;
  _Atomic uint64_t messages_sent, messages_received;
  pthread_mutex_t socket_lock;
  // Under socket_lock:
  struct tls *tls; // TLS over the link's socket
  uint64_t word;   // the word that the peer is sending on the socket, as far as it has arrived
  size_t word_bytes;
  bool owes_welcome; // the peer's call has not been answered yet, and words have to wait for that
  uint32_t owed;     // one bit for each waiting word
  // Numbers of the areas of its neighbours that the peer reads: written under socket_lock, read by any thread.
  _Atomic uint64_t reads[EP_READS];
  uint32_t num_reads;
  uint32_t group; // on CUDA memory: its group of peers that share rows (gpu/remote/sharers.h); 0: none. [net lock]
  _Atomic uint64_t awaited; // how many messages the peer had sent when it left
  _Atomic int failed;       // 0, or why the transport cannot reach the peer any more
  char why[160];            // set before `failed`
};

// --- creating a link: remote_link.c ---

// Makes `link` a link to another host: registers its area, whose descriptor is `area_fd` (ownership is taken), and
// creates the shadow. Messages to it are received from here on. `net` NULL: by NVLink, which needs none of that.
// [owner, service]
int ep_remote_new(weft_ep_t *ep, struct ep_net *net, struct ep_link *link, int area_fd);
// Writes what the peer needs to know of the link into the message.
int ep_remote_describe(struct ep_remote *remote, struct ep_tcp_message *message);
// Connects the link with the peer's message; after that it can publish. [owner, service]
int ep_remote_connect(struct ep_remote *remote, const struct ep_tcp_message *message);
// Ends requests in flight and frees everything except the windows. When it returns, the transport neither reads nor
// writes memory of the link, and late writes overwrite no data. NULL is legal.
void ep_remote_free(struct ep_remote *remote);

// Name of the transport, or EP_FABRIC.
static inline const char *ep_remote_way(const struct ep_remote *remote) {
  return remote->net ? remote->net->transport->name : EP_FABRIC;
}

static inline bool ep_remote_failed(struct ep_remote *remote) {
  return atomic_load_explicit(&remote->failed, memory_order_acquire) != 0;
}
// Disconnects the peer, which soon ends the requests in flight to it by force. [net lock]
void ep_remote_disconnect(struct ep_remote *remote);
// The transport does not reach the peer any more: the service thread takes the link down. [any]
void ep_remote_fail(struct ep_remote *remote, int err, const char *why);
// How the net thread handles messages and failures.
extern const struct ep_net_events ep_remote_events;
// The link of that number; NULL: it was freed. [net lock]
struct ep_remote *ep_remote_find(struct ep_net *net, uint64_t id);

// --- path.c: the operations that engines call on a link (link/path.h) ---

extern const struct ep_path_ops ep_path_remote;

// --- put.c: publishing; all [owner]; contracts: link/path.h ---

bool ep_put_settle(struct ep_link *link, uint64_t op, enum ep_part part, uint64_t deadline_ns);
void ep_put_rows_written(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t rows);
void ep_put_publish(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t rows);
uint32_t ep_put_zero_copy_rows(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t first, uint32_t rows);
void ep_put_zero_copy(struct ep_link *link, uint64_t op, enum ep_part part, uint32_t first, const void *from);
// For rows that ranks of one host share (host/send/): begins to send `rows` rows of a dispatch that were written, and
// `head_bytes` bytes of row headers, or of what is in their place; with `counts` also the counts before these, without
// row headers too. The flag is not sent automatically.
void ep_put_rows_apart(struct ep_link *link, uint64_t op, uint32_t rows, uint64_t head_bytes, bool counts);
// Whether all these rows and headers have arrived in the peer's area.
bool ep_put_rows_arrived(const struct ep_link *link, uint64_t op);
// They have arrived: publishes the header and its flag, which were written, so that the peer sees the rows.
void ep_put_publish_apart(struct ep_link *link, uint64_t op);
// They have arrived, and will be written again: takes the piece back.
void ep_put_take_back(struct ep_link *link, uint64_t op);
// Whether everything that was published has left, or never will.
bool ep_put_all_left(struct ep_remote *remote);

// --- words.c: publishing single words; all [owner]; contracts: link/path.h ---

void ep_words_acknowledge(struct ep_link *link);
void ep_words_publish_start(struct ep_link *link, uint64_t op, uint64_t epoch);
// This rank waits: sends a heartbeat to all peers on other hosts, if the last one was at least an interval ago.
void ep_words_heartbeat(weft_ep_t *ep, uint64_t now_ns);

// --- flush.c ---

// This rank is about to leave: waits a moment until everything that was published has left. [owner]
void ep_remote_flush(weft_ep_t *ep);

// --- zero_copy.c: the caller's memory ---

// Waits until no request reads the caller's memory any more. At the operation's deadline, peers whose requests still
// read it are lost, and these requests are cancelled, which ends them (transport.h). If that fails, the connections of
// these peers are closed TRANSPORT_END_MS later. If that fails too, the transport is closed another TRANSPORT_END_MS
// later, which ends everything: this rank is then the isolated one, reaches no rank on another host any more, and the
// others remove it. [owner]
void ep_zero_copy_wait(weft_ep_t *ep);

// --- control_socket.c; contracts: link/path.h ---

// Answers the call that became this link, which is installed. If this fails, the caller has gone, and its hang-up takes
// the link down. [service]
void ep_remote_welcome(struct ep_link *link, const struct ep_tcp_message *welcome);
void ep_control_notify(struct ep_link *link, enum ep_notice notice);
// Notifies the peer that this rank reads the area of that number. False: not sent, since the handshake is not over.
bool ep_control_notify_reads(struct ep_link *link, uint64_t area);
int ep_control_listen(struct ep_link *link);
void ep_control_receive_last(struct ep_link *link);
// The state for a peer that does not answer: SILENT, unless most of the view is silent.
enum ep_link_state ep_control_verdict(weft_ep_t *ep, struct ep_link *link);

#endif
