// What initiator and target say to each other: JSON objects in notifications, each with "say", and answers to them.
#ifndef P2P_SESSION_H
#define P2P_SESSION_H

#include <jansson.h>

#include "p2p/p2p.h"

enum { P2P_VERSION = 1, P2P_SHOWN = 160 };

struct p2p_session {
  weft_agent_t *agent;
  weft_peer_t peer; // 0: none yet
  uint32_t timeout_ms;
  int wake; // readable when there are notifications
};

// Opens an agent. `listen`: HOST:PORT, NULL for an initiator's.
int p2p_session_open(struct p2p_session *session, const struct p2p_config *config, const char *listen);
void p2p_session_close(struct p2p_session *session);

// Takes `message` over. [any number of times before an answer]
int p2p_send(struct p2p_session *session, json_t *message);
// The same for a failure, the last error's sentence with it.
int p2p_say_failure(struct p2p_session *session, int err);

// The next message; a ping is answered and passed over. A message of a failure at the other side becomes one here.
// TIMEOUT after `timeout_ms` (0: the session's), PEER_LOST. `*message` is the caller's.
int p2p_receive(struct p2p_session *session, uint32_t timeout_ms, json_t **message);
// Says `message` and waits for the answer `what`; `answer` may be NULL.
int p2p_ask(struct p2p_session *session, json_t *message, const char *what, json_t **answer);

// Waits until the peer's region is known here, as its metadata comes by itself.
int p2p_await_region(struct p2p_session *session, weft_region_t region);

// Sends a ping of `size` bytes and waits for its answer, which the target's p2p_receive() gives; the time in between.
int p2p_ping(struct p2p_session *session, uint32_t size, uint64_t *ns);

// A field of a message. PROTOCOL: it is not there.
int p2p_number(const json_t *message, const char *name, uint64_t *value);
const char *p2p_text(const json_t *message, const char *name);
// A text of the peer's as it may be shown to people: without control characters, cut short. Into out, which it returns.
const char *p2p_shown(const char *text, char out[P2P_SHOWN]);

#endif
