// A store in this process for the tests of a program: setup and teardown of their group, or of each test.
#ifndef SUPPORT_LOCAL_STORE_H
#define SUPPORT_LOCAL_STORE_H

#include <weft/store.h>

static weft_store_t *store;

static inline int open_store(void **state) {
  (void)state;
  return weft_store_open_local(&store);
}

static inline int close_store(void **state) {
  (void)state;
  weft_store_close(store);
  return 0;
}

#endif
