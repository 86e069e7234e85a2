// The store, the processes and the ranks of a benchmark, and one operation with its times.
#include "ranks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "support/etcd.h"
#include "values.h"

// --- processes ---

_Noreturn void bench_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "%s: ", program_invocation_short_name);
  vfprintf(stderr, format, args);
  fprintf(stderr, ": %s\n", weft_last_error());
  va_end(args);
  exit(3);
}

pid_t bench_fork(int (*body)(void *arg), void *arg) {
  fflush(NULL);
  pid_t parent = getpid(), pid = fork();
  if (pid < 0)
    bench_fail("cannot fork (%s)", strerror(errno));
  if (pid > 0)
    return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  _exit(getppid() == parent ? body(arg) : 3);
}

bool bench_reap(pid_t pid) {
  uint64_t deadline = clock_deadline_ms(BENCH_DEADLINE_MS);
  int status;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (clock_passed(deadline)) {
      fprintf(stderr, "%s: process %d did not end by the deadline\n", program_invocation_short_name, (int)pid);
      bench_kill(&pid, 1);
      return false;
    }
    poll(NULL, 0, 2);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void bench_kill(pid_t *pids, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (pids[i] > 0) {
      kill(pids[i], SIGKILL);
      waitpid(pids[i], NULL, 0);
      pids[i] = 0;
    }
}

void *bench_shared(size_t size) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED)
    bench_fail("no shared memory of %zu bytes (%s)", size, strerror(errno));
  return memory;
}

// --- the store ---

bool bench_has_etcd(void) {
  return system("command -v etcd >/dev/null 2>&1") == 0;
}

struct serving {
  int fd;
  bool tls;
};

// Runs in the child: serves until it is killed, and writes its URL to the pipe.
static int serve(void *arg) {
  const struct serving *serving = arg;
  int fd = serving->fd;
  weft_store_server_t *server;
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.flags = !serving->tls ? WEFT_STORE_SERVER_INSECURE : 0;
  options.token = serving->tls ? BENCH_TOKEN : NULL;
  if (weft_store_server_start(&server, &options) != 0)
    bench_fail("cannot start the store");
  const char *url = weft_store_server_url(server);
  if (write(fd, url, strlen(url)) < 0)
    return 3;
  close(fd);
  for (;;)
    pause();
}

void bench_store_start(struct bench_store *store, enum bench_store_kind kind) {
  *store = (struct bench_store){.kind = kind};
  if (kind == BENCH_ETCD) {
    store->etcd = calloc(1, sizeof *store->etcd);
    if (!store->etcd || !support_etcd_start(store->etcd))
      bench_fail("cannot start etcd");
    snprintf(store->url, sizeof store->url, "%s", store->etcd->url);
    return;
  }
  int ends[2];
  if (pipe(ends) != 0)
    bench_fail("no pipe (%s)", strerror(errno));
  struct serving serving = {ends[1], kind == BENCH_EMBEDDED_TLS};
  store->server = bench_fork(serve, &serving);
  close(ends[1]);
  if (read(ends[0], store->url, sizeof store->url - 1) <= 0)
    bench_fail("the store did not start");
  close(ends[0]);
}

void bench_store_stop(struct bench_store *store) {
  if (store->etcd)
    support_etcd_stop(store->etcd);
  free(store->etcd);
  bench_kill(&store->server, 1);
  *store = (struct bench_store){0};
}

// --- a rank ---

static uint32_t or_default(uint32_t value, uint32_t preset) {
  return value != 0 ? value : preset;
}

// Allocates memory and touches it, so that operations cause no page faults. It writes ones, since the compiler could
// replace a memset to zero by calloc, which touches nothing.
static void *touched(size_t size) {
  void *memory = malloc(size);
  if (!memory)
    bench_fail("no memory for buffers");
  return memset(memory, 1, size);
}

static void allocate(struct bench_rank *rank) {
  const struct bench_shape *s = &rank->shape;
  size_t rows = (size_t)s->capacity * s->tokens, row = (size_t)s->hidden * 2;
  rank->x = touched(s->tokens * row);
  rank->out = touched(s->tokens * row);
  rank->received = touched(rows * row);
  rank->y = touched(rows * row);
  rank->topk_idx = touched((size_t)s->tokens * s->topk * sizeof *rank->topk_idx);
  rank->weights = touched((size_t)s->tokens * s->topk * sizeof *rank->weights);
  rank->counts = touched(s->experts * sizeof *rank->counts);
  rank->local_expert = touched(rows * s->topk * sizeof *rank->local_expert);
  for (size_t i = 0; i < (size_t)s->tokens * s->topk; i++)
    rank->weights[i] = 1.0f / (float)s->topk;
}

