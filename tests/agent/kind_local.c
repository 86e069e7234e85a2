#include "agent/kind.h"

static weft_store_t *store;

bool kind_begin(void) {
  return weft_store_open_local(&store) == 0;
}

void kind_end(void) {
  weft_store_close(store);
}

const char *kind_url(void) {
  return NULL;
}

uint16_t kind_port(void) {
  return 0;
}

bool kind_keeps(void) {
  return false;
}

weft_store_t *kind_open(void) {
  return store;
}

void kind_close(weft_store_t *handle) {
  (void)handle;
}

void kind_stop(void) {}

void kind_start(bool keep) {
  (void)keep;
}
