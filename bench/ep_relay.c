// Measures what rows between GPUs of two hosts cost on the host, without a GPU. A rank of a group for throughput, and
// one or two ranks that behave as if they were on another host, run in this process, on the plug-in of the tests. A
// thread does in the windows what kernels do (ep_relay_stream.c). By turns rows go in batches, and from window to
// window by the transport, to one rank; then to each of two ranks, and once for both (docs/design/ep-gpu.md).
// Usage: bench_ep_relay [transport=shm] [rounds=5] [ms=1000] [window=64] [hidden=7168]
// `window` is in MiB, and `ms` is the time of one measurement. Other networks: transport=ofi, or UCX_TLS=tcp and
// transport=ucx.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/time/clock.h"
#include "ep/gpu/gpu.h"
#include "ep/gpu/remote/proxy.h"
#include "ep/gpu/remote/share.h"
#include "ep/link/link.h"
#include "ep_relay_stream.h"
#include "support/values.h"

enum { RANKS = 1 + STREAM_READERS, TOKENS = 4096, TOPK = 8, MOST_ROUNDS = 99, DEADLINE_MS = 30000 };

struct settings {
  char transport[64];
  uint32_t rounds, ms, window, hidden;
};

static const struct way {
  const char *name;
  uint32_t readers;
  bool moves, shares;
} ways[] = {
    {"to one, in batches", 1, false, false},
    {"to one, from window to window", 1, true, false},
    {"to two, a row for each", 2, true, false},
    {"to two, a row for both", 2, true, true},
};
enum { WAYS = sizeof ways / sizeof *ways };

static void die(const char *what) {
  fprintf(stderr, "bench_ep_relay: %s: %s\n", what, weft_last_error());
  exit(1);
}

// --- ranks ---

static void *activate(void *arg) {
  if (weft_ep_activate(arg, DEADLINE_MS) != 0)
    die("activate");
  return NULL;
}

