// What initiator and target say to each other: JSON objects in notifications, each with "say".
#ifndef P2P_SESSION_MESSAGE_H
#define P2P_SESSION_MESSAGE_H

#include <jansson.h>
#include <stdint.h>

#include <weft/agent.h>

enum { P2P_SHOWN = 160 };

// Sends `message` and takes it over.
int p2p_send_to(weft_agent_t *agent, weft_peer_t peer, json_t *message);

// A field of a message. PROTOCOL: it is not there.
int p2p_number(const json_t *message, const char *name, uint64_t *value);
const char *p2p_text(const json_t *message, const char *name);
// A text of the peer's as it may be shown to people: without control characters, cut short. Into out, which it returns.
const char *p2p_shown(const char *text, char out[P2P_SHOWN]);
// PROTOCOL: the message is another one than `what`.
int p2p_expect(const json_t *message, const char *what);

#endif
