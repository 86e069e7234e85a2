// What it saves the host side that a token crosses to another host once, without a GPU: a rank of a group for
// throughput and two on another host, all in this process, on the plug-in of the tests. Each token goes to both. A
// thread does in the windows what kernels do: it moves tails of rows that are there already, and gives credit for those
// that have come. The two show each other their windows, and do not, in turn (docs/design/ep-gpu.md). Usage:
// bench_ep_once [transport=shm] [rounds=5] [ms=1000] [window=64] [hidden=7168] `window` is in MiB, and `ms` how long
// one measurement takes. Other networks: transport=ofi, or UCX_TLS=tcp and transport=ucx.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/time/clock.h"
#include "cuda/engine/flow_layout.h"
#include "cuda/engine/relay_batch.h"
#include "ep/gpu/gpu.h"
#include "ep/gpu/share.h"
#include "ep/link/link.h"

enum { RANKS = 3, READERS = 2, TOKENS = 4096, TOPK = 8, EXPERTS = 1, MOST_ROUNDS = 99, DEADLINE_MS = 30000 };

struct settings {
  char transport[64];
  uint32_t rounds, ms, window, hidden;
};

// The part of kernels. Rank 0 sends.
struct stream {
  struct cuda_flow flow;
  struct cuda_layout control;
  uint64_t offset; // in a window
  struct {
    char *out, *in; // the sender's, and the receiver's
    char *back_in, *back_out;
    uint64_t read[CUDA_CHANNELS]; // rows
  } to[READERS];
  uint64_t sent[CUDA_CHANNELS]; // likewise, to both
};

static void die(const char *what) {
  fprintf(stderr, "bench_ep_once: %s: %s\n", what, weft_last_error());
  exit(1);
}

// --- ranks ---

static void *activate(void *arg) {
  if (weft_ep_activate(arg, DEADLINE_MS) != 0)
    die("activate");
  return NULL;
}

