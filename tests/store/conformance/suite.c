// What the parts of the conformance suite share.
#include "conformance/suite.h"

#include "conformance/kind.h"
#include <stdio.h>
#include <string.h>

int suite_open(void **state) {
  weft_store_t *store = NULL;
  int err = kind.open(&store);
  if (err)
    fprintf(stderr, "%s: %s\n", kind.name, weft_last_error());
  *state = store;
  return err;
}

int suite_close(void **state) {
  weft_store_close(*state);
  return 0;
}

int64_t suite_put(weft_store_t *store, const char *key, const char *value, int64_t lease) {
  int64_t revision = 0;
  assert_ok(weft_store_put(store, key, value, strlen(value), lease, &revision));
  return revision;
}
