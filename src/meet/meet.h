// A meeting of the workers of one benchmark on a store: ranks, equal settings, exchange of JSON values, barriers, and
// the names of missing workers.
//
// Keys under the prefix P. Each is on the lease of the worker that put it, and disappears when the lease ends:
//   P meeting              the meeting that is open: {"id", "size"}; rank 0 puts it together with its own claim
//   P worker/<r>           a claim: {"meeting", "id", "host", "pid", "address", "place", "settings"}
//   P step/<id>/<n>/<r>    rank r has arrived at step n (a barrier or an exchange): {"name", "value"}
//   P end/<id>/<r>         how rank r ended: {"id", "kind": "left" | "lost" | "failed", "err", "why"}; of a worker that
//                          left because of a death also "dead": {"rank", "id", "why"}
// A claim is one transaction, which compares that the meeting is unchanged since it was read and that the rank is free.
//
// A lease shows a death only after seconds. So each worker listens at a port, and each of up to 64 workers keeps a
// connection to each other. If there are more, rank 0 keeps a connection to every other worker, and the others only to
// rank 0. A connection that breaks without a good-bye means a death. A worker that notices a death puts `end` for the
// dead rank and ends its lease. A meeting ends with the first death: all waits end with PEER_LOST from then on.
//
// Threads: meet_lost() and meet_fail() are [any], the others [owner]. Two threads belong to a meeting: start no process
// by fork() while it is open.
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
  weft_store_t *store;    // has to outlive the meeting
  const char *prefix;     // prefix of this benchmark's keys, ends in '/': "weft/bench/GROUP/"
  uint32_t size;          // number of expected workers, with this one; 1 to MEET_MAX_WORKERS
  const json_t *settings; // object that must be equal in all workers; the error names the first difference; may be NULL
  const char *host;       // of this worker, for messages
  const char *address; // numeric address of this host at which the others reach it; NULL: loopback if the store is at
                       // loopback or in this process, else the host's own address
  bool follows;        // another worker becomes rank 0: the one that has the store, which may start later
  uint32_t timeout_ms; // time limit until all have come; the error says how many came and which ranks are missing
  bool (*interrupted)(void *arg); // called in waits, with a lock held; true: CANCELED. NULL: never
  void (*waiting)(void *arg, uint32_t come, uint32_t size); // called when a worker comes or goes; may be NULL
  void *arg;
};

// Takes a rank, and waits until all workers have come. INVALID: the settings differ (all workers that have come get
// this), or the meeting is full already. TIMEOUT names the missing ranks, PEER_LOST the worker that died meanwhile.
// UNREACHABLE: the store does not answer.
int meet_open(struct meet **meet, const struct meet_options *options);
// Leaves the meeting. Removes all keys of this worker from the store, and those of workers that it knows to be dead.
// NULL is legal.
void meet_close(struct meet *meet);

uint32_t meet_rank(const struct meet *meet);
uint32_t meet_size(const struct meet *meet);
const char *meet_host(const struct meet *meet, uint32_t rank);
// Whether two workers are on one machine, in one container or in two. They have the same boot id; if one of them cannot
// read it, the same host name.
bool meet_same_machine(const struct meet *meet, uint32_t a, uint32_t b);
// The same, and they have the same host name. So they see the same GPUs and memory; two containers of one machine may
// have different ones.
bool meet_same_host(const struct meet *meet, uint32_t a, uint32_t b);

// Each worker passes `mine`; all get all[size], copies that the caller owns. All workers have to call the steps in the
// same order: PROTOCOL names both steps if a worker is at another step. PEER_LOST names the worker that died, or that
// left before it called; TIMEOUT names the missing workers; CANCELED: interrupted; UNREACHABLE: the store has not
// answered for seconds; FENCED: the others took this worker for dead. If a worker called meet_fail(), the others get
// its error and its text.
int meet_all_gather(struct meet *meet, const char *name, const json_t *mine, uint32_t timeout_ms, json_t **all);
// The same without values.
int meet_barrier(struct meet *meet, const char *name, uint32_t timeout_ms);

// Finds the cause of a transfer's failure with this error: perhaps a worker has died or failed, which the meeting
// learns a moment later, or others have left because they learned that first. Returns the error of the first such
// event, with its text. 0: no such event became known within two seconds; the last error is unchanged then.
int meet_cause(struct meet *meet, int err);

// Whether a worker is known to be dead or has failed. `*rank` is the first such worker, why[cap] gets a text; either
// may be NULL. It does not wait and is cheap enough for a loop.
bool meet_lost(const struct meet *meet, uint32_t *rank, char *why, size_t cap);
// Reports that this worker fails: the others end with its error and text. It waits for the store.
void meet_fail(struct meet *meet, int err, const char *sentence);

#endif
