// The store inside the process, as a kind of store for the suite of metadata through a store.
#include "agent/exchange/support/store_kind.h"

static weft_store_t *store;

bool store_kind_begin(void) {
  return weft_store_open_local(&store) == 0;
}

void store_kind_end(void) {
  weft_store_close(store);
}

const char *store_kind_url(void) {
  return NULL;
}

uint16_t store_kind_port(void) {
  return 0;
}

bool store_kind_keeps(void) {
  return false;
}

weft_store_t *store_kind_open(void) {
  return store;
}

void store_kind_close(weft_store_t *handle) {
  (void)handle;
}

void store_kind_stop(void) {}

void store_kind_start(bool keep) {
  (void)keep;
}
