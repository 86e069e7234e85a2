// Messages to peers, and the credits of notifications: a sender has at most AGENT_CREDITS on their way or unread. It
// numbers them; the reader says in every message, and after each AGENT_CREDIT_BATCH that it has taken in one of its
// own, up to which number it has read. Numbers of those that failed are passed over.
//
// A peer may end at one side alone, and be loaded again there: it is the same incarnation for the other side, which
// goes on counting. So the side that begins anew goes on behind all numbers that it has used, and takes what had come
// before the first message that it gets for read: nobody else will read it.
#ifndef AGENT_PEER_MESSAGE_SEND_H
#define AGENT_PEER_MESSAGE_SEND_H

#include "agent/agent.h"

// Sets the numbers of a new peer; keeps those of one that has ended. [lock]
void agent_credit_open(weft_agent_t *agent, struct agent_peer *peer);
void agent_credit_close(weft_agent_t *agent, const struct agent_peer *peer);
// Takes a credit: the notification's number; 0: there is none left. [any]
uint64_t agent_credit_take(struct agent_peer *peer);
// The notification of that number has left (`err` 0), or failed. [any]
void agent_credit_end(struct agent_peer *peer, uint64_t sequence, int err);
// The peer has read up to `sequence`, as its messages show. [any]
void agent_credit_take_in(struct agent_peer *peer, uint64_t sequence);
// The application has taken all up to `sequence`, or never will. [any]
void agent_credit_taken(struct agent_peer *peer, uint64_t sequence);
// Sends the peer how far this side has read. [any; takes the messenger's lock]
void agent_credit_send(weft_agent_t *agent, struct agent_peer *peer);

// Writes a header to the peer. [any]
void agent_header_fill(struct agent_peer *peer, uint8_t *bytes, enum agent_message_kind kind, uint32_t size,
                       uint64_t sequence);

// Cancels the letters in flight; whether there are none; frees them, when there are none [worker lock of the
// messenger].
void agent_letters_cancel(struct agent_peer *peer);
bool agent_letters_idle(struct agent_peer *peer);
void agent_letters_free(struct agent_peer *peer);

#endif
