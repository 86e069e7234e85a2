// Compares EP between two hosts with the bare transport. Two rank processes are in their own network namespaces, joined
// by a veth pair. Each round makes by turns puts of 1 MiB from one to the other, as fast as possible, and dispatches of
// one rank to the other; then whole operations both ways. Root only.
// Usage: bench_ep_net [TRANSPORT [ROUNDS]]
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "support/ranks.h"
#include "support/values.h"
#include "transport/transport.h"

enum {
  HOSTS = 2,
  PIECE = 1 << 20,
  PIECES = 4, // puts under way: as many bytes as two operations have
  PUTS = 96,  // puts of a round; few, so that both halves of a round see the same state of the machine
  OPERATIONS = 50,
  TOKENS = 128,
  HIDDEN = 7168,
  TOPK = 8,
  MOST_ROUNDS = 64,
};

// Memory that the processes share.
static struct board {
  _Atomic uint32_t arrived;
  pid_t pids[HOSTS];
  char url[64];
  uint8_t address[HOSTS][TRANSPORT_MAX_ADDRESS], key[TRANSPORT_MAX_KEY];
  size_t address_size[HOSTS], key_size;
  _Atomic bool done;
  double put[MOST_ROUNDS], dispatch[MOST_ROUNDS]; // GB/s
  uint64_t both_ns[MOST_ROUNDS];                  // the time of an operation with answers
} * board;

static const char *name = "ucx";
static uint32_t rounds = 31;

static void meet(void) {
  uint32_t place = atomic_fetch_add(&board->arrived, 1) / HOSTS;
  uint64_t deadline = clock_deadline_ms(BENCH_DEADLINE_MS);
  while (atomic_load(&board->arrived) < (place + 1) * HOSTS) {
    if (clock_passed(deadline))
      bench_fail("the other process did not come");
    sched_yield();
  }
}

// --- the bare transport ---

struct bare {
  const struct transport *transport;
  struct transport_worker *worker;
  struct transport_region *region;
  struct transport_peer *peer;
  struct transport_remote *remote;
  struct transport_piece pieces[PIECES];
  struct transport_request requests[PIECES];
  uint8_t *memory;
};

static void check(int rc, const char *what) {
  if (rc != 0)
    bench_fail("%s", what);
}

static void open_bare(struct bare *bare, int host) {
  struct transport_options options = {.size = sizeof options};
  check(transport_find(name, &bare->transport), "the transport");
  check(bare->transport->open(&options, &bare->worker), "a worker");
  board->address_size[host] = TRANSPORT_MAX_ADDRESS;
  check(bare->transport->address(bare->worker, board->address[host], &board->address_size[host]), "an address");
  bare->memory = aligned_alloc(4096, (size_t)PIECES * PIECE);
  memset(bare->memory, host, (size_t)PIECES * PIECE);
  struct transport_memory memory = {
      .kind = WEFT_MEMORY_HOST, .address = bare->memory, .length = (uint64_t)PIECES * PIECE, .device = -1, .fd = -1};
  check(bare->transport->reg(bare->worker, &memory, &bare->region), "a region");
  if (host == 0)
    return;
  board->key_size = TRANSPORT_MAX_KEY;
  check(bare->transport->pack(bare->region, board->key, &board->key_size), "a key");
}

static void reach(struct bare *bare) {
  check(bare->transport->connect(bare->worker, board->address[1], board->address_size[1], NULL, &bare->peer),
        "the peer");
  check(bare->transport->import(bare->peer, board->key, board->key_size, &bare->remote), "its memory");
  for (int i = 0; i < PIECES; i++) {
    bare->pieces[i] = (struct transport_piece){.local = bare->region,
                                               .remote = bare->remote,
                                               .local_address = (uintptr_t)bare->memory + (uint64_t)i * PIECE,
                                               .remote_address = bare->remote->address + (uint64_t)i * PIECE,
                                               .length = PIECE};
    bare->requests[i] = (struct transport_request){
        .peer = bare->peer, .op = WEFT_TRANSFER_WRITE, .pieces = &bare->pieces[i], .num_pieces = 1};
    check(bare->transport->prepare(&bare->requests[i]), "a request");
  }
}

// Drives the transport. Without news it sleeps, as the thread of EP does: on few processors spinning would take time
// from the network.
static void progress(struct bare *bare) {
  const struct transport *transport = bare->transport;
  if (transport->progress(bare->worker) > 0)
    return;
  struct pollfd entry = {.fd = transport->fd(bare->worker), .events = POLLIN};
  if (entry.fd >= 0 && (!transport->arm || transport->arm(bare->worker) == 0))
    poll(&entry, 1, 1);
}

