// The messages between initiator and target: JSON objects in notifications. The member "say" of each names its kind.
#ifndef P2P_SESSION_MESSAGE_H
#define P2P_SESSION_MESSAGE_H

#include <jansson.h>
#include <stdint.h>

#include <weft/agent.h>

enum { P2P_SHOWN = 160 }; // of a word that is quoted in a sentence

// Sends `message` and takes it over.
int p2p_send_to(weft_agent_t *agent, weft_peer_t peer, json_t *message);

// Reads a field of a message. PROTOCOL: the field is missing.
int p2p_number(const json_t *message, const char *name, uint64_t *value);
const char *p2p_text(const json_t *message, const char *name);
// Makes a text safe to print: replaces all that is not printable ASCII, and shortens it to `size` bytes, its NUL
// included. Writes to `out` and returns it.
const char *p2p_shown(const char *text, char *out, size_t size);
// PROTOCOL: the message is not of the kind `what`.
int p2p_expect(const json_t *message, const char *what);

#endif
