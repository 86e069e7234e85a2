// Compares the embedded server, with token and TLS and without, with a real etcd: calls, watches, claims and views, by
// turns within one run. Each server is a separate process on this machine. etcd runs with its defaults, without TLS,
// with its data in a directory below /tmp.
// Usage: bench_store [--json]. Without etcd only the embedded servers are measured.
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/time/clock.h"

enum { KINDS = 3, ROUNDS = 5, CALLS = 200, CONNECTS = 50, VALUE_SIZE = 64, CHANGES = 5 };

static const struct {
  const char *name, *unit, *what;
} measures[] = {
#define ROW(name, unit, what) {#name, unit, what},
    STORE_MEASURES(ROW)
#undef ROW
};

void store_check(int err, const char *what) {
  if (err)
    bench_fail("%s", what);
}

void store_record(struct store_kind *kind, enum store_measure measure, uint64_t value) {
  size_t count = kind->count[measure]++;
  if ((count & (count - 1)) == 0) { // 0 or a power of two: the list is full
    kind->samples[measure] = realloc(kind->samples[measure], (count ? 2 * count : 1) * sizeof(uint64_t));
    if (!kind->samples[measure])
      bench_fail("no memory");
  }
  kind->samples[measure][count] = value;
}

weft_store_t *store_client(const struct store_kind *kind) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store;
  options.endpoints = kind->server.url;
  options.token = kind->server.kind == BENCH_EMBEDDED_TLS ? BENCH_TOKEN : NULL;
  options.request_timeout_ms = BENCH_DEADLINE_MS;
  store_check(weft_store_open(&store, &options), "open a client");
  return store;
}

static void measure_calls(struct store_kind *kind) {
  static const char value[VALUE_SIZE];
  const struct weft_store_compare compare = {.key = "/bench/b", .target = WEFT_STORE_MOD, .number = 0};
  const struct weft_store_op ops[] = {
      {.kind = WEFT_STORE_PUT, .key = "/bench/a", .value = value, .value_len = sizeof value},
      {.kind = WEFT_STORE_RANGE, .key = "/bench/c"}};
  struct weft_store_txn txn = WEFT_STORE_TXN_INIT;
  txn.compares = &compare;
  txn.num_compares = 1;
  txn.success = ops;
  txn.num_success = 2;
  for (int i = 0; i < CALLS; i++) {
    struct weft_store_list *list;
    struct weft_store_txn_result *result;
    uint64_t began = clock_ns();
    store_check(weft_store_put(kind->client, "/bench/a", value, sizeof value, 0, NULL), "put");
    uint64_t put = clock_ns();
    store_check(weft_store_range(kind->client, "/bench/a", false, 0, &list), "get");
    uint64_t got = clock_ns();
    store_check(weft_store_txn_commit(kind->client, &txn, &result), "transaction");
    store_record(kind, STORE_TXN, clock_ns() - got);
    store_record(kind, STORE_GET, got - put);
    store_record(kind, STORE_PUT, put - began);
    weft_store_list_free(list);
    weft_store_txn_result_free(result);
  }
}

static void measure_connects(struct store_kind *kind) {
  for (int i = 0; i < CONNECTS; i++) {
    struct weft_store_list *list;
    uint64_t began = clock_ns();
    weft_store_t *store = store_client(kind);
    store_check(weft_store_range(store, "/bench/a", false, 0, &list), "get");
    store_record(kind, STORE_CONNECT, clock_ns() - began);
    weft_store_list_free(list);
    weft_store_close(store);
  }
}

static void report_json(struct store_kind *kinds, int count) {
  for (int m = 0; m < STORE_MEASURE_COUNT; m++)
    for (int k = 0; k < count; k++) {
      struct bench_spread s = bench_spread(kinds[k].samples[m], kinds[k].count[m], 1);
      printf("{\"store\": \"%s\", \"measure\": \"%s\", \"count\": %zu, \"p10\": %.0f, \"median\": %.0f, \"p90\": %.0f, "
             "\"p99\": %.0f, \"unit\": \"%s\"}\n",
             kinds[k].name, measures[m].name, s.count, s.p10, s.p50, s.p90, s.p99,
             strcmp(measures[m].unit, "us") == 0 ? "ns" : "B");
    }
}

static void report_table(struct store_kind *kinds, int count) {
  printf("median (10th to 90th percentile), 99th percentile; of all rounds\n\n");
  for (int m = 0; m < STORE_MEASURE_COUNT; m++) {
    double medians[KINDS] = {0};
    printf("%-42s", measures[m].what);
    for (int k = 0; k < count; k++) {
      bool mega = strcmp(measures[m].unit, "MB") == 0;
      struct bench_spread s = bench_spread(kinds[k].samples[m], kinds[k].count[m], mega ? 1e6 : 1e3);
      medians[k] = s.p50;
      printf("  %9.1f (%.1f to %.1f) %.1f %s", s.p50, s.p10, s.p90, s.p99, measures[m].unit);
    }
    for (int k = 1; k < count; k++)
      printf("  x%.2f", medians[0] > 0 ? medians[k] / medians[0] : 0);
    printf("\n");
  }
  printf("\nin this order: embedded, embedded without TLS%s; then the others by the first\n",
         count == KINDS ? ", etcd" : "");
}

static void allow_descriptors(void) { // a watch has one connection, and each connection has two ends here
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

int main(int argc, char **argv) {
  static struct store_kind kinds[KINDS] = {{.name = "embedded"}, {.name = "plain"}, {.name = "etcd"}};
  static const enum bench_store_kind servers[KINDS] = {BENCH_EMBEDDED_TLS, BENCH_EMBEDDED, BENCH_ETCD};
  bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    fprintf(stderr, "usage: bench_store [--json]\n");
    return 2;
  }
  int count = bench_has_etcd() ? KINDS : KINDS - 1;
  if (count < KINDS)
    fprintf(stderr, "bench_store: etcd is not installed; its part is left out\n");
  allow_descriptors();
  for (int k = 0; k < count; k++) // before this process has any thread
    bench_store_start(&kinds[k].server, servers[k]);
  for (int k = 0; k < count; k++)
    kinds[k].client = store_client(&kinds[k]);
  for (int round = 0; round < ROUNDS; round++)
    for (int k = 0; k < count; k++) {
      measure_calls(&kinds[k]);
      measure_connects(&kinds[k]);
      store_measure_notice(&kinds[k], CALLS);
      store_measure_claims(&kinds[k], round);
      store_measure_views(&kinds[k], CHANGES, round);
    }
  for (int k = 0; k < count; k++)
    store_measure_watchers(&kinds[k]);
  (json ? report_json : report_table)(kinds, count);
  for (int k = 0; k < count; k++) {
    weft_store_close(kinds[k].client);
    bench_store_stop(&kinds[k].server);
    for (int m = 0; m < STORE_MEASURE_COUNT; m++)
      free(kinds[k].samples[m]);
  }
  return 0;
}
