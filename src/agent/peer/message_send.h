// Messages to peers, and the credits of notifications. A sender has at most AGENT_CREDITS notifications in flight or
// unread. The sender numbers them. The reader states in every message up to which number it has read, and sends a
// separate message for that after each AGENT_CREDIT_BATCH notifications. The numbers of notifications that failed are
// skipped.
//
// A peer may end at one side only, and be loaded again there. For the other side it is the same incarnation, so that
// side continues to count. The side that begins anew therefore continues after all numbers that it has used. It treats
// everything as read that arrived before the first message that it gets, since nobody else will read it.
#ifndef AGENT_PEER_MESSAGE_SEND_H
#define AGENT_PEER_MESSAGE_SEND_H

#include "agent/agent.h"

// The first sets the numbers of a new peer, the second keeps those of a peer that has ended. [lock]
void agent_credit_open(weft_agent_t *agent, struct agent_peer *peer);
void agent_credit_close(weft_agent_t *agent, const struct agent_peer *peer);
// Takes a credit. Returns the notification's number; 0: no credit is left. [any]
uint64_t agent_credit_take(struct agent_peer *peer);
// The notification of that number was sent (`err` 0), or failed. [any]
void agent_credit_end(struct agent_peer *peer, uint64_t sequence, int err);
// The peer has read up to `sequence`, as its messages show. [any]
void agent_credit_take_in(struct agent_peer *peer, uint64_t sequence);
// The application has taken all notifications up to `sequence`, or will never take them. [any]
void agent_credit_taken(struct agent_peer *peer, uint64_t sequence);
// Sends the peer how far this side has read. [any; takes the messenger's lock]
void agent_credit_send(weft_agent_t *agent, struct agent_peer *peer);

// Writes a header to the peer. [any]
void agent_header_fill(struct agent_peer *peer, uint8_t *bytes, enum agent_message_kind kind, uint32_t size,
                       uint64_t sequence);

// For the outgoing messages of a peer: the first cancels those in flight, the second returns whether none is in flight,
// the last frees them if none is [worker lock of the messenger].
void agent_outgoing_cancel(struct agent_peer *peer);
bool agent_outgoing_idle(struct agent_peer *peer);
// Whether so many are in flight that messages which can wait have to. Notifications have credits. [any]
bool agent_outgoing_full(struct agent_peer *peer);
void agent_outgoing_free(struct agent_peer *peer);

#endif