int bench_rank_open(struct bench_rank *rank, const struct bench_shape *shape, const char *url, const char *prefix,
                    int32_t index, const int32_t *founders, uint32_t num_founders) {
  *rank = (struct bench_rank){.shape = *shape};
  struct bench_shape *s = &rank->shape;
  s->tokens = or_default(s->tokens, 128);
  s->max_tokens = or_default(s->max_tokens, s->tokens);
  s->hidden = or_default(s->hidden, 7168);
  s->topk = or_default(s->topk, 8);
  s->experts = or_default(s->experts, 2);
  s->capacity = or_default(s->capacity, BENCH_RANKS);
  struct weft_store_options store = WEFT_STORE_OPTIONS_INIT;
  store.endpoints = url;
  int rc = weft_store_open(&rank->store, &store);
  if (rc != 0)
    return rc;
  allocate(rank);
  struct weft_ep_options options = {.size = sizeof options,
                                    .store = rank->store,
                                    .prefix = prefix,
                                    .rank = index,
                                    .capacity = s->capacity,
                                    .founders = founders,
                                    .num_founders = num_founders,
                                    .max_tokens = s->max_tokens,
                                    .hidden = s->hidden,
                                    .topk = s->topk,
                                    .experts_per_rank = s->experts,
                                    .op_timeout_ms = s->timeout_ms,
                                    .lease_ttl_s = s->lease_s};
  rc = weft_ep_open(&rank->ep, &options, BENCH_DEADLINE_MS);
  rank->index = rc == 0 ? weft_ep_rank(rank->ep) : index;
  return rc;
}

void bench_rank_close(struct bench_rank *rank) {
  weft_ep_close(rank->ep);
  weft_store_close(rank->store);
  void *memory[] = {rank->x,        rank->out,     rank->received, rank->y,
                    rank->topk_idx, rank->weights, rank->counts,   rank->local_expert};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
    free(memory[i]);
  *rank = (struct bench_rank){0};
}

// Token t goes to K consecutive ranks, beginning with another rank for each token. If there are fewer ranks than K, it
// goes to several experts of a rank.
static void route(struct bench_rank *rank) {
  const struct bench_shape *s = &rank->shape;
  int32_t active[BENCH_RANKS];
  uint32_t count = 0;
  uint64_t epoch = 0;
  weft_ep_view(rank->ep, &epoch, active, BENCH_RANKS, &count);
  if (epoch == rank->epoch)
    return;
  rank->epoch = epoch;
  uint32_t ranks = count;
  for (uint32_t t = 0; t < s->tokens; t++)
    for (uint32_t k = 0; k < s->topk; k++) {
      int64_t expert = (int64_t)active[(t + k) % ranks] * s->experts + (t + k / ranks) % s->experts;
      rank->topk_idx[(size_t)t * s->topk + k] = k < ranks * s->experts ? expert : -1;
    }
}

int bench_operate(struct bench_rank *rank, struct bench_times *times) {
  const struct bench_shape *s = &rank->shape;
  route(rank);
  struct weft_ep_dispatch_args dispatch = {.size = sizeof dispatch,
                                           .x = rank->x,
                                           .num_tokens = s->tokens,
                                           .topk_idx = rank->topk_idx,
                                           .topk_weights = rank->weights};
  struct weft_ep_recv_args recv = {.size = sizeof recv,
                                   .layout = WEFT_EP_RANK_MAJOR,
                                   .rows = s->capacity * s->tokens,
                                   .x = rank->received,
                                   .counts = rank->counts,
                                   .local_expert = rank->local_expert};
  struct weft_ep_combine_args combine = {.size = sizeof combine, .y = rank->y, .out = rank->out};
  rank->info = (struct weft_ep_info){.size = sizeof rank->info, .lost = rank->lost, .lost_cap = BENCH_RANKS};
  rank->result = (struct weft_ep_result){.size = sizeof rank->result};
  uint64_t op = 0;
  times->begin = clock_ns();
  int rc = weft_ep_dispatch(rank->ep, &dispatch, &recv, &rank->info, &op);
  times->dispatched = clock_ns();
  if (rc == 0)
    rc = weft_ep_combine(rank->ep, op, &combine, &rank->result);
  times->end = clock_ns();
  return rc;
}

// --- figures ---

struct bench_spread bench_spread(uint64_t *values, size_t count, double unit) {
  struct bench_spread spread = {.count = count};
  if (count == 0)
    return spread;
  bench_sort_ns(values, count);
  spread.p10 = (double)values[count / 10] / unit;
  spread.p50 = (double)values[count / 2] / unit;
  spread.p90 = (double)values[count * 9 / 10] / unit;
  spread.p99 = (double)values[count * 99 / 100] / unit;
  spread.p999 = (double)values[count * 999 / 1000] / unit;
  spread.max = (double)values[count - 1] / unit;
  return spread;
}

uint32_t bench_number(const char *program, const char *text, uint32_t low, uint32_t high) {
  char *end = NULL;
  unsigned long value = text ? strtoul(text, &end, 10) : 0;
  if (!text || *end || value < low || value > high) {
    fprintf(stderr, "%s: %s is not a number from %u to %u\n", program, text ? text : "nothing", low, high);
    exit(2);
  }
  return (uint32_t)value;
}