static void open_ranks(const struct settings *settings, const struct way *way, weft_store_t *store,
                       weft_ep_t *eps[RANKS]) {
  static const int32_t founders[RANKS] = {0, 1, 2};
  uint32_t count = 1 + way->readers;
  pthread_t threads[RANKS];
  char transport[128];
  // For batches: a limit of registered bytes above the memory of batches, and below that of rings.
  snprintf(transport, sizeof transport, "fault:1:%s:%s", way->moves ? "none" : "reg@2097153", settings->transport);
  setenv("WEFT_EP_ONCE", way->shares ? "yes" : "no", 1);
  for (uint32_t i = 0; i < count; i++) {
    struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
    options.store = store;
    options.rank = (int32_t)i;
    options.capacity = count;
    options.founders = founders;
    options.num_founders = count;
    options.hidden = settings->hidden;
    options.max_tokens = TOKENS;
    options.topk = TOPK;
    options.memory = WEFT_EP_MEMORY_CUDA;
    options.mode = WEFT_EP_THROUGHPUT;
    options.window_bytes = (uint64_t)settings->window << 20;
    options.host_id = i ? "there" : "here";
    options.transport = transport;
    options.listen = "127.0.0.1";
    if (weft_ep_open(&eps[i], &options, DEADLINE_MS) != 0)
      die("open");
  }
  for (uint32_t i = 0; i < count; i++)
    if (pthread_create(&threads[i], NULL, activate, eps[i]) != 0)
      die("a thread");
  for (uint32_t i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
}

static struct ep_link *link_of(weft_ep_t *ep, int32_t rank) {
  struct ep_link *link = ep_link_find(ep, rank, 0);
  if (!link || !link->device.host_in)
    die("the ranks are not on two hosts");
  return link;
}

// Waits until the sender knows that the others share, if they do.
static void await_groups(weft_ep_t *ep, uint32_t count) {
  struct ep_net *net = atomic_load(&ep->net);
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  for (uint32_t found = !count; found != count;) {
    ep_net_lock(net);
    found = ep_sharers_find(net)->count;
    ep_net_unlock(net);
    if (clock_passed(deadline_ns))
      die("the ranks do not share");
  }
}

static void check_way(weft_ep_t *ep, const struct way *way) {
  const struct ep_remote *remote = link_of(ep, 1)->remote;
  ep_net_lock(remote->net);
  bool moved = ep_proxy_moved(remote) > 0;
  ep_net_unlock(remote->net);
  if (moved != way->moves)
    die(way->moves ? "rows went in batches" : "rows went from window to window");
}

static uint64_t named_bytes(weft_ep_t *ep) {
  struct ep_net *net = atomic_load(&ep->net);
  ep_net_lock(net);
  uint64_t bytes = ep->gpu->shared.named_bytes;
  ep_net_unlock(net);
  return bytes;
}

// --- measuring ---

static uint64_t run(struct relay_stream *stream, uint32_t ms, uint64_t *ns) {
  uint64_t rows = relay_stream_run(stream, ms, DEADLINE_MS / 10, ns);
  if (rows == 0)
    die("no row comes any more");
  return rows;
}

// GB/s of values that arrived at all readers together. `*named`: the part of the rows that did not cross.
static double measure(const struct settings *settings, const struct way *way, double *named) {
  static struct relay_stream stream;
  weft_ep_t *eps[RANKS];
  weft_store_t *store;
  if (weft_store_open_local(&store) != 0)
    die("a store");
  open_ranks(settings, way, store, eps);
  await_groups(eps[0], way->shares);
  relay_stream_init(&stream, &eps[0]->gpu->options, way->readers);
  for (uint32_t i = 0; i < way->readers; i++) {
    const struct ep_link *from = link_of(eps[0], (int32_t)i + 1), *to = link_of(eps[i + 1], 0);
    stream.to[i].out = from->device.host_out;
    stream.to[i].back_in = from->device.host_in;
    stream.to[i].in = to->device.host_in;
    stream.to[i].back_out = to->device.host_out;
    memset(stream.to[i].out + stream.offset + stream.flow.rows.at, 7, stream.flow.bytes - stream.flow.rows.at);
  }
  uint64_t ns;
  run(&stream, settings->ms / 5, &ns); // warms up pages and connections
  uint64_t before = named_bytes(eps[0]), rows = run(&stream, settings->ms, &ns);
  double row_bytes = 2.0 * settings->hidden;
  *named = (double)(named_bytes(eps[0]) - before) / row_bytes / (double)rows;
  check_way(eps[0], way);
  for (uint32_t i = 0; i <= way->readers; i++)
    weft_ep_close(eps[i]);
  weft_store_close(store);
  return (double)rows * row_bytes / (double)ns;
}

// Compares two ways with the same readers.
static void compare(double (*rates)[MOST_ROUNDS], uint32_t rounds, int first) {
  double one = bench_median(rates[first], rounds), other = bench_median(rates[first + 1], rounds);
  double best_one = rates[first][rounds - 1], best_other = rates[first + 1][rounds - 1]; // they are sorted now
  printf("%s: %.2f, best %.2f; %s: %.2f, best %.2f: %.2f and %.2f times\n", ways[first].name, one, best_one,
         ways[first + 1].name, other, best_other, other / one, best_other / best_one);
}

static bool read_setting(struct settings *settings, const char *text) {
  const struct {
    const char *name;
    uint32_t *number;
  } numbers[] = {{"rounds=", &settings->rounds},
                 {"ms=", &settings->ms},
                 {"window=", &settings->window},
                 {"hidden=", &settings->hidden}};
  if (sscanf(text, "transport=%63s", settings->transport) == 1)
    return true;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strncmp(text, numbers[i].name, strlen(numbers[i].name)) == 0)
      return sscanf(text + strlen(numbers[i].name), "%u", numbers[i].number) == 1 && *numbers[i].number > 0;
  return false;
}

int main(int argc, char **argv) {
  struct settings settings = {.transport = "shm", .rounds = 5, .ms = 1000, .window = 64, .hidden = 7168};
  static double rates[WAYS][MOST_ROUNDS];
  for (int i = 1; i < argc; i++)
    if (!read_setting(&settings, argv[i]) || settings.rounds > MOST_ROUNDS) {
      fprintf(stderr, "usage: bench_ep_relay [transport=shm] [rounds=5] [ms=1000] [window=64] [hidden=7168]\n");
      return 2;
    }
  setenv("WEFT_CUDA_PLUGIN", FAKE_DEVICE, 0);
  for (uint32_t round = 0; round < settings.rounds; round++)
    for (int way = 0; way < WAYS; way++) {
      double named;
      rates[way][round] = measure(&settings, &ways[way], &named);
      printf("round %u, %s: %.2f GB/s", round + 1, ways[way].name, rates[way][round]);
      printf(ways[way].shares ? ", %.0f %% of the rows did not cross\n" : "\n", 100 * named);
      fflush(stdout);
    }
  printf("%s, windows of %u MiB, hidden %u; GB/s, medians and best of %u:\n", settings.transport, settings.window,
         settings.hidden, settings.rounds);
  for (int way = 0; way < WAYS; way += 2)
    compare(rates, settings.rounds, way);
  return 0;
}
