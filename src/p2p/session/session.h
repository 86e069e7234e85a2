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
  struct p2p_queue *queue; // a target's: what others than the peer say goes there; NULL: nobody hears it
  uint32_t timeout_ms;
  uint64_t work_ns; // when the peer hears next that this side is at work
  int wake;         // readable when there are notifications
};

// Opens an agent. `listen`: HOST:PORT, NULL for an initiator's.
int p2p_session_open(struct p2p_session *session, const struct p2p_config *config, const char *listen);
// Keeps the last error's sentence, for closing may fail as well where the peer has gone.
void p2p_session_close(struct p2p_session *session);

// Takes `message` over. [any number of times before an answer]
int p2p_send(struct p2p_session *session, json_t *message);
// The same for a failure, the last error's sentence with it.
int p2p_say_failure(struct p2p_session *session, int err);

// For a side that measures for however long: tells the peer, which waits for a message, now and then that it is at
// work.
int p2p_say_work(struct p2p_session *session, uint64_t now_ns);

// The next message; a ping is answered and passed over. A message of a failure at the other side becomes one here.
// TIMEOUT after `timeout_ms` (0: the session's; WEFT_WAIT_FOREVER), PEER_LOST, CANCELED by a signal. `*message` is the
// caller's.
int p2p_receive(struct p2p_session *session, uint32_t timeout_ms, json_t **message);
// The same without a wait, for who is at work: 1, or 0 where there is none. A ping is none of the messages.
int p2p_try_receive(struct p2p_session *session, json_t **message);
// Says `message` and waits for the answer `what`; `answer` may be NULL.
int p2p_ask(struct p2p_session *session, json_t *message, const char *what, json_t **answer);

// Waits until the peer's region is known here, as its metadata comes by itself.
int p2p_await_region(struct p2p_session *session, weft_region_t region);

// Sends a ping of `size` bytes and waits for its answer, which the target's p2p_receive() gives; the time in between.
int p2p_ping(struct p2p_session *session, uint32_t size, uint64_t *ns);

#endif
