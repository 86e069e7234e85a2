// A connection between two agents that meet by socket.
//
// Each message is: bytes that follow (u32), kind (u8), content, and from the proofs on 32 bytes of HMAC-SHA256 over a
// counter and all of that, with a key of this connection and direction. What is said, caller first:
//   HELLO, HELLO     magic, version, oldest version that can talk to it, 32 random bytes
//   PROOF, PROOF     HMAC of the shared token over the role and both random values; a wrong one gets REFUSED
//   METADATA         of the caller; the listener loads it, and answers with its own or REFUSED
//   METADATA         of the listener; the caller loads it
//   ADOPTED          by the caller: both know each other
//   UPDATE, GOODBYE  at any time from then on
// The caller proves itself first: who does not have the token sees a random value and nothing else.
//
// Nothing here waits: housekeeping calls when the socket is ready, and a timer bounds each step.
#ifndef AGENT_TALK_H
#define AGENT_TALK_H

#include "agent/hmac.h"
#include "agent/meta.h"
#include "base/text.h"

enum {
  TALK_VERSION = 1,
  TALK_MINIMUM = 1,
  TALK_NONCE = 32,
  TALK_HEAD = 5,                            // bytes before the content
  TALK_MAX_GREETING = 512,                  // of a message before the proofs
  TALK_MAX_MESSAGE = AGENT_MAX_BLOB + 1024, // behind them
  TALK_STEP_MS = 5000,                      // for all steps up to the proofs, and for each message behind them
  TALK_READ = 64 << 10,                     // bytes taken at once
};

enum talk_kind {
  TALK_HELLO = 1,
  TALK_PROOF = 2,
  TALK_REFUSED = 3, // u32 code, text
  TALK_METADATA = 4,
  TALK_ADOPTED = 5,
  TALK_UPDATE = 6,
  TALK_GOODBYE = 7,
};

enum talk_state {
  TALK_CONNECTING,
  TALK_WANTS_HELLO,
  TALK_WANTS_PROOF,
  TALK_WANTS_METADATA,
  TALK_WANTS_ADOPTED,
  TALK_OPEN,
  TALK_ENDED,
};

struct agent_talk {
  struct meta_timer timer; // first: the end of a step
  weft_agent_t *agent;
  bool caller;
  enum talk_state state;
  struct agent_watch watch;
  uint8_t nonces[2][TALK_NONCE]; // the caller's, the listener's
  uint8_t keys[2][HMAC_SIZE];    // of what the caller sends, the listener
  bool sealed;                   // the proofs are through: messages carry a seal
  uint64_t num_sent, num_read;
  struct text in, out;
  size_t out_at;
  bool update_due;  // the regions have changed; sent when `out` is empty
  weft_peer_t peer; // 0: not known yet
  int err;          // of the end
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

// Queues a message and sends what can be sent.
void talk_send(struct agent_talk *talk, enum talk_kind kind, const void *bytes, size_t size);

void talk_set_peer(struct agent_talk *talk, weft_peer_t peer);
// Wakes the thread that waits for it, if any.
void talk_tell_caller(struct agent_talk *talk);

// Sends this agent's metadata.
int talk_send_metadata(struct agent_talk *talk, enum talk_kind kind);
// Sends it if an update is due and nothing else on its way.
void talk_send_update(struct agent_talk *talk);

// talk_steps.c: a message that was read whole, and whose seal is right.
void talk_take(struct agent_talk *talk, enum talk_kind kind, const uint8_t *bytes, size_t size);
void talk_say_hello(struct agent_talk *talk);

// Whether it has not shown yet that it has the token.
static inline bool talk_is_half_open(const struct agent_talk *talk) {
  return !talk->caller && talk->state < TALK_WANTS_METADATA;
}

// meet.c keeps them all.
struct agent_meet {
  struct agent_meta *meta;
  struct agent_watch listener; // fd -1: none
  struct meta_timer again;     // tries to accept again, after descriptors ran out
  uint16_t port;
  const char *token; // the agent's options'
  uint32_t num_half_open;
  TAILQ_HEAD(agent_talks, agent_talk) talks, ended; // ended: to be freed
};

#endif
