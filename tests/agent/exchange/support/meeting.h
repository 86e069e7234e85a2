// Agents that listen and call, on this host.
#ifndef TESTS_AGENT_MEETING_H
#define TESTS_AGENT_MEETING_H

#include "agent/support/crowd.h"

extern const char meet_token[]; // that they share

void meet_listener(struct crowd_member *member, const char *name, const char *listen);
void meet_caller(struct crowd_member *member, const char *name, const char *secret);
uint16_t meet_port(struct crowd_member *member);

int meet_at(struct crowd_member *member, uint16_t port, uint32_t timeout_ms, weft_peer_t *peer);
// Has to succeed.
weft_peer_t meet(struct crowd_member *member, struct crowd_member *listener);

// The main() of these tests: descriptors that are left open are a failure.
int meet_run(int (*tests)(void));

#endif
