// The table of peers, and how peers end.
#ifndef AGENT_PEER_TABLE_H
#define AGENT_PEER_TABLE_H

#include "agent/agent.h"

// The end of each error text about a peer that has gone. For this agent it stays gone, though the peer may be alive.
#define AGENT_COME_BACK "; to use it, load its metadata again"

// --- the table: table.c ---

// The link of that worker to the peer; NULL: the worker does not reach it, and links[].why says why. The link to this
// agent itself is made when it is first needed. [lock; may take the worker's lock]
struct agent_link *agent_link_get(struct agent_peer *peer, struct agent_worker *worker);

// Fails with the reason why that peer ended: PEER_LOST, or NOT_FOUND if there never was such a peer. [lock]
int agent_peer_fail(weft_agent_t *agent, weft_peer_t id);
// 0 and the living peer, or the error of agent_peer_fail(). [lock]
int agent_peer_living(weft_agent_t *agent, weft_peer_t id, struct agent_peer **peer);
// Whether that peer lives at this moment. [any, takes lock]
bool agent_peer_lives(weft_agent_t *agent, weft_peer_t id);

// Makes a new peer with a slot, which is in no table yet. [lock]
int agent_peer_new(weft_agent_t *agent, struct agent_peer **peer);
// Puts the peer into the tables: from then on it is found, and its messages are received. [lock; takes all worker
// locks]
void agent_peer_enter(weft_agent_t *agent, struct agent_peer *peer);
// Takes the peer out of the tables. [lock; takes all worker locks]
void agent_peer_withdraw(weft_agent_t *agent, struct agent_peer *peer);
// Frees a peer that was not put into the tables, or that is torn down and not in use. [lock]
void agent_peer_recycle(weft_agent_t *agent, struct agent_peer *peer);

// --- the end: teardown.c ---

// Whether nothing of the peer is in flight. [lock]
bool agent_peer_is_quiet(struct agent_peer *peer);
// Disconnects the peer's links, frees its outgoing messages and regions. Its transfers have ended. [lock; takes all
// worker locks]
void agent_peer_tear(weft_agent_t *agent, struct agent_peer *peer);

// Ends peers whose links have failed, and tears down peers that have ended. [housekeeping; takes lock]
void agent_peers_housekeep(weft_agent_t *agent);
// Whether ended peers wait for something in flight. [housekeeping]
bool agent_peers_dying(weft_agent_t *agent);
void agent_peers_free(weft_agent_t *agent);

// Called by transports: agent_worker is the argument. [worker lock]
void agent_peer_failed(void *arg, struct transport_peer *peer, int err, const char *why);

#endif
