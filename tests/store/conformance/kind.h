// The kind of store that a conformance program runs on: each program links one of kind_*.c.
#ifndef CONFORMANCE_KIND_H
#define CONFORMANCE_KIND_H

#include <stdbool.h>
#include <stdint.h>
#include <weft/store.h>

struct kind {
  const char *name;
  bool (*start)(void); // the server, if there is one, with an empty store
  void (*stop)(void);
  int (*open)(weft_store_t **store); // another handle to it, with default options
  // of servers only, else NULL:
  const char *scheme; // "http" or "https"
  const char *token;  // NULL: none
  uint16_t (*port)(void);
  bool (*restart_empty)(void); // on the same port
};

extern const struct kind kind;

#endif
