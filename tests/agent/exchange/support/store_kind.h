// The kinds of store that the suite of store_exchange.c runs on.
#ifndef AGENT_EXCHANGE_SUPPORT_STORE_KIND_H
#define AGENT_EXCHANGE_SUPPORT_STORE_KIND_H

#include <stdbool.h>
#include <stdint.h>
#include <weft/store.h>

bool store_kind_begin(void);
void store_kind_end(void);

// Where it is; NULL: inside this process, which cannot be stopped.
const char *store_kind_url(void);
uint16_t store_kind_port(void);
// Whether it can come back with what it held.
bool store_kind_keeps(void);

// A handle of its own; of the store inside this process always the same.
weft_store_t *store_kind_open(void);
void store_kind_close(weft_store_t *store);

// Stops the store, and starts it again at the same place.
void store_kind_stop(void);
void store_kind_start(bool keep);

#endif
