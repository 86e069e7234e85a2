// Declarations that the parts of bench_store share: the stores that are measured side by side, and their samples.
#ifndef BENCH_STORE_H
#define BENCH_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/ranks.h"

// X(name, unit, what)
#define STORE_MEASURES(X)                                                                                              \
  X(PUT, "us", "put of 64 bytes")                                                                                      \
  X(GET, "us", "get of a key")                                                                                         \
  X(TXN, "us", "transaction: compare, put, get")                                                                       \
  X(CONNECT, "us", "connect: a new client's first get")                                                                \
  X(NOTICE, "us", "put until its watcher knows, 1 watcher")                                                            \
  X(NOTICE_ONE, "us", "the same, 1,000 watchers of a key each")                                                        \
  X(NOTICE_ALL, "us", "the same, 1,000 watchers of that key, each")                                                    \
  X(SERVER_ONE, "us", "  server's CPU per put, a key each")                                                            \
  X(SERVER_ALL, "us", "  server's CPU per put, that key")                                                              \
  X(MEMORY, "kB", "  server's memory per watcher")                                                                     \
  X(RESIDENT, "MB", "  server's memory with 1,000 watchers")                                                           \
  X(CLAIM, "us", "claim of any rank, one")                                                                             \
  X(CLAIMS, "us", "claim of any rank, 64 at once, each")                                                               \
  X(CLAIMS_ALL, "us", "  until the last of the 64 has its rank")                                                       \
  X(JOIN, "us", "join until all 9 know the view")                                                                      \
  X(DEATH, "us", "death noticed until all 8 know the view")

enum store_measure {
#define NAME(name, unit, what) STORE_##name,
  STORE_MEASURES(NAME)
#undef NAME
      STORE_MEASURE_COUNT
};

struct store_kind {
  const char *name;
  struct bench_store server;
  weft_store_t *client;
  uint64_t *samples[STORE_MEASURE_COUNT]; // ns; bytes of memory
  size_t count[STORE_MEASURE_COUNT];
};

void store_record(struct store_kind *kind, enum store_measure measure, uint64_t value);
weft_store_t *store_client(const struct store_kind *kind); // opens one more client
void store_check(int err, const char *what);               // ends the program on a failure

// store_watch.c
void store_measure_notice(struct store_kind *kind, int rounds);
void store_measure_watchers(struct store_kind *kind);

// store_group.c
void store_measure_claims(struct store_kind *kind, int round);
void store_measure_views(struct store_kind *kind, int rounds, int run);

#endif
