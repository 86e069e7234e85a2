// A connection between two agents that meet by socket: TLS 1.3 (secure/tls.h) with a key that is derived from the
// token. The caller proves the token in its first message: who does not have it is told that it was refused, and
// nothing else.
//
// Each message within it is: bytes that follow (u32), kind (u8), content. What is said, caller first:
//   METADATA         of the caller
//   METADATA         of the listener, with its proof (agent/exchange/proof.h) that it is the agent of this metadata
//   PROOF            of the caller, likewise; the listener loads the caller's metadata
//   ADOPTED          by the listener; the caller loads the listener's metadata, and both know each other
//   UPDATE, GOODBYE  at any time from then on
// METADATA is: the version of what is said here and the oldest one that can talk to it (u16 each), the listener's
// proof, the metadata. In place of each answer may stand REFUSED, which ends the connection. Metadata that was shown
// and is not proved yet changes nothing here: it is kept, within the limits below.
//
// Nothing here waits: housekeeping calls when the socket is ready, and a timer bounds each step.
#ifndef AGENT_EXCHANGE_SOCKET_CONNECTION_H
#define AGENT_EXCHANGE_SOCKET_CONNECTION_H

#include "agent/exchange/proof.h"
#include "agent/services.h"
#include "base/text/text.h"
#include "secure/tls.h"

#define TALK_PROTOCOL "weft meet 2"

enum {
  TALK_VERSION = 3,
  TALK_MINIMUM = 3,
  TALK_HEAD = 5, // bytes before the content
  // Of a message: the metadata of some 100,000 regions. What comes is kept until it is whole, and metadata until it is
  // proved, so this bounds what one connection makes this agent hold, and TALK_MAX_HELD what all of them do.
  TALK_MAX_MESSAGE = 16 << 20,
  TALK_MAX_HELD = 64 << 20,
  TALK_STEP_MS = 5000,     // for the whole handshake, however slowly it comes
  TALK_MESSAGE_MS = 30000, // for each message behind it: until it has come whole, or the other has taken it
  TALK_READ = 16 << 10,    // bytes taken at once: a record of TLS
};

enum talk_kind {
  TALK_REFUSED = 3, // u32 code, text
  TALK_METADATA = 4,
  TALK_ADOPTED = 5,
  TALK_UPDATE = 6,
  TALK_GOODBYE = 7,
  TALK_PROOF = 8,
};

enum talk_state {
  TALK_CONNECTING,
  TALK_HANDSHAKE,
  TALK_WANTS_METADATA,
  TALK_WANTS_PROOF,   // listener
  TALK_WANTS_ADOPTED, // caller
  TALK_OPEN,
  TALK_ENDED,
};

struct agent_talk {
  struct meta_timer timer; // first: the end of a step
  weft_agent_t *agent;
  bool caller;
  enum talk_state state;
  struct agent_watch watch;
  struct tls *tls;   // NULL: the other has said nothing yet
  bool wants_write;  // TLS has something to send before it can go on
  uint64_t begun_ns; // since when it is there
  uint16_t bucket;   // of the address of who was accepted: places are shared out by it
  struct text in, out;
  size_t out_at;
  struct text shown;                // the other's metadata, until it has proved that it is its own
  uint8_t other_key[EXCHANGE_SIZE]; // its public key, by what it has shown
  bool told;                        // this agent's metadata was sent
  bool update_due;                  // the regions have changed; sent when it is open and `out` is empty
  weft_peer_t peer;                 // 0: not known yet
  int err;                          // of the end
  bool was_cut; // it ended because the other hung up within the handshake, as a listener with many callers does
  char why[AGENT_MAX_DETAIL];
  int done_fd;                    // caller: an eventfd that says that it is open or has ended; -1
  bool waited;                    // the caller's thread still looks at it, and frees it
  LIST_ENTRY(agent_talk) of_life; // while `peer` has a life
  bool has_life;
  TAILQ_ENTRY(agent_talk) all;
};

// Takes the socket over: one that connects, or was accepted. NULL: no memory; the socket is closed. [tending, as all]
struct agent_talk *talk_start(struct agent_meta *meta, int fd, bool caller);

// Ends it: closes the socket, and its peer has gone, if it was known. Frees it later, unless somebody waits for it.
void talk_end(struct agent_talk *talk, int err, const char *why);
// One that has ended.
void talk_free(struct agent_talk *talk);

// Queues a message and sends what can be sent.
void talk_send(struct agent_talk *talk, enum talk_kind kind, const void *bytes, size_t size);

void talk_set_peer(struct agent_talk *talk, weft_peer_t peer);
// Wakes the thread that waits for it, if any.
void talk_tell_caller(struct agent_talk *talk);

// Sends this agent's metadata; the METADATA of a listener with its proof.
int talk_send_metadata(struct agent_talk *talk, enum talk_kind kind);
// Sends it if an update is due and nothing else on its way.
void talk_send_update(struct agent_talk *talk);

// socket_handshake.c
// The handshake is over.
void talk_begin(struct agent_talk *talk);
// A message that was read whole.
void talk_take(struct agent_talk *talk, enum talk_kind kind, const uint8_t *bytes, size_t size);

// Whether it has not shown yet that it has the token.
static inline bool talk_is_half_open(const struct agent_talk *talk) {
  return !talk->caller && talk->state == TALK_HANDSHAKE;
}

// The metadata that was shown is needed no more.
void talk_drop_shown(struct agent_talk *talk);
// Of the two of this connection, once the other has shown its key.
struct proof_parties talk_parties(const struct agent_talk *talk);

// socket_exchange.c keeps them all.
struct agent_meet {
  struct agent_meta *meta;
  struct lobby *lobby; // who has called and not spoken; NULL: this agent does not listen
  int listening_fd;
  struct agent_watch listener; // the lobby's; fd -1: none
  struct meta_timer again;     // tries to accept again, after a pause
  uint16_t port;
  bool has_key;
  uint8_t key[SECRET_KEY_SIZE];                     // of the token
  uint32_t num_half_open, num_taken;                // accepted ones: within the handshake, and all
  size_t held;                                      // bytes of messages in part, and of metadata that is not proved
  TAILQ_HEAD(agent_talks, agent_talk) talks, ended; // ended: to be freed
};

#endif