static void open_ranks(const struct settings *settings, weft_store_t *store, weft_ep_t *eps[RANKS]) {
  static const int32_t founders[RANKS] = {0, 1, 2};
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
    options.experts_per_rank = EXPERTS;
    options.memory = WEFT_EP_MEMORY_CUDA;
    options.mode = WEFT_EP_THROUGHPUT;
    options.window_bytes = (uint64_t)settings->window << 20;
    options.host_id = i ? "there" : "here";
    options.transport = settings->transport;
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

// Until the sender knows that the others share, if they do.
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

// --- in the place of kernels ---

static struct cuda_flow_word *word_of(const struct stream *stream, char *window, uint32_t channel) {
  return &((struct cuda_flow_head *)(window + stream->offset))->rows[channel];
}

// Each operation fills all channels.
static uint64_t position_of(const struct stream *stream, uint64_t rows) {
  uint64_t each = stream->flow.list - 1;
  return rows / each * stream->flow.list + rows % each;
}

static void tell(const struct stream *stream, char *out, uint64_t op) {
  uint32_t values[CUDA_FIELDS] = {0}, each = CUDA_UNIT_COUNTS / 2;
  values[CUDA_FIELD_FORM] = cuda_flow_form(CUDA_BF16, TOPK, 2 * stream->flow.hidden);
  char *units = out + sizeof(struct cuda_area_head) + op % CUDA_DEPTH * stream->control.slot + stream->control.counts;
  for (uint32_t first = 0; first < EXPERTS + CUDA_FIELDS; first += each) {
    uint32_t words[4] = {0, 0, 0, (uint32_t)op + 1};
    for (uint32_t i = 0; i < each; i++)
      words[i] = first + i >= EXPERTS && first + i < EXPERTS + CUDA_FIELDS ? values[first + i - EXPERTS] : 0;
    uint64_t halves[2];
    memcpy(halves, words, sizeof halves);
    cuda_store_word(units + first / each * sizeof words, halves[0]);
    cuda_store_word(units + first / each * sizeof words + 8, halves[1]);
  }
}

static void name_token(const struct stream *stream, char *out, uint32_t channel, uint64_t position) {
  const struct cuda_ring *ring = &stream->flow.rows;
  uint64_t place = (uint64_t)channel * ring->places + position % ring->places;
  uint32_t token = (uint32_t)(position % stream->flow.list) * CUDA_CHANNELS + channel;
  memcpy(out + stream->offset + ring->at + place * ring->place + 2 * stream->flow.hidden + 4, &token, sizeof token);
}

// As many rows as are told of at once, where both have given credit for them.
static void send_some(struct stream *stream, uint32_t channel) {
  const struct cuda_ring *ring = &stream->flow.rows;
  uint64_t each = stream->flow.list - 1, sent = stream->sent[channel], left = each - sent % each;
  uint64_t some = left < ring->batch ? left : ring->batch;
  uint64_t last = position_of(stream, sent + some - 1), op = last / stream->flow.list, base = op * stream->flow.list;
  for (int i = 0; i < READERS; i++) {
    uint64_t credit = __atomic_load_n(&word_of(stream, stream->to[i].back_in, channel)->credit, __ATOMIC_ACQUIRE);
    if (credit < base || last >= credit + ring->places)
      return;
  }
  stream->sent[channel] += some;
  for (int i = 0; i < READERS; i++) {
    if (sent % each == 0)
      tell(stream, stream->to[i].out, op);
    for (uint64_t position = last + 1 - some; position <= last; position++)
      name_token(stream, stream->to[i].out, channel, position);
    __atomic_store_n(&word_of(stream, stream->to[i].out, channel)->tail, (last + 1) * 2 + (some == left),
                     __ATOMIC_RELEASE);
  }
}

// The credit behind the last row of an operation is that of the whole.
static uint64_t receive_some(struct stream *stream, int reader, uint32_t channel) {
  uint64_t each = stream->flow.list - 1, *read = &stream->to[reader].read[channel];
  uint64_t tail = __atomic_load_n(&word_of(stream, stream->to[reader].in, channel)->tail, __ATOMIC_ACQUIRE);
  uint64_t op = tail / 2 / stream->flow.list, rows = op * each + tail / 2 % stream->flow.list;
  uint64_t news = rows > *read ? rows - *read : 0;
  if (news == 0)
    return 0;
  *read = rows;
  __atomic_store_n(&word_of(stream, stream->to[reader].back_out, channel)->credit,
                   rows % each ? position_of(stream, rows) : (op + 1) * stream->flow.list, __ATOMIC_RELEASE);
  return news;
}

// Rows that came in that time. Channels go on side by side, so that those of two operations do.
static uint64_t run(struct stream *stream, uint32_t ms, uint64_t *ns) {
  uint64_t begin = clock_ns(), end = begin + (uint64_t)ms * 1000000, rows = 0, now = begin, last = begin;
  for (; now < end; now = clock_ns()) {
    uint64_t before = rows;
    for (uint32_t channel = 0; channel < CUDA_CHANNELS; channel++) {
      send_some(stream, channel);
      for (int i = 0; i < READERS; i++)
        rows += receive_some(stream, i, channel);
    }
    last = rows > before ? now : last;
    if (now - last > (uint64_t)DEADLINE_MS * 1000000 / 10)
      die("no row comes any more");
  }
  *ns = now - begin;
  return rows;
}

static uint64_t named_bytes(weft_ep_t *ep) {
  struct ep_net *net = atomic_load(&ep->net);
  ep_net_lock(net);
  uint64_t bytes = ep->gpu->shared.named_bytes;
  ep_net_unlock(net);
  return bytes;
}

// GB/s of rows that came to both; `*named`: which part of the rows did not cross.
static double measure(const struct settings *settings, bool share, double *named) {
  static struct stream stream;
  weft_ep_t *eps[RANKS];
  weft_store_t *store;
  setenv("FAKE_PRIVATE", share ? "99" : "all", 1);
  if (weft_store_open_local(&store) != 0)
    die("a store");
  open_ranks(settings, store, eps);
  await_groups(eps[0], share);
  stream = (struct stream){0};
  struct cuda_forms forms;
  cuda_flow_of(&eps[0]->gpu->options, &stream.flow, &stream.offset);
  cuda_area_of(&eps[0]->gpu->options, &stream.control, &forms);
  for (int i = 0; i < READERS; i++) {
    const struct ep_link *from = link_of(eps[0], i + 1), *to = link_of(eps[i + 1], 0);
    stream.to[i].out = from->device.host_out;
    stream.to[i].back_in = from->device.host_in;
    stream.to[i].in = to->device.host_in;
    stream.to[i].back_out = to->device.host_out;
    memset(stream.to[i].out + stream.offset + stream.flow.rows.at, 7, stream.flow.bytes - stream.flow.rows.at);
  }
  uint64_t ns, rows, before;
  run(&stream, settings->ms / 5, &ns); // pages are there, and connections
  before = named_bytes(eps[0]);
  rows = run(&stream, settings->ms, &ns);
  *named = (double)(named_bytes(eps[0]) - before) / (2.0 * settings->hidden) / (double)rows;
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
  double rates[2][MOST_ROUNDS], named;
  for (int i = 1; i < argc; i++)
    if (!read_setting(&settings, argv[i]) || settings.rounds > MOST_ROUNDS) {
      fprintf(stderr, "usage: bench_ep_once [transport=shm] [rounds=5] [ms=1000] [window=64] [hidden=7168]\n");
      return 2;
    }
  setenv("WEFT_CUDA_PLUGIN", FAKE_DEVICE, 0);
  for (uint32_t round = 0; round < settings.rounds; round++)
    for (int share = 0; share < 2; share++) {
      rates[share][round] = measure(&settings, share, &named);
      printf("round %u, %s: %.2f GB/s, %.0f %% of the rows did not cross\n", round + 1,
             share ? "once for both" : "once for each", rates[share][round], 100 * named);
      fflush(stdout);
    }
  double each = median(rates[0], settings.rounds), both = median(rates[1], settings.rounds);
  printf("%s, windows of %u MiB, hidden %u; medians of %u, GB/s: once for each %.2f, once for both %.2f: %.2f times\n",
         settings.transport, settings.window, settings.hidden, settings.rounds, each, both, both / each);
  return 0;
}
