// What a client shows to read metrics: from the token, by a one-way derivation.
#include <stdio.h>
#include <string.h>

#include "metrics/server.h"
#include "secure/secret.h"

_Static_assert(METRICS_BEARER == 2 * SECRET_KEY_SIZE, "two digits a byte");

int metrics_bearer(const char *token, char text[METRICS_BEARER + 1]) {
  uint8_t key[SECRET_KEY_SIZE];
  int rc = secret_derive(token, "weft metrics 1", key);
  for (size_t i = 0; rc == 0 && i < sizeof key; i++)
    snprintf(text + 2 * i, 3, "%02x", key[i]);
  explicit_bzero(key, sizeof key);
  return rc;
}
