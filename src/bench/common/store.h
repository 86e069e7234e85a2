// The store on which the workers of a benchmark meet.
#ifndef BENCH_COMMON_STORE_H
#define BENCH_COMMON_STORE_H

#include <stddef.h>

#include <weft/store.h>

#include "bench/common/options.h"
#include "secure/secret.h"

enum { BENCH_STORE_URL = 2048, BENCH_STORE_PREFIX = 160 };

struct bench_store {
  weft_store_t *client;
  weft_store_server_t *server;     // where this process has the store
  bool follows;                    // another worker has the store, and has to be the first: meet_options.follows
  char url[BENCH_STORE_URL];       // URL at which processes of this host reach the store
  char address[64];                // address of this host, for meet_options.address; "": meet chooses
  char prefix[BENCH_STORE_PREFIX]; // "weft/bench/GROUP/"
  char made_token[SECRET_DIGITS + 1];
};

// Opens the store that the options name, or starts one in this process. `others`: workers of other processes or hosts
// are expected. Then the store listens for other hosts, and the command for them is printed on standard error, with the
// token if it was made here ("NAME" in it is `command`, e.g. "weft bench transfer"). INVALID: the options contradict
// each other, or others need a token that nobody would see. UNREACHABLE: there is no store at the address. It starts
// threads: fork before.
int bench_store_open(struct bench_store *store, const struct bench_options *options, bool others, const char *command);
// Closes the client and, if this process has the store, also the store. To be called when all workers are done with it.
void bench_store_close(struct bench_store *store);

// The data with which a process of this host opens the same store. It gets `url` and `token` over a private way
// (bench_children).
struct bench_store_place {
  char url[BENCH_STORE_URL];
  char token[4096]; // "": none
  char address[64];
  bool follows;
};
void bench_store_describe(const struct bench_store *store, const struct bench_options *options,
                          struct bench_store_place *place);
int bench_store_join(struct bench_store *store, const struct bench_options *options,
                     const struct bench_store_place *place);

#endif
