// The conversation of initiator and target: messages (message.h) and answers to them.
#ifndef P2P_SESSION_SESSION_H
#define P2P_SESSION_SESSION_H

#include "p2p/p2p.h"
#include "p2p/session/message.h"

enum { P2P_VERSION = 3 };

struct p2p_queue;

struct p2p_session {
  weft_agent_t *agent;
  weft_peer_t peer;        // 0: none yet
  struct p2p_queue *queue; // of a target: gets the messages of everybody but the peer; NULL: those messages are dropped
  uint32_t timeout_ms;
  uint64_t work_ns; // when the peer next gets a message that this side is at work
  int wake;         // readable when there are notifications
};

// Opens an agent. `listen`: HOST:PORT; NULL for the agent of an initiator.
int p2p_session_open(struct p2p_session *session, const struct p2p_config *config, const char *listen);
// Keeps the last error's sentence, because closing may also fail if the peer has gone.
void p2p_session_close(struct p2p_session *session);

// Sends `message` and takes it over. [any number of times before an answer]
int p2p_send(struct p2p_session *session, json_t *message);
// Sends a failure with the sentence of the last error.
int p2p_say_failure(struct p2p_session *session, int err);

// For a side that may measure for a long time: from time to time sends the waiting peer a message that it is at work.
int p2p_say_work(struct p2p_session *session, uint64_t now_ns);

// Receives the next message; answers pings and skips them. A message about a failure of the peer becomes an error here.
// TIMEOUT after `timeout_ms` (0: the session's; WEFT_WAIT_FOREVER), PEER_LOST, CANCELED by a signal. `*message` is the
// caller's.
int p2p_receive(struct p2p_session *session, uint32_t timeout_ms, json_t **message);
// The same without a wait, for a side that is at work: 1, or 0 if there is no message. Pings are not messages here.
int p2p_try_receive(struct p2p_session *session, json_t **message);
// Sends `message` and waits for the answer `what`; `answer` may be NULL.
int p2p_ask(struct p2p_session *session, json_t *message, const char *what, json_t **answer);

// Waits until the peer's region is known here; its metadata arrives without a request.
int p2p_await_region(struct p2p_session *session, weft_region_t region);

// Sends a ping of `size` bytes, waits for the answer, which the target's p2p_receive() sends, and measures the time.
int p2p_ping(struct p2p_session *session, uint32_t size, uint64_t *ns);

#endif
