// Initiators that come while a target serves another one: each is told that it waits, and served in its turn.
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
  uint64_t remind_ns; // when they are told next
};

// What somebody else than the one that is served says: a hello queues it, all else is passed over. An initiator that
// finds no place gets BUSY as its answer.
void p2p_queue_take(struct p2p_queue *queue, weft_agent_t *agent, const struct weft_notification *note);
// Tells those that wait, once in a while, that they still do; drops those that have gone.
void p2p_queue_remind(struct p2p_queue *queue, weft_agent_t *agent);
// The one whose turn it is, and its hello, which is the caller's. False: nobody waits.
bool p2p_queue_next(struct p2p_queue *queue, weft_agent_t *agent, weft_peer_t *peer, json_t **hello);
void p2p_queue_clear(struct p2p_queue *queue);

#endif
