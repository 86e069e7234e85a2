// The metadata of a worker's agent as text. Workers exchange it with meet_all_gather().
#ifndef BENCH_COMMON_CARD_H
#define BENCH_COMMON_CARD_H

#include <jansson.h>

#include <weft/agent.h>

// Makes a JSON string, which belongs to the caller. Errors are those of weft_agent_metadata().
int bench_card_make(weft_agent_t *agent, json_t **card);
// Loads the card of another worker. PROTOCOL: it is not a card; other errors are those of weft_agent_load().
int bench_card_load(weft_agent_t *agent, const json_t *card, weft_peer_t *peer);

#endif