// GB/s
static double put(struct bare *bare) {
  uint64_t begin = clock_ns();
  uint32_t posted = 0, ended = 0;
  bool busy[PIECES] = {0};
  while (ended < PUTS) {
    for (int i = 0; i < PIECES; i++) {
      int state = atomic_load_explicit(&bare->requests[i].state, memory_order_acquire);
      if (busy[i] && state != TRANSPORT_IN_FLIGHT) {
        check(state, "a put");
        busy[i] = false;
        ended++;
      }
      if (!busy[i] && posted < PUTS) {
        check(bare->transport->post(&bare->requests[i]), "a post");
        busy[i] = true;
        posted++;
      }
    }
    progress(bare);
  }
  return (double)PUTS * PIECE / (double)(clock_ns() - begin);
}

static void put_round(struct bare *bare, int host, uint32_t round) {
  atomic_store(&board->done, false);
  meet();
  if (host == 0) {
    double rate = put(bare);
    if (round < MOST_ROUNDS)
      board->put[round] = rate;
    atomic_store(&board->done, true);
  } else {
    while (!atomic_load(&board->done))
      progress(bare);
  }
  meet();
}

// --- EP ---

struct ep {
  weft_store_t *store;
  weft_store_server_t *server;
  weft_ep_t *ep;
  uint16_t *x, *out, *y;
  int64_t *topk;
  float *weights;
  const void *rows[HOSTS * TOKENS];
  int32_t counts[2];
};

// Allocates memory and writes it: pages that were never written are all one page of zeros, in the nearest cache.
static uint16_t *written(size_t values) {
  uint16_t *memory = aligned_alloc(4096, values * sizeof *memory);
  memset(memory, 1, values * sizeof *memory);
  return memory;
}

static void open_ep(struct ep *ep, int host) {
  if (host == 0) {
    struct weft_store_server_options server = WEFT_STORE_SERVER_OPTIONS_INIT;
    server.address = "10.79.0.1";
    server.token = "bench";
    check(weft_store_server_start(&ep->server, &server), "the store");
    snprintf(board->url, sizeof board->url, "%s", weft_store_server_url(ep->server));
  }
  meet();
  struct weft_store_options store = WEFT_STORE_OPTIONS_INIT;
  store.endpoints = board->url;
  store.token = "bench";
  check(weft_store_open(&ep->store, &store), "the store");
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  static const int32_t founders[] = {0, 1};
  options.store = ep->store;
  options.prefix = "/weft/bench/";
  options.rank = host;
  options.capacity = HOSTS;
  options.founders = founders;
  options.num_founders = HOSTS;
  options.transport = name;
  options.max_tokens = TOKENS;
  options.hidden = HIDDEN;
  options.topk = TOPK;
  check(weft_ep_open(&ep->ep, &options, BENCH_DEADLINE_MS), "a rank");
  check(weft_ep_activate(ep->ep, BENCH_DEADLINE_MS), "activation");
  ep->x = written(TOKENS * HIDDEN);
  ep->out = written(TOKENS * HIDDEN);
  ep->y = written(HOSTS * TOKENS * HIDDEN);
  ep->topk = malloc(TOKENS * TOPK * sizeof *ep->topk);
  ep->weights = calloc(TOKENS * TOPK, sizeof *ep->weights);
  for (int i = 0; i < TOKENS * TOPK; i++) // all to the first expert of the other rank
    ep->topk[i] = i % TOPK == 0 ? 2 * (1 - host) : -1;
}

static void operate(struct ep *ep, uint32_t tokens, bool answer) {
  struct weft_ep_dispatch_args send = {
      .size = sizeof send, .x = ep->x, .num_tokens = tokens, .topk_idx = ep->topk, .topk_weights = ep->weights};
  struct weft_ep_recv_args recv = {.size = sizeof recv,
                                   .layout = WEFT_EP_RANK_MAJOR,
                                   .rows = HOSTS * TOKENS,
                                   .rows_at = ep->rows,
                                   .counts = ep->counts};
  struct weft_ep_info info = WEFT_EP_INFO_INIT;
  uint64_t op;
  check(weft_ep_dispatch(ep->ep, &send, &recv, &info, &op), "a dispatch");
  if (info.num_lost > 0)
    bench_fail("the other rank was lost");
  struct weft_ep_combine_args combine = {.size = sizeof combine, .y = ep->y, .out = ep->out};
  check(answer ? weft_ep_combine(ep->ep, op, &combine, NULL) : weft_ep_finish(ep->ep, op), "an operation's end");
}

