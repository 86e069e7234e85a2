// Measures the time from a put until watchers know it, and what a thousand watchers cost the server.
#include "store.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/time/clock.h"
#include "support/etcd.h"

enum { WATCHERS = 1000, CLIENTS = 10, PUTS_ONE = 200, PUTS_ALL = 10 };

// The one put under way: when it began, how many watchers get it, and how long it took for each.
static struct {
  _Atomic uint64_t began_ns;
  _Atomic size_t came;
  size_t expected;
  uint64_t took[WATCHERS];
  sem_t all;
} notice;

static void on_event(void *arg, const struct weft_store_event *event) {
  (void)arg;
  if (event->kind != WEFT_STORE_EVENT_PUT)
    return;
  uint64_t took = clock_ns() - atomic_load(&notice.began_ns);
  size_t place = atomic_fetch_add(&notice.came, 1);
  if (place < WATCHERS)
    notice.took[place] = took;
  if (place + 1 == notice.expected)
    sem_post(&notice.all);
}

static void put_and_wait(struct store_kind *kind, const char *key, size_t expected, enum store_measure measure) {
  notice.expected = expected;
  atomic_store(&notice.came, 0);
  atomic_store(&notice.began_ns, clock_ns());
  store_check(weft_store_put(kind->client, key, "x", 1, 0, NULL), "put");
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += BENCH_DEADLINE_MS / 1000;
  if (sem_timedwait(&notice.all, &deadline) != 0)
    bench_fail("%s: %zu of %zu watchers heard of a put", kind->name, atomic_load(&notice.came), expected);
  for (size_t i = 0; i < expected; i++)
    store_record(kind, measure, notice.took[i]);
}

void store_measure_notice(struct store_kind *kind, int rounds) {
  weft_store_watch_t *watch;
  sem_init(&notice.all, 0, 0);
  store_check(weft_store_watch_open(kind->client, "/bench/notice", 0, on_event, NULL, &watch), "watch");
  for (int i = 0; i < rounds; i++)
    put_and_wait(kind, "/bench/notice", 1, STORE_NOTICE);
  weft_store_watch_close(watch);
  sem_destroy(&notice.all);
}

static pid_t process(const struct store_kind *kind) {
  return kind->server.kind == BENCH_ETCD ? kind->server.etcd->pid : kind->server.server;
}

static uint64_t resident(const struct store_kind *kind) {
  char path[64], line[256];
  unsigned long kb = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)process(kind));
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmRSS: %lu", &kb) == 1)
      break;
  if (file)
    fclose(file);
  return (uint64_t)kb * 1024;
}

// Processor time of all threads of the server, in ns. /proc counts it in ticks of 10 ms, so the phases must be much
// longer.
static uint64_t processor_ns(const struct store_kind *kind) {
  char path[64], line[1024] = "";
  unsigned long user = 0, system = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)process(kind));
  FILE *file = fopen(path, "r");
  if (!file || !fgets(line, sizeof line, file))
    bench_fail("no %s", path);
  fclose(file);
  const char *after = strrchr(line, ')');
  if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
    bench_fail("%s is not understood", path);
  return (user + system) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void name_key(char out[48], bool each, size_t i) {
  snprintf(out, 48, each ? "/bench/each/%04zu" : "/bench/all", i);
}

static void measure(struct store_kind *kind, weft_store_t **clients, bool each) {
  static weft_store_watch_t *watches[WATCHERS];
  char key[48];
  uint64_t before = resident(kind), random = 1;
  for (size_t i = 0; i < WATCHERS; i++) {
    name_key(key, each, i);
    store_check(weft_store_watch_open(clients[i % CLIENTS], key, 0, on_event, NULL, &watches[i]), "watch");
  }
  if (each) {
    store_record(kind, STORE_MEMORY, (resident(kind) - before) / WATCHERS);
    store_record(kind, STORE_RESIDENT, resident(kind));
  }
  int puts = each ? PUTS_ONE : PUTS_ALL;
  uint64_t began = processor_ns(kind);
  for (int i = 0; i < puts; i++) {
    name_key(key, each, random_next(&random) % WATCHERS);
    put_and_wait(kind, key, each ? 1 : WATCHERS, each ? STORE_NOTICE_ONE : STORE_NOTICE_ALL);
  }
  store_record(kind, each ? STORE_SERVER_ONE : STORE_SERVER_ALL, (processor_ns(kind) - began) / (uint64_t)puts);
  for (size_t i = 0; i < WATCHERS; i++)
    weft_store_watch_close(watches[i]);
}

void store_measure_watchers(struct store_kind *kind) {
  weft_store_t *clients[CLIENTS];
  sem_init(&notice.all, 0, 0);
  for (int each = 1; each >= 0; each--) {
    for (int i = 0; i < CLIENTS; i++)
      clients[i] = store_client(kind);
    measure(kind, clients, each);
    for (int i = 0; i < CLIENTS; i++)
      weft_store_close(clients[i]);
  }
  sem_destroy(&notice.all);
}
