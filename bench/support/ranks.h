// Ranks of a benchmark: processes that the program forks, a store of either kind in a process of its own, and one
// operation after the other with its times. The program itself stays without threads, so that it may fork at any time.
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/weft.h>

enum { BENCH_RANKS = 16, BENCH_DEADLINE_MS = 30000 };

// --- the store ---

// The embedded server without token and TLS, etcd as it comes, the embedded server as it comes.
enum bench_store_kind { BENCH_EMBEDDED, BENCH_ETCD, BENCH_EMBEDDED_TLS };
#define BENCH_TOKEN "5bd84c11e07a3f9f62c5d09be4a718c3" // of BENCH_EMBEDDED_TLS

struct bench_store {
  enum bench_store_kind kind;
  char url[128];
  pid_t server; // of the embedded store
  struct support_etcd *etcd;
};

// Starts an empty store. Ends the program when it cannot.
void bench_store_start(struct bench_store *store, enum bench_store_kind kind);
void bench_store_stop(struct bench_store *store);
// Whether etcd is installed.
bool bench_has_etcd(void);

// --- processes ---

// Forks. In the child, which dies with the program: runs `body` and ends with its result.
pid_t bench_fork(int (*body)(void *arg), void *arg);
// Waits for the end of a process; kills it after the deadline and says so. True: it ended well.
bool bench_reap(pid_t pid);
// Kills and reaps what is left of `pids`, 0 among them for none.
void bench_kill(pid_t *pids, size_t count);
// Memory that all processes share, of zeros and all there.
void *bench_shared(size_t size);
// Says what could not be done, with the last error, and ends the process.
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// The value of an option of that program. What is no number from `low` to `high` ends the process with status 2.
uint32_t bench_number(const char *program, const char *text, uint32_t low, uint32_t high);

// --- a rank ---

struct bench_shape {
  uint32_t tokens, hidden, topk, experts; // per rank; 0: 128, 7168, 8, 2
  uint32_t capacity, timeout_ms, lease_s; // 0: 16; the library's
  uint32_t max_tokens;                    // that the windows hold; 0: `tokens`
};

struct bench_rank {
  weft_store_t *store;
  weft_ep_t *ep;
  struct bench_shape shape;
  int32_t index;
  uint64_t epoch; // that the routing was made for
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

// Opens a rank; fills in rank->index. A weft_err as weft_ep_open gives it.
int bench_rank_open(struct bench_rank *rank, const struct bench_shape *shape, const char *url, const char *prefix,
                    int32_t index, const int32_t *founders, uint32_t num_founders);
void bench_rank_close(struct bench_rank *rank);
// One dispatch and combine over all active ranks; every token goes to as many of them as it can. 0 or a weft_err.
int bench_operate(struct bench_rank *rank, struct bench_times *times);

// --- figures ---

struct bench_spread {
  size_t count;
  double p10, p50, p90, p99, p999, max; // of what was given, divided by `unit`
};

// Sorts `values` and takes the spread.
struct bench_spread bench_spread(uint64_t *values, size_t count, double unit);

#endif
