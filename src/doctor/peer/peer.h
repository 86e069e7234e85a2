// Probes the connection to another host on which `weft doctor --listen` runs.
#ifndef DOCTOR_PEER_PEER_H
#define DOCTOR_PEER_PEER_H

#include "doctor/report/check.h"

// Probes the connection to `peer`, HOST[:PORT], which has the same token; each step may take `timeout_ms`. NULL: there
// is no peer to probe. The caller has zeroed the facts.
void doctor_gather_peer(struct doctor_peer_facts *facts, const char *peer, const char *token, uint32_t timeout_ms);

// The same, with retries for so many seconds while nothing listens there or its name cannot be resolved.
void doctor_await_peer(struct doctor_peer_facts *facts, const char *peer, const char *token, uint32_t timeout_ms,
                       uint32_t startup_timeout_s);

doctor_judge_fn doctor_judge_peer, doctor_judge_peer_back, doctor_judge_peer_mtu;

#endif
