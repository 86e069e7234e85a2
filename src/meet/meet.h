// Workers of one benchmark meet on a store: ranks, equal settings, exchange of JSON, barriers, and who is missing.
//
// Keys under the prefix P, each on the lease of the worker that put it, so that ending a lease takes all of them away:
//   P meeting              the meeting that is open: {"id", "size"}; rank 0 puts it together with its own claim
//   P worker/<r>           a claim: {"meeting", "id", "host", "pid", "address", "place", "settings"}
//   P step/<id>/<n>/<r>    rank r has come to step n (a barrier or an exchange): {"name", "value"}
//   P end/<id>/<r>         how rank r ended: {"id", "kind": "left" | "lost" | "failed", "err", "why"}; of one that left
//                          because of a death also "dead": {"rank", "id", "why"}
// A claim is one transaction, which compares that the meeting is as it was read and that the rank is free.
//
// A lease tells of a death only after seconds. So each worker listens at a port, and up to 64 workers keep a connection
// to each other; of more, rank 0 keeps one to all and all keep one to rank 0. What breaks without a good-bye is a
// death. A worker that sees one puts `end` for the dead rank and ends its lease. A meeting does not outlive one of its
// workers: all waits end with PEER_LOST from then on.
//
// Threads: meet_lost(), meet_report_lost() and meet_fail() are [any], the others [owner]. Two threads belong to a
// meeting: start no process by fork() while it is open.
#ifndef MEET_MEET_H
#define MEET_MEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <weft/store.h>

struct meet;

enum { MEET_MAX_WORKERS = 1024 };

struct meet_options {
  weft_store_t *store;    // outlives it
  const char *prefix;     // keys of this benchmark, ends in '/': "weft/bench/GROUP/"
  uint32_t size;          // workers that are expected, this one too; 1 to MEET_MAX_WORKERS
  const json_t *settings; // object that must be equal in all workers; the error names the first that differs; or NULL
  const char *host;       // of this worker, for messages
  const char *address;    // numeric, of this host, at which the others reach it; NULL: loopback where the store is at
                          // loopback or in this process, else the host's own
  bool follows;           // somebody else is to be rank 0: whoever has the store, and may be slower
  uint32_t timeout_ms;    // until all have come; the error says how many came and which ranks are missing
  bool (*interrupted)(void *arg);                           // asked in waits, with a lock held; CANCELED. NULL: never
  void (*waiting)(void *arg, uint32_t come, uint32_t size); // told when somebody comes or goes; may be NULL
  void *arg;
};

// Takes a rank, and waits until all have come. INVALID: the settings differ, in all workers that are there; or the
// meeting is full already. TIMEOUT names who is missing, PEER_LOST who died meanwhile. UNREACHABLE: the store is away.
int meet_open(struct meet **meet, const struct meet_options *options);
// Leaves nothing of this worker in the store, nor of those that it knows to be dead. NULL is legal.
void meet_close(struct meet *meet);

uint32_t meet_rank(const struct meet *meet);
uint32_t meet_size(const struct meet *meet);
const char *meet_host(const struct meet *meet, uint32_t rank);
// Whether two workers are on one machine, in one container or in two: they have one boot id, or, where one of them
// cannot read it, one name.
bool meet_same_machine(const struct meet *meet, uint32_t a, uint32_t b);
// The same, and they have one name: so they see the same GPUs and memory, which containers may have of their own.
bool meet_same_host(const struct meet *meet, uint32_t a, uint32_t b);

// Each worker gives `mine`; all get all[size], copies that are the caller's. All have to call the steps in the
// same order: PROTOCOL names both steps where a worker is at another. PEER_LOST: who died, or left before it came;
// TIMEOUT: who is missing; CANCELED: interrupted; UNREACHABLE: the store has not answered for seconds; FENCED: the
// others took this worker for dead; and the error of a worker that called meet_fail(), with its sentence.
int meet_all_gather(struct meet *meet, const char *name, const json_t *mine, uint32_t timeout_ms, json_t **all);
// The same without values.
int meet_barrier(struct meet *meet, const char *name, uint32_t timeout_ms);

// A transfer failed with this error, perhaps because a worker has died or failed of which the meeting hears a moment
// later, or because others that have heard of it have left: what was first, with its sentence. 0: nothing of the kind
// became known within two seconds; then the last error is as it was.
int meet_cause(struct meet *meet, int err);

// This rank has been seen dead (a link broke, a child ended): all learn it, and its keys go. Returns at once.
void meet_report_lost(struct meet *meet, uint32_t rank, const char *why);
// Whether somebody is known to be dead or has failed: who was first, and a sentence into why[cap]. Either may be NULL.
// It does not wait and is cheap enough for a loop.
bool meet_lost(const struct meet *meet, uint32_t *rank, char *why, size_t cap);
// This worker fails: the others end with its error and sentence. It waits for the store.
void meet_fail(struct meet *meet, int err, const char *sentence);

#endif
