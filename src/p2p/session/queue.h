// Initiators that connect while the target serves another one. The target sends each a message that it has to wait, and
// serves them in order.
#ifndef P2P_SESSION_QUEUE_H
#define P2P_SESSION_QUEUE_H

#include <stdbool.h>

#include "p2p/session/message.h"

enum { P2P_MAX_WAITING = 64 };

struct p2p_queue {
  struct {
    weft_peer_t peer;
    json_t *hello; // its first message
  } list[P2P_MAX_WAITING];
  uint32_t count;
  uint64_t remind_ns; // when the next reminder is sent
};

// Handles a message from a peer that is not being served: a hello queues the peer, every other message is ignored. If
// the queue is full, the initiator gets BUSY as its answer.
void p2p_queue_take(struct p2p_queue *queue, weft_agent_t *agent, const struct weft_notification *note);
// From time to time sends the waiting initiators a message that they still wait; drops those that have disconnected.
void p2p_queue_remind(struct p2p_queue *queue, weft_agent_t *agent);
// Takes the next initiator and its hello, which the caller then owns. False: nobody waits.
bool p2p_queue_next(struct p2p_queue *queue, weft_agent_t *agent, weft_peer_t *peer, json_t **hello);
void p2p_queue_clear(struct p2p_queue *queue);

#endif
