// The metadata of a worker's agent as text, which workers give each other by meet_all_gather().
#ifndef BENCH_COMMON_CARD_H
#define BENCH_COMMON_CARD_H

#include <jansson.h>

#include <weft/agent.h>

// A JSON string, the caller's. Errors as of weft_agent_metadata().
int bench_card_make(weft_agent_t *agent, json_t **card);
// Loads what another worker made of its agent. PROTOCOL: it is none; else as weft_agent_load().
int bench_card_load(weft_agent_t *agent, const json_t *card, weft_peer_t *peer);

#endif
