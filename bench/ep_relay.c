// What rows between GPUs of two hosts cost the host side, without a GPU: two ranks of a group for throughput in this
// process, on the plug-in of the tests, that are told to be on two hosts. A thread does in the windows what kernels do:
// it moves tails of rows that are there already, and gives credit for those that have come. Rows go from window to
// window by the transport, and in batches, in turn (docs/design/ep-gpu.md).
// Usage: bench_ep_relay [transport=shm] [rounds=5] [ms=1000] [window=64] [hidden=7168]
// `window` is in MiB, and `ms` how long one measurement takes. Other networks: transport=ofi, or UCX_TLS=tcp and
// transport=ucx.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/time/clock.h"
#include "cuda/engine/flow_layout.h"
#include "ep/gpu/gpu.h"
#include "ep/gpu/proxy.h"
#include "ep/link/link.h"

enum { RANKS = 2, TOKENS = 4096, TOPK = 8, MOST_ROUNDS = 99, DEADLINE_MS = 30000 };

struct settings {
  char transport[64];
  uint32_t rounds, ms, window, hidden;
};

// The part of kernels, between rank 0, which sends, and rank 1.
struct stream {
  struct cuda_flow flow;
  uint64_t offset; // in a window
  char *out, *in;  // the sender's, and the receiver's
  char *back_in, *back_out;
  uint64_t sent[CUDA_CHANNELS], read[CUDA_CHANNELS]; // rows
};

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

static void open_ranks(const struct settings *settings, const char *transport, weft_store_t *store,
                       weft_ep_t *eps[RANKS]) {
  static const int32_t founders[RANKS] = {0, 1};
  pthread_t threads[RANKS];
  for (int i = 0; i < RANKS; i++) {
    struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
    options.store = store;
    options.rank = i;
    options.capacity = RANKS;
    options.founders = founders;
    options.num_founders = RANKS;
    options.hidden = settings->hidden;
    options.max_tokens = TOKENS;
    options.topk = TOPK;
    options.memory = WEFT_EP_MEMORY_CUDA;
    options.mode = WEFT_EP_THROUGHPUT;
    options.window_bytes = (uint64_t)settings->window << 20;
    options.host_id = i ? "odd" : "even";
    options.transport = transport;
    options.listen = "127.0.0.1";
    if (weft_ep_open(&eps[i], &options, DEADLINE_MS) != 0)
      die("open");
  }
  for (int i = 0; i < RANKS; i++)
    if (pthread_create(&threads[i], NULL, activate, eps[i]) != 0)
      die("a thread");
  for (int i = 0; i < RANKS; i++)
    pthread_join(threads[i], NULL);
}

static struct ep_link *link_of(weft_ep_t *ep, int32_t rank) {
  struct ep_link *link = ep_link_find(ep, rank, 0);
  if (!link || !link->device.host_in)
    die("the ranks are not on two hosts");
  return link;
}

// --- in the place of kernels ---

static struct cuda_flow_word *word_of(const struct stream *stream, char *window, uint32_t channel) {
  return &((struct cuda_flow_head *)(window + stream->offset))->rows[channel];
}

// Each operation fills all channels.
static uint64_t position_of(const struct stream *stream, uint64_t rows) {
  uint64_t each = stream->flow.list - 1;
  return rows / each * stream->flow.list + rows % each;
}

// As many rows as are told of at once, where there is credit for them.
static void send_some(struct stream *stream, uint32_t channel) {
  const struct cuda_ring *ring = &stream->flow.rows;
  uint64_t each = stream->flow.list - 1, left = each - stream->sent[channel] % each;
  uint64_t some = left < ring->batch ? left : ring->batch, rows = stream->sent[channel] + some;
  uint64_t credit = __atomic_load_n(&word_of(stream, stream->back_in, channel)->credit, __ATOMIC_ACQUIRE);
  uint64_t last = position_of(stream, rows - 1), base = last / stream->flow.list * stream->flow.list;
  if (credit < base || last >= credit + ring->places) // of the operation before not all has been read, or of this one
    return;
  stream->sent[channel] = rows;
  __atomic_store_n(&word_of(stream, stream->out, channel)->tail, (last + 1) * 2 + (some == left), __ATOMIC_RELEASE);
}

