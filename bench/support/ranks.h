// Ranks of a benchmark: processes that the program forks, a store of either kind in a separate process, and single
// operations with their times. The program itself has no threads, so that it may fork at any time.
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/weft.h>

enum { BENCH_RANKS = 16, BENCH_DEADLINE_MS = 30000 };

// --- the store ---

// The embedded server without token and TLS, etcd with its defaults, the embedded server with its defaults.
enum bench_store_kind { BENCH_EMBEDDED, BENCH_ETCD, BENCH_EMBEDDED_TLS };
#define BENCH_TOKEN "5bd84c11e07a3f9f62c5d09be4a718c3" // of BENCH_EMBEDDED_TLS

struct bench_store {
  enum bench_store_kind kind;
  char url[128];
  pid_t server; // of the embedded store
  struct support_etcd *etcd;
};

// Starts an empty store. Ends the program if this fails.
void bench_store_start(struct bench_store *store, enum bench_store_kind kind);
void bench_store_stop(struct bench_store *store);
// Whether etcd is installed.
bool bench_has_etcd(void);

// --- processes ---

// Forks. The child runs `body` and ends with its result; it also ends when the program ends.
pid_t bench_fork(int (*body)(void *arg), void *arg);
// Waits for the end of a process; after the deadline kills it with a message. True: it ended with status 0.
bool bench_reap(pid_t pid);
// Kills and reaps the remaining processes of `pids`; entries of 0 are skipped.
void bench_kill(pid_t *pids, size_t count);
// Memory that all processes share, zeroed, with all pages present.
void *bench_shared(size_t size);
// Prints what failed, with the last error, and ends the process.
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// The value of an option of that program. If it is not a number from `low` to `high`, the process ends with status 2.
uint32_t bench_number(const char *program, const char *text, uint32_t low, uint32_t high);

// --- a rank ---

struct bench_shape {
  uint32_t tokens, hidden, topk, experts; // per rank; 0: 128, 7168, 8, 2
  uint32_t capacity, timeout_ms, lease_s; // 0: 16; the library's
  uint32_t max_tokens;                    // tokens for which the windows have room; 0: `tokens`
};

struct bench_rank {
  weft_store_t *store;
  weft_ep_t *ep;
  struct bench_shape shape;
  int32_t index;
  uint64_t epoch; // view for which the routing was made
  struct weft_ep_info info;
  struct weft_ep_result result;
  int32_t lost[BENCH_RANKS];
  uint16_t *x, *received, *y, *out;
  int64_t *topk_idx;
  float *weights;
  int32_t *counts, *local_expert;
};

struct bench_times {
  uint64_t begin, dispatched, end; // ns
};

// Opens a rank and fills in rank->index. Returns the weft_err of weft_ep_open().
int bench_rank_open(struct bench_rank *rank, const struct bench_shape *shape, const char *url, const char *prefix,
                    int32_t index, const int32_t *founders, uint32_t num_founders);
void bench_rank_close(struct bench_rank *rank);
// Runs one dispatch and combine over all active ranks; every token goes to as many of them as possible. 0 or a
// weft_err.
int bench_operate(struct bench_rank *rank, struct bench_times *times);

// --- figures ---

struct bench_spread {
  size_t count;
  double p10, p50, p90, p99, p999, max; // of the given values, divided by `unit`
};

// Sorts `values` and computes the spread.
struct bench_spread bench_spread(uint64_t *values, size_t count, double unit);

#endif
