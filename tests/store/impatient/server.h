// A server that ends and begins again on the same port, for a test of its clients.
#ifndef STORE_IMPATIENT_SERVER_H
#define STORE_IMPATIENT_SERVER_H

#include <stdbool.h>
#include <stdint.h>

enum server_end {
  SERVER_STOPS,    // it ends in order, if its kind can
  SERVER_IS_KILLED // with all that it does at that time
};

struct server_kind {
  const char *name;
  bool keeps; // it has its keys after it began again
  // Starts it with an empty store. `drawn` is a random number, for kinds that differ from run to run.
  bool (*start)(uint64_t drawn);
  bool (*start_again)(enum server_end end);
  // Its process does nothing, until called with false. NULL: it has no process of its own.
  void (*freeze)(bool frozen);
  void (*stop)(void);
  uint16_t (*port)(void);
  const char *(*scheme)(void); // "http" or "https"
  const char *(*token)(void);  // NULL: none
};

extern const struct server_kind server_kind; // each program links one of server_*.c

// For a kind that runs in another process of the same program: what that process does. `port` is an argument of it.
int server_be(const char *port);

#endif
