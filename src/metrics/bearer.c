// Makes what a client needs to read metrics: the bearer text, derived one-way from the token, and the URL.
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

int metrics_bearer_to_file(const char *token, const char *option, const char *path) {
  char bearer[METRICS_BEARER + 1];
  int rc = metrics_bearer(token, bearer);
  if (rc == 0)
    rc = secret_to_file(option, path, bearer);
  explicit_bzero(bearer, sizeof bearer);
  return rc;
}

void metrics_url(const char *address, uint16_t port, char *text, size_t size) {
  snprintf(text, size, "http://%.*s:%u/metrics", (int)(strrchr(address, ':') - address), address, port);
}