// The credit behind the last row of an operation is that of the whole.
static uint64_t receive_some(struct stream *stream, uint32_t channel) {
  uint64_t each = stream->flow.list - 1;
  uint64_t tail = __atomic_load_n(&word_of(stream, stream->in, channel)->tail, __ATOMIC_ACQUIRE);
  uint64_t op = tail / 2 / stream->flow.list, rows = op * each + tail / 2 % stream->flow.list;
  uint64_t news = rows > stream->read[channel] ? rows - stream->read[channel] : 0;
  if (news == 0)
    return 0;
  stream->read[channel] = rows;
  __atomic_store_n(&word_of(stream, stream->back_out, channel)->credit,
                   rows % each ? position_of(stream, rows) : (op + 1) * stream->flow.list, __ATOMIC_RELEASE);
  return news;
}

// Rows that came in that time.
static uint64_t run(struct stream *stream, uint32_t ms, uint64_t *ns) {
  uint64_t begin = clock_ns(), end = begin + (uint64_t)ms * 1000000, rows = 0, now = begin, last = begin;
  for (; now < end; now = clock_ns()) {
    uint64_t before = rows;
    for (uint32_t channel = 0; channel < CUDA_CHANNELS; channel++) {
      send_some(stream, channel);
      rows += receive_some(stream, channel);
    }
    last = rows > before ? now : last;
    if (now - last > (uint64_t)DEADLINE_MS * 1000000 / 10)
      die("no row comes any more");
  }
  *ns = now - begin;
  return rows;
}

// GB/s of one way.
static double measure(const struct settings *settings, bool moves) {
  weft_ep_t *eps[RANKS];
  weft_store_t *store;
  char transport[128];
  // More than the memory of batches, and less than that of rings.
  snprintf(transport, sizeof transport, "fault:1:%s:%s", moves ? "none" : "reg@2097153", settings->transport);
  if (weft_store_open_local(&store) != 0)
    die("a store");
  open_ranks(settings, transport, store, eps);
  const struct ep_link *from = link_of(eps[0], 1), *to = link_of(eps[1], 0);
  struct stream stream = {.out = from->device.host_out,
                          .in = to->device.host_in,
                          .back_in = from->device.host_in,
                          .back_out = to->device.host_out};
  cuda_flow_of(&eps[0]->gpu->options, &stream.flow, &stream.offset);
  uint64_t ns, rows;
  memset(stream.out + stream.offset + stream.flow.rows.at, 7, stream.flow.bytes - stream.flow.rows.at);
  run(&stream, settings->ms / 5, &ns); // pages are there, and connections
  rows = run(&stream, settings->ms, &ns);
  ep_net_lock(from->remote->net);
  bool moved = ep_proxy_moved(from->remote) > 0;
  ep_net_unlock(from->remote->net);
  if (moved != moves)
    die(moves ? "rows went in batches" : "rows went from window to window");
  for (int i = 0; i < RANKS; i++)
    weft_ep_close(eps[i]);
  weft_store_close(store);
  return (double)rows * stream.flow.rows.place / (double)ns;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, uint32_t count) {
  qsort(values, count, sizeof *values, ascending);
  return values[count / 2];
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
  double rates[2][MOST_ROUNDS];
  for (int i = 1; i < argc; i++)
    if (!read_setting(&settings, argv[i]) || settings.rounds > MOST_ROUNDS) {
      fprintf(stderr, "usage: bench_ep_relay [transport=shm] [rounds=5] [ms=1000] [window=64] [hidden=7168]\n");
      return 2;
    }
  setenv("WEFT_CUDA_PLUGIN", FAKE_DEVICE, 0);
  for (uint32_t round = 0; round < settings.rounds; round++)
    for (int moves = 0; moves < 2; moves++) {
      rates[moves][round] = measure(&settings, moves);
      printf("round %u, %s: %.2f GB/s\n", round + 1, moves ? "from window to window" : "in batches",
             rates[moves][round]);
      fflush(stdout);
    }
  printf("%s, windows of %u MiB, hidden %u; GB/s, medians and best of %u:\n", settings.transport, settings.window,
         settings.hidden, settings.rounds);
  double batches = median(rates[0], settings.rounds), moves = median(rates[1], settings.rounds);
  double best_batches = rates[0][settings.rounds - 1], best_moves = rates[1][settings.rounds - 1]; // sorted by now
  printf("in batches %.2f and %.2f, from window to window %.2f and %.2f: %.2f and %.2f times\n", batches, best_batches,
         moves, best_moves, moves / batches, best_moves / best_batches);
  return 0;
}