static void ep_round(struct ep *ep, int host, uint32_t round) {
  meet();
  uint64_t begin = clock_ns();
  for (int i = 0; i < OPERATIONS; i++)
    operate(ep, host == 0 ? TOKENS : 0, false);
  check(weft_ep_barrier(ep->ep), "a barrier"); // then the other host has received the last dispatch
  uint64_t ns = clock_ns() - begin;
  if (host == 0 && round < MOST_ROUNDS)
    board->dispatch[round] = (double)OPERATIONS * TOKENS * HIDDEN * 2 / (double)ns;
  meet();
  begin = clock_ns();
  for (int i = 0; i < OPERATIONS; i++)
    operate(ep, TOKENS, true);
  if (host == 0 && round < MOST_ROUNDS)
    board->both_ns[round] = (clock_ns() - begin) / OPERATIONS;
  meet();
}

// --- hosts ---

// Waits for the link: the kernel takes a moment until it reports it as up.
static void await_link(void) {
  uint64_t deadline = clock_deadline_ms(BENCH_DEADLINE_MS);
  char state[16] = "";
  while (strncmp(state, "up", 2) != 0 && !clock_passed(deadline)) {
    FILE *file = fopen("/sys/class/net/w0/operstate", "re");
    if (file && !fgets(state, sizeof state, file))
      state[0] = '\0';
    if (file)
      fclose(file);
  }
}

// Each host gets half of the processors: otherwise the kernel wakes the receiver on the sender's processor.
static void take_processors(int host) {
  cpu_set_t all, mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof all, &all) != 0)
    return;
  int count = CPU_COUNT(&all), seen = 0;
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &all) && seen++ * HOSTS / count == host)
      CPU_SET(i, &mine);
  sched_setaffinity(0, sizeof mine, &mine);
}

// Makes a network namespace, and mounts a /sys that shows it.
static void enter_host(int host) {
  take_processors(host);
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("sysfs", "/sys", "sysfs", 0, NULL) != 0) {
    fprintf(stderr, "bench_ep_net: no network namespace: %s (root only)\n", strerror(errno));
    _exit(77);
  }
  board->pids[host] = getpid();
  meet();
  char command[256];
  if (host == 0) {
    snprintf(command, sizeof command, "ip link add w0 type veth peer name w0 netns %d", (int)board->pids[1]);
    if (system(command) != 0)
      _exit(77);
  }
  meet();
  snprintf(command, sizeof command, "ip link set lo up && ip address add 10.79.0.%d/24 dev w0 && ip link set w0 up",
           host + 1);
  if (system(command) != 0)
    _exit(77);
  await_link();
  meet();
}

static int live(void *arg) {
  static struct bare bare;
  static struct ep ep;
  int host = (int)(intptr_t)arg;
  enter_host(host);
  open_bare(&bare, host);
  meet();
  if (host == 0)
    reach(&bare);
  open_ep(&ep, host);
  put_round(&bare, host, MOST_ROUNDS);
  ep_round(&ep, host, MOST_ROUNDS);
  for (uint32_t round = 0; round < rounds; round++) {
    put_round(&bare, host, round);
    ep_round(&ep, host, round);
  }
  weft_ep_close(ep.ep);
  meet();
  weft_store_close(ep.store);
  meet();
  weft_store_server_stop(ep.server);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1)
    name = argv[1];
  if (argc > 2)
    rounds = (uint32_t)strtoul(argv[2], NULL, 10);
  if (rounds == 0 || rounds > MOST_ROUNDS)
    rounds = MOST_ROUNDS;
  setenv("UCX_TLS", "tcp", 0); // UCX sees that the two hosts are one, and would use shared memory
  board = bench_shared(sizeof *board);
  pid_t pids[HOSTS];
  bool well = true;
  for (int i = 0; i < HOSTS; i++)
    pids[i] = bench_fork(live, (void *)(intptr_t)i);
  for (int i = 0; i < HOSTS; i++)
    well &= bench_reap(pids[i]);
  if (!well)
    return 1;
  double ratio[MOST_ROUNDS], both[MOST_ROUNDS];
  for (uint32_t i = 0; i < rounds; i++) {
    ratio[i] = board->dispatch[i] / board->put[i];
    both[i] = (double)board->both_ns[i] / 1000;
    printf("puts %.2f GB/s, dispatch %.2f GB/s, %.0f %%; operation both ways %.0f us\n", board->put[i],
           board->dispatch[i], 100 * ratio[i], both[i]);
  }
  bench_sort(ratio, rounds);
  bench_sort(both, rounds);
  printf("%s: median %.0f %% of the puts (%.0f to %.0f), an operation %.0f us\n", name, 100 * ratio[rounds / 2],
         100 * ratio[0], 100 * ratio[rounds - 1], both[rounds / 2]);
  return 0;
}
