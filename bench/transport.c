// bench_transport [--json] [--brief] NAME [allocate] [SETTING...]: measures a transport between two processes of this
// host, each on its own processor, beside bare loads, stores and memcpy by the same processes in the same run.
// `allocate`: the transport allocates the windows (ucx). bench/transport_peers.sh compares it with other programs.
//   8 B     a write, from its post until the other's polling processor sees it: half of a round trip
//   post    a write of 8 bytes, posted and complete
//   1 MiB   writes, one after the other, and four under way
//   many    20,000 writes of 16 KiB, each at another place, as one request; beside one copy of all their bytes
// `--brief`: takes a second or two, without `many`.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "base/time/clock.h"
#include "support/values.h"
#include "transport/transport.h"

enum {
  PIECE = 16 << 10,
  PIECES = 20000,
  MIB = 1 << 20,
  ROUNDS = 25,
  PINGS = 4000,
  BRIEF_ROUNDS = 9,
  BRIEF_PINGS = 2000,
  COPIES = 64,
  UNDER_WAY = 4,
  HEAD = 4096, // first the words of pings, then data
  WORD_SENT = 0,
  WORD_BARE = 512,
  ALL = HEAD + PIECE * PIECES,
};

#define STOP UINT64_MAX

struct side {
  const struct transport *transport;
  struct transport_worker *worker;
  struct transport_peer *peer;
  struct transport_region *window, *source;
  struct transport_remote *remote;
  unsigned char *memory, *mine;  // the window, and private memory to copy from
  volatile unsigned char *there; // the other's window in this process, or NULL
  bool help;                     // the target has to progress
};

static const char *name, *const *settings;
static bool allocate;
static int rounds = ROUNDS, pings = PINGS;

static _Noreturn void die(const char *what) {
  fprintf(stderr, "%s: %s: %s\n", name, what, weft_last_error());
  exit(1);
}

static void check(int rc, const char *what) {
  if (rc != 0)
    die(what);
}

static void *map_memory(int fd, size_t size) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED) {
    perror("mmap");
    exit(1);
  }
  return memory;
}

static void open_side(struct side *side, int processor) {
  bench_pin(processor);
  check(transport_find(name, &side->transport), "find");
  struct transport_options options = {.size = sizeof options, .settings = settings};
  check(side->transport->open(&options, &side->worker), "open");
  int fd = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, ALL) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    perror("memfd");
    exit(1);
  }
  side->memory = map_memory(fd, ALL);
  side->mine = map_memory(-1, ALL);
  memset(side->mine, 1, ALL);
  struct transport_memory memory = {.address = side->memory, .length = ALL, .device = -1, .fd = fd};
  memory.address = allocate ? NULL : side->memory;
  check(side->transport->reg(side->worker, &memory, &side->window), "register");
  side->memory = side->window->memory.address;
  memory = (struct transport_memory){.address = side->mine, .length = ALL, .device = -1, .fd = -1};
  check(side->transport->reg(side->worker, &memory, &side->source), "register");
}

