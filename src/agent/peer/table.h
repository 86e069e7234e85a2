// Peers: their table, their end.
#ifndef AGENT_PEER_TABLE_H
#define AGENT_PEER_TABLE_H

#include "agent/agent.h"

// Ends each sentence about a peer that has gone: it stays so for this agent, though the peer may live.
#define AGENT_COME_BACK "; to use it, load its metadata again"

// --- the table: table.c ---

// The peer as that worker reaches it; NULL: it does not, and links[].why says why. The way to oneself is made when it
// is first asked for. [lock; may take the worker's lock]
struct agent_link *agent_link_get(struct agent_peer *peer, struct agent_worker *worker);

// Fails with what is known of the end of that peer: PEER_LOST, or NOT_FOUND when there never was one. [lock]
int agent_peer_fail(weft_agent_t *agent, weft_peer_t id);
// 0, and the living peer; or what agent_peer_fail() says. [lock]
int agent_peer_living(weft_agent_t *agent, weft_peer_t id, struct agent_peer **peer);

// A new peer, with a slot, in no table yet. [lock]
int agent_peer_new(weft_agent_t *agent, struct agent_peer **peer);
// Puts it into the tables: from here on it is found, and its messages are received. [lock; takes all worker locks]
void agent_peer_enter(weft_agent_t *agent, struct agent_peer *peer);
// Takes it out of them. [lock; takes all worker locks]
void agent_peer_withdraw(weft_agent_t *agent, struct agent_peer *peer);
// Gives back what was not entered, or is torn down and not in use. [lock]
void agent_peer_recycle(weft_agent_t *agent, struct agent_peer *peer);

// --- the end: teardown.c ---

// Whether nothing of it is in flight. [lock]
bool agent_peer_is_quiet(struct agent_peer *peer);
// Disconnects its links, frees its letters and regions. Its transfers have ended. [lock; takes all worker locks]
void agent_peer_tear(weft_agent_t *agent, struct agent_peer *peer);

// Ends those whose links have failed, lets go of those that have ended. [housekeeping; takes lock]
void agent_peers_housekeep(weft_agent_t *agent);
// Whether ended peers wait for something in flight. [housekeeping]
bool agent_peers_dying(weft_agent_t *agent);
void agent_peers_free(weft_agent_t *agent);

// Called by transports: agent_worker is the argument. [worker lock]
void agent_peer_failed(void *arg, struct transport_peer *peer, int err, const char *why);

#endif
