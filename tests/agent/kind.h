// The kinds of store that tests/agent/store.c runs on.
#ifndef TESTS_AGENT_KIND_H
#define TESTS_AGENT_KIND_H

#include <stdbool.h>
#include <stdint.h>
#include <weft/store.h>

bool kind_begin(void);
void kind_end(void);

// Where it is; NULL: inside this process, which cannot be stopped.
const char *kind_url(void);
uint16_t kind_port(void);
// Whether it can come back with what it held.
bool kind_keeps(void);

// A handle of its own; of the store inside this process always the same.
weft_store_t *kind_open(void);
void kind_close(weft_store_t *store);

// Stops the store, and starts it again at the same place.
void kind_stop(void);
void kind_start(bool keep);

#endif