// Both sides exchange their addresses, then their keys.
static void meet(struct side *side, int socket) {
  unsigned char bytes[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof bytes;
  check(side->transport->address(side->worker, bytes, &size), "address");
  send(socket, bytes, size, 0);
  ssize_t got = recv(socket, bytes, sizeof bytes, 0);
  check(side->transport->connect(side->worker, bytes, (size_t)got, NULL, &side->peer), "connect");
  size = sizeof bytes;
  check(side->transport->pack(side->window, bytes, &size), "pack");
  send(socket, bytes, size, 0);
  while ((got = recv(socket, bytes, sizeof bytes, MSG_DONTWAIT)) < 0)
    side->transport->progress(side->worker);
  check(side->transport->import(side->peer, bytes, (size_t)got, &side->remote), "import");
  side->there = side->transport->map ? side->transport->map(side->remote) : NULL;
  side->help = !(side->worker->abilities.flags & TRANSPORT_ONE_SIDED);
}

static void prepare(struct side *side, struct transport_request *request, struct transport_piece *pieces,
                    uint32_t count) {
  memset(request, 0, sizeof *request);
  request->peer = side->peer;
  request->op = WEFT_TRANSFER_WRITE;
  request->pieces = pieces;
  request->num_pieces = count;
  check(side->transport->prepare(request), "prepare");
}

static struct transport_piece piece(const struct side *side, uint64_t from, uint64_t to, uint64_t length) {
  return (struct transport_piece){.local = side->source,
                                  .remote = side->remote,
                                  .local_address = (uintptr_t)side->mine + from,
                                  .remote_address = side->remote->address + to,
                                  .length = length};
}

static void finish(const struct side *side, struct transport_request *request) {
  while (atomic_load_explicit(&request->state, memory_order_acquire) == TRANSPORT_IN_FLIGHT)
    side->transport->progress(side->worker);
  if (request->state != 0) {
    fprintf(stderr, "%s: %s\n", name, request->why);
    exit(1);
  }
}

static void run(const struct side *side, struct transport_request *request) {
  check(side->transport->post(request), "post");
  finish(side, request);
}

static uint64_t word(const struct side *side, uint32_t at) {
  return *(volatile uint64_t *)(void *)(side->memory + at);
}

static void wait_for(const struct side *side, uint32_t at, uint64_t value) {
  while (word(side, at) != value)
    if (side->help)
      side->transport->progress(side->worker);
}

// The other side answers pings in the order in which they arrive, until it is asked to stop.
static void answer(struct side *side) {
  uint64_t sent = 0, bare = 0;
  struct transport_request request;
  struct transport_piece one = piece(side, 0, WORD_SENT, 8);
  prepare(side, &request, &one, 1);
  for (;;) {
    uint64_t now = word(side, WORD_SENT);
    if (now == STOP)
      break;
    if (now != sent) {
      sent = now;
      *(uint64_t *)(void *)side->mine = now;
      run(side, &request);
    }
    now = word(side, WORD_BARE);
    if (now != bare && side->there) {
      bare = now;
      *(volatile uint64_t *)(volatile void *)(side->there + WORD_BARE) = now;
    }
    if (side->help)
      side->transport->progress(side->worker);
  }
  side->transport->unprepare(&request);
}

static double median(double values[ROUNDS]) {
  return bench_median(values, (size_t)rounds);
}

static bool as_json;

static void print_row(const char *what, double own, double bare, const char *unit, bool more_is_better) {
  double ratio = bare > 0 ? (more_is_better ? own / bare : bare / own) : 0;
  if (as_json)
    printf("{\"transport\":\"%s\",\"what\":\"%s\",\"own\":%.4g,\"bare\":%.4g,\"unit\":\"%s\",\"ratio\":%.3f}\n", name,
           what, own, bare, unit, ratio);
  else if (bare > 0)
    printf("%-44s %10.4g %s   bare %10.4g   ratio %.2f\n", what, own, unit, bare, ratio);
  else
    printf("%-44s %10.4g %s\n", what, own, unit);
}

static void ping(struct side *side) {
  struct transport_request request;
  struct transport_piece one = piece(side, 0, WORD_SENT, 8);
  double sent[ROUNDS], bare[ROUNDS], posts[ROUNDS];
  uint64_t number = 1, bare_number = 1;
  prepare(side, &request, &one, 1);
  for (int round = 0; round < rounds; round++) {
    uint64_t begin = clock_ns();
    for (int i = 0; i < pings; i++, number++) {
      *(uint64_t *)(void *)side->mine = number;
      run(side, &request);
      wait_for(side, WORD_SENT, number);
    }
    sent[round] = (double)(clock_ns() - begin) / pings / 2;
    begin = clock_ns();
    for (int i = 0; side->there && i < pings; i++, bare_number++) {
      *(volatile uint64_t *)(volatile void *)(side->there + WORD_BARE) = bare_number;
      wait_for(side, WORD_BARE, bare_number);
    }
    bare[round] = side->there ? (double)(clock_ns() - begin) / pings / 2 : 0;
  }
  struct transport_piece other = piece(side, 0, HEAD, 8);
  side->transport->unprepare(&request);
  prepare(side, &request, &other, 1);
  for (int round = 0; round < rounds; round++) {
    uint64_t begin = clock_ns();
    for (int i = 0; i < pings; i++)
      run(side, &request);
    posts[round] = (double)(clock_ns() - begin) / pings;
  }
  side->transport->unprepare(&request);
  print_row("8 B, until the other sees it", median(sent), median(bare), "ns", false);
  print_row("8 B, posted and complete", median(posts), 0, "ns", false);
}

static void large(struct side *side) {
  struct transport_request request;
  struct transport_piece one = piece(side, 0, HEAD, MIB);
  unsigned char *to = side->there ? (unsigned char *)(uintptr_t)side->there : side->memory;
  double own[ROUNDS], bare[ROUNDS];
  prepare(side, &request, &one, 1);
  for (int round = 0; round < rounds; round++) {
    uint64_t begin = clock_ns();
    for (int i = 0; i < COPIES; i++)
      run(side, &request);
    own[round] = (double)COPIES * MIB / (double)(clock_ns() - begin);
    begin = clock_ns();
    for (int i = 0; i < COPIES; i++)
      memcpy(to + HEAD, side->mine, MIB);
    bare[round] = (double)COPIES * MIB / (double)(clock_ns() - begin);
  }
  side->transport->unprepare(&request);
  print_row("1 MiB writes", median(own), median(bare), "GB/s", true);
}

// GB/s
static double stream(struct side *side, struct transport_request requests[UNDER_WAY]) {
  int posted = 0, ended = 0;
  uint64_t begin = clock_ns();
  for (; ended < COPIES; side->transport->progress(side->worker)) {
    while (ended < posted && atomic_load(&requests[ended % UNDER_WAY].state) != TRANSPORT_IN_FLIGHT)
      finish(side, &requests[ended++ % UNDER_WAY]);
    for (; posted < COPIES && posted - ended < UNDER_WAY; posted++)
      check(side->transport->post(&requests[posted % UNDER_WAY]), "post");
  }
  return (double)COPIES * MIB / (double)(clock_ns() - begin);
}

static void several(struct side *side) {
  struct transport_request requests[UNDER_WAY];
  struct transport_piece pieces[UNDER_WAY];
  double own[ROUNDS];
  for (int i = 0; i < UNDER_WAY; i++) {
    pieces[i] = piece(side, (uint64_t)i * MIB, HEAD + (uint64_t)i * MIB, MIB);
    prepare(side, &requests[i], &pieces[i], 1);
  }
  for (int round = 0; round < rounds; round++)
    own[round] = stream(side, requests);
  for (int i = 0; i < UNDER_WAY; i++)
    side->transport->unprepare(&requests[i]);
  print_row("1 MiB writes, 4 under way", median(own), 0, "GB/s", true);
}

static void many(struct side *side) {
  enum { TIMES = 7 };
  struct transport_request request;
  struct transport_piece *pieces = calloc(PIECES, sizeof *pieces);
  uint32_t *order = malloc(PIECES * sizeof *order);
  unsigned char *to = side->there ? (unsigned char *)(uintptr_t)side->there : side->memory;
  double post[ROUNDS], own[ROUNDS], bare[ROUNDS];
  uint64_t random = 1;
  for (uint32_t i = 0; i < PIECES; i++) {
    uint32_t j = (uint32_t)(random_next(&random) % (i + 1));
    order[i] = order[j];
    order[j] = i;
  }
  for (uint32_t i = 0; i < PIECES; i++)
    pieces[i] = piece(side, (uint64_t)i * PIECE, HEAD + (uint64_t)order[i] * PIECE, PIECE);
  prepare(side, &request, pieces, PIECES);
  memcpy(to + HEAD, side->mine, (size_t)PIECE * PIECES);
  for (int round = 0; round < rounds; round++) {
    int from = round % TIMES; // only TIMES rounds are measured; the other rounds are copies of them
    if (round != from) {
      post[round] = post[from], own[round] = own[from], bare[round] = bare[from];
      continue;
    }
    uint64_t begin = clock_ns();
    check(side->transport->post(&request), "post");
    uint64_t posted = clock_ns();
    finish(side, &request);
    uint64_t end = clock_ns();
    memcpy(to + HEAD, side->mine, (size_t)PIECE * PIECES);
    post[round] = (double)(posted - begin) / 1e6;
    own[round] = (double)PIECE * PIECES / (double)(end - begin);
    bare[round] = (double)PIECE * PIECES / (double)(clock_ns() - end);
  }
  side->transport->unprepare(&request);
  free(order);
  free(pieces);
  print_row("20,000 x 16 KiB, post", median(post), 0, "ms", false);
  print_row("20,000 x 16 KiB, beside one large copy", median(own), median(bare), "GB/s", true);
}

static void measure(struct side *side) {
  ping(side);
  large(side);
  several(side);
  if (rounds == ROUNDS)
    many(side);
  struct transport_request request;
  struct transport_piece one = piece(side, 0, WORD_SENT, 8);
  prepare(side, &request, &one, 1);
  *(uint64_t *)(void *)side->mine = STOP;
  run(side, &request);
  side->transport->unprepare(&request);
}

int main(int argc, char **argv) {
  int first = argc > 1 && strcmp(argv[1], "--json") == 0 ? 2 : 1;
  as_json = first == 2;
  if (argc > first && strcmp(argv[first], "--brief") == 0) {
    rounds = BRIEF_ROUNDS;
    pings = BRIEF_PINGS;
    first++;
  }
  if (argc <= first) {
    fprintf(stderr, "usage: %s [--json] [--brief] TRANSPORT [allocate] [SETTING...]\n", argv[0]);
    return 2;
  }
  name = argv[first];
  allocate = argc > first + 1 && strcmp(argv[first + 1], "allocate") == 0;
  first += allocate;
  settings = (const char *const *)argv + first + 1;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    perror("socketpair");
    return 1;
  }
  struct side side = {.peer = NULL};
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_side(&side, 1);
    meet(&side, sockets[1]);
    answer(&side);
    side.transport->close(side.worker);
    return 0;
  }
  open_side(&side, 0);
  meet(&side, sockets[0]);
  measure(&side);
  int status;
  while (waitpid(child, &status, WNOHANG) == 0)
    side.transport->progress(side.worker);
  side.transport->close(side.worker);
  return 0;
}
