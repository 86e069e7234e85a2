// The kinds of store that the suite of store_exchange.c runs on.
#ifndef AGENT_EXCHANGE_SUPPORT_STORE_KIND_H
#define AGENT_EXCHANGE_SUPPORT_STORE_KIND_H

#include <stdbool.h>
#include <stdint.h>
#include <weft/store.h>

bool store_kind_begin(void);
void store_kind_end(void);

// The store's address; NULL: it is inside this process and cannot be stopped.
const char *store_kind_url(void);
uint16_t store_kind_port(void);
// Whether the store can restart with its contents.
bool store_kind_keeps(void);

// A separate handle; of the store inside this process always the same.
weft_store_t *store_kind_open(void);
void store_kind_close(weft_store_t *store);

// These stop the store, and start it again at the same address.
void store_kind_stop(void);
void store_kind_start(bool keep);

#endif
