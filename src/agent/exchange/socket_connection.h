// A connection between two agents that exchange metadata by socket: TLS 1.3 (secure/tls.h) with a key that is derived
// from the token. The caller proves the token in its first message: a caller without the token learns that it was
// refused, and nothing else.
//
// Each message within TLS has a length (u32, of the bytes that follow it), a kind (u8) and a content. The messages, of
// which the caller sends the first:
//   METADATA         of the caller
//   METADATA         of the listener, with its proof (agent/exchange/proof.h) that it is the agent of this metadata
//   PROOF            of the caller, that it is the agent of its metadata; the listener loads this metadata
//   ADOPTED          by the listener; the caller loads the listener's metadata, and both know each other
//   UPDATE, GOODBYE  at any time from then on
// METADATA contains the version of this protocol and the oldest version that it is compatible with (u16 each), the
// listener's proof, and the metadata. Each side may answer REFUSED instead, which ends the connection. Metadata that
// was received and is not proved yet is only kept, within the limits below, and changes nothing else.
//
// Nothing here waits: housekeeping calls these functions when the socket is ready, and a timer limits each step.
#ifndef AGENT_EXCHANGE_SOCKET_CONNECTION_H
#define AGENT_EXCHANGE_SOCKET_CONNECTION_H

#include "agent/exchange/proof.h"
#include "agent/services.h"
#include "base/text/text.h"
#include "secure/tls.h"

#define CONNECTION_PROTOCOL "weft meet 2"

enum {
  CONNECTION_VERSION = 3,
  CONNECTION_MINIMUM = 3,
  CONNECTION_HEAD = 5, // bytes before the content of a message
  // Bytes of a message: the metadata of some 100,000 regions. A message is kept until it is complete, and metadata
  // until it is proved. So this limits the memory that one connection uses, and CONNECTION_MAX_HELD the memory that all
  // connections use.
  CONNECTION_MAX_MESSAGE = 16 << 20,
  CONNECTION_MAX_HELD = 64 << 20,
  // Bytes that were written for other agents and that these do not read. Updates wait while half of it is in use. If it
  // is used up, the connection with most of these bytes ends, among those that are not of a peer yet.
  CONNECTION_MAX_SENDING = 128 << 20,
  CONNECTION_STEP_MS = 5000,     // for the whole handshake, however slowly its bytes arrive
  CONNECTION_MESSAGE_MS = 30000, // for each later message, until all of it was received or sent
  CONNECTION_READ = 16 << 10,    // bytes read at once: a record of TLS
};

enum connection_kind {
  CONNECTION_REFUSED = 3, // content: u32 code, text
  CONNECTION_METADATA = 4,
  CONNECTION_ADOPTED = 5,
  CONNECTION_UPDATE = 6,
  CONNECTION_GOODBYE = 7,
  CONNECTION_PROOF = 8,
};

enum connection_state {
  CONNECTION_CONNECTING,
  CONNECTION_HANDSHAKE,
  CONNECTION_WANTS_METADATA,
  CONNECTION_WANTS_PROOF,   // listener
  CONNECTION_WANTS_ADOPTED, // caller
  CONNECTION_OPEN,
  CONNECTION_ENDED,
};

struct agent_connection {
  struct agent_timer timer; // first member: the end of a step
  weft_agent_t *agent;
  bool caller;
  enum connection_state state;
  struct agent_watch watch;
  struct tls *tls;   // NULL: nothing has arrived from the other side yet
  bool wants_write;  // TLS has to send something before it can continue
  uint64_t begun_ns; // when the connection was made
  uint16_t bucket;   // by the address of the accepted caller: places are divided among buckets
  struct text in, out;
  size_t out_at;
  struct text shown; // the other side's metadata, until that side has proved that the metadata is its own
  uint8_t other_key[EXCHANGE_SIZE]; // the other side's public key, by the metadata that it sent
  bool published;                   // this agent's metadata was sent
  bool update_due;                  // the regions have changed; sent when it is open and `out` is empty
  weft_peer_t peer;                 // 0: not known yet
  int err;                          // why it ended
  bool was_cut; // it ended because the other side closed it within the handshake, as a listener with many callers does
  char why[AGENT_MAX_DETAIL];
  int done_fd;                          // caller: an eventfd that signals that the connection is open or has ended; -1
  bool waited;                          // the caller's thread still uses it, and frees it
  LIST_ENTRY(agent_connection) of_life; // while `peer` has a life
  bool has_life;
  TAILQ_ENTRY(agent_connection) all;
};

// Takes over a socket that connects or was accepted. NULL: no memory; the socket is closed. [housekeeping, as all
// below]
struct agent_connection *connection_start(struct agent_services *services, int fd, bool caller);

// Ends the connection: closes the socket, and ends the peer, if it is known. The connection is freed later, unless a
// caller waits for it.
void connection_end(struct agent_connection *connection, int err, const char *why);
// The same after a goodbye, if the handshake has come that far.
void connection_say_goodbye(struct agent_connection *connection, int err, const char *why);
#define CONNECTION_PEER_ENDED "the peer has ended since the two have met"
// Frees a connection that has ended.
void connection_free(struct agent_connection *connection);

// Queues a message and sends what can be sent.
void connection_send(struct agent_connection *connection, enum connection_kind kind, const void *bytes, size_t size);

void connection_set_peer(struct agent_connection *connection, weft_peer_t peer);
// Wakes the thread that waits for it, if any.
void connection_wake_caller(struct agent_connection *connection);

// socket_metadata.c Sends this agent's METADATA; a listener's contains its proof.
int connection_send_metadata(struct agent_connection *connection);

// The content of an UPDATE: it is made for the first connection that sends it, and the other connections send the same.
struct connection_update {
  uint8_t *content; // NULL: not made yet; to be freed
  size_t size;
};
// Sends an UPDATE, if one is due and nothing else is being sent. `update` NULL: makes one for this connection alone.
void connection_send_update(struct agent_connection *connection, struct connection_update *update);

// socket_handshake.c
// The handshake is over.
void connection_begin(struct agent_connection *connection);
// Handles a message that was read completely.
void connection_take(struct agent_connection *connection, enum connection_kind kind, const uint8_t *bytes, size_t size);

// Whether the other side has not proved yet that it has the token.
static inline bool connection_is_half_open(const struct agent_connection *connection) {
  return !connection->caller && connection->state == CONNECTION_HANDSHAKE;
}

// Frees the metadata that the other side sent; it is not needed any more.
void connection_drop_shown(struct agent_connection *connection);
// The two sides of this connection, once the other side has sent its key.
struct proof_parties connection_parties(const struct agent_connection *connection);

// socket_exchange.c keeps them all.
struct agent_sockets {
  struct agent_services *services;
  struct lobby *lobby; // accepted callers that have sent nothing yet; NULL: this agent does not listen
  int listening_fd;
  struct agent_watch listener; // the lobby's; fd -1: none
  struct agent_timer again;    // tries to accept again, after a pause
  uint16_t port;
  bool has_key;
  uint8_t key[SECRET_KEY_SIZE];      // derived from the token
  uint32_t num_half_open, num_taken; // accepted connections: those within the handshake, and all
  size_t held;                       // bytes of incomplete messages, and of metadata that is not proved
  size_t sending;                    // bytes of messages that are being sent
  TAILQ_HEAD(agent_connections, agent_connection) connections, ended; // ended: to be freed
};

static inline struct agent_sockets *connection_sockets(const struct agent_connection *connection) {
  return connection->agent->services->sockets;
}

#endif
