// Measures transfers between two agents of this host, each in its own process: one descriptor at a time, and many at
// once. They move host memory, or memory of two GPUs (of one, if there is only one), which the caller or Weft
// allocates, over the named transports. Prints one line for each size: medians in us.
//   bench_agent_transfers [host|cuda] [own|caller] [TRANSPORTS] [poll|wait]
// "poll": there is no thread, and the caller polls; "wait": the agent has its thread, and the caller uses
// weft_transfer_wait(). The last two columns are the processor time that the initiator and the target took for a GB.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/time/clock.h"
#include "device/device.h"
#include "support/must.h"
#include "support/values.h"

enum { BLOB = 1 << 16, MANY = 20000, PIECE = 16384, ROUNDS = 9 };
#define BYTES ((uint64_t)MANY * PIECE)

struct what {
  enum weft_memory_kind kind;
  bool own, polls;
  const char *transports;
};

// What one side sends to the other: its metadata, and the place of its memory.
struct card {
  size_t size;
  uint64_t address;
  char blob[BLOB];
};

struct side {
  weft_agent_t *agent;
  weft_region_t region;
  uint64_t address;
  struct card card;
};

// GPU memory as a caller allocates it, by the driver's allocator, such that other processes can map it.
static void *device_memory(int gpu) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned) = cuda ? (int (*)(unsigned))dlsym(cuda, "cuInit") : NULL;
  int (*retain)(void **, int) = cuda ? (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain") : NULL;
  int (*set)(void *) = cuda ? (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent") : NULL;
  int (*allocate)(uint64_t *, size_t) = cuda ? (int (*)(uint64_t *, size_t))dlsym(cuda, "cuMemAlloc_v2") : NULL;
  void *context;
  uint64_t memory;
  if (!init || !retain || !set || !allocate || init(0) != 0 || retain(&context, gpu) != 0 || set(context) != 0 ||
      allocate(&memory, BYTES) != 0) {
    fprintf(stderr, "no memory of GPU %d\n", gpu);
    exit(1);
  }
  return (void *)(uintptr_t)memory;
}

static int gpus(void) {
  const struct device_api *api;
  char why[DEVICE_WHY];
  int count = 0;
  must(device_load(&api), "load the plug-in");
  api->count(&count, why);
  return count;
}

static void open_side(struct side *side, const char *name, const struct what *what, int gpu) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  void *address;
  options.name = name;
  options.transports = what->transports;
  options.progress = what->polls ? WEFT_AGENT_PROGRESS_NONE : WEFT_AGENT_PROGRESS_THREAD;
  options.heartbeat_ms = 100000;
  options.peer_timeout_ms = 1000000;
  must(weft_agent_open(&side->agent, &options), "open");
  if (what->own) {
    gpu = what->kind == WEFT_MEMORY_CUDA ? gpu % gpus() : -1;
    must(weft_agent_allocate(side->agent, what->kind, BYTES, gpu, &side->region, &address), "allocate");
  } else {
    address = what->kind == WEFT_MEMORY_CUDA ? device_memory(gpu % gpus()) : aligned_alloc(4096, BYTES);
    memory.kind = what->kind;
    memory.address = address;
    memory.length = BYTES;
    must(weft_agent_register(side->agent, &memory, &side->region), "register");
  }
  if (what->kind == WEFT_MEMORY_HOST)
    memset(address, 1, BYTES);
  side->address = side->card.address = (uintptr_t)address;
  must(weft_agent_metadata(side->agent, NULL, side->card.blob, BLOB, &side->card.size), "metadata");
}

static void give(int fd, const struct card *card) {
  if (write(fd, card, sizeof *card) != (ssize_t)sizeof *card)
    exit(1);
}

static void take(int fd, struct card *card) {
  size_t got = 0;
  ssize_t more;
  while (got < sizeof *card && (more = read(fd, (char *)card + got, sizeof *card - got)) > 0)
    got += (size_t)more;
  if (got != sizeof *card)
    exit(1);
}

static double processor_s(int who) {
  struct rusage used;
  getrusage(who, &used);
  return (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

// Runs its agent until the initiator closes the connection. On request it says how much processor time it has used.
static void be_target(int fd, const struct what *what) {
  static struct side side;
  static struct card other;
  weft_peer_t peer;
  char word;
  open_side(&side, "target", what, 1);
  give(fd, &side.card);
  take(fd, &other);
  must(weft_agent_load(side.agent, other.blob, other.size, &peer), "load");
  for (;;) {
    ssize_t got = recv(fd, &word, 1, what->polls ? MSG_DONTWAIT : 0);
    if (got == 0)
      break;
    if (got == 1) {
      double used = processor_s(RUSAGE_SELF);
      if (send(fd, &used, sizeof used, 0) != (ssize_t)sizeof used)
        break;
    }
    if (what->polls)
      must(weft_agent_progress(side.agent, NULL), "progress");
  }
  weft_agent_close(side.agent);
}

static double target_s(int fd) {
  double used = 0;
  if (send(fd, "?", 1, 0) != 1 || recv(fd, &used, sizeof used, MSG_WAITALL) != (ssize_t)sizeof used)
    exit(1);
  return used;
}

static weft_transfer_t *make(struct side *side, weft_peer_t peer, const struct card *other, enum weft_transfer_op op,
                             uint32_t count, uint64_t size) {
  struct weft_descriptor *here = calloc(count, sizeof *here), *there = calloc(count, sizeof *there);
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  for (uint32_t i = 0; i < count; i++) { // no neighbours on both sides, or the pieces would be one copy
    here[i] = (struct weft_descriptor){side->address + i * size, size, side->region};
    there[i] = (struct weft_descriptor){other->address + (i * UINT64_C(7919) % count) * size, size, 0};
  }
  must(weft_dlist_create(side->agent, WEFT_PEER_SELF, here, count, &local), "local list");
  must(weft_dlist_create(side->agent, peer, there, count, &remote), "remote list");
  must(weft_transfer_create(side->agent, op, local, remote, NULL, &transfer), "create");
  free(here);
  free(there);
  return transfer;
}

static void finish(weft_transfer_t *transfer, const struct what *what) {
  int rc = 1;
  while (what->polls && rc == 1)
    rc = weft_transfer_poll(transfer);
  if (!what->polls)
    rc = weft_transfer_wait(transfer, 60000);
  if (rc != 0) {
    fprintf(stderr, "a transfer: %s\n", weft_transfer_error(transfer));
    exit(1);
  }
}

static void measure_one(struct side *side, weft_peer_t peer, const struct card *other, const struct what *what, int fd,
                        enum weft_transfer_op op, uint64_t size) {
  static uint64_t times[20000];
  uint32_t count = size < 65536 ? 20000 : size < 4 << 20 ? 2000 : 200;
  weft_transfer_t *transfer = make(side, peer, other, op, 1, size);
  for (uint32_t i = 0; i < count / 4; i++) {
    must(weft_transfer_post(transfer), "post");
    finish(transfer, what);
  }
  double here = processor_s(RUSAGE_SELF), there = target_s(fd);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t begun = clock_ns();
    must(weft_transfer_post(transfer), "post");
    finish(transfer, what);
    times[i] = clock_ns() - begun;
  }
  double gb = (double)size * count / 1e9;
  here = (processor_s(RUSAGE_SELF) - here) / gb;
  there = (target_s(fd) - there) / gb;
  bench_sort_ns(times, count);
  printf("%-5s %9llu B  %9.2f us  p99 %9.2f  %8.2f GB/s  %8.2f s/GB  %8.2f s/GB\n",
         op == WEFT_TRANSFER_WRITE ? "write" : "read", (unsigned long long)size, (double)times[count / 2] / 1e3,
         (double)times[count * 99 / 100] / 1e3, (double)size / (double)times[count / 2], here, there);
  must(weft_transfer_free(transfer), "free");
}

static void measure_many(struct side *side, weft_peer_t peer, const struct card *other, const struct what *what) {
  uint64_t create[ROUNDS], post[ROUNDS], whole[ROUNDS];
  for (uint32_t i = 0; i < ROUNDS; i++) {
    uint64_t begun = clock_ns();
    weft_transfer_t *transfer = make(side, peer, other, WEFT_TRANSFER_WRITE, MANY, PIECE);
    create[i] = clock_ns() - begun;
    for (int again = 0; again < 2; again++) {
      begun = clock_ns();
      must(weft_transfer_post(transfer), "post");
      post[i] = clock_ns() - begun;
      finish(transfer, what);
      whole[i] = clock_ns() - begun;
    }
    must(weft_transfer_free(transfer), "free");
  }
  bench_sort_ns(create, ROUNDS);
  bench_sort_ns(post, ROUNDS);
  bench_sort_ns(whole, ROUNDS);
  printf("%d x %d B: lists and transfer %.2f ms, post %.3f ms, complete %.3f ms\n", MANY, PIECE,
         (double)create[ROUNDS / 2] / 1e6, (double)post[ROUNDS / 2] / 1e6, (double)whole[ROUNDS / 2] / 1e6);
}

int main(int argc, char **argv) {
  static const uint64_t sizes[] = {8, 4096, 65536, 1 << 20, 16 << 20};
  static struct side side;
  static struct card other;
  const struct what what = {
      .kind = argc > 1 && strcmp(argv[1], "cuda") == 0 ? WEFT_MEMORY_CUDA : WEFT_MEMORY_HOST,
      .own = argc > 2 && strcmp(argv[2], "own") == 0,
      .transports = argc > 3                                   ? argv[3]
                    : argc > 1 && strcmp(argv[1], "cuda") == 0 ? "cuda"
                                                               : "shm",
      .polls = !(argc > 4 && strcmp(argv[4], "wait") == 0),
  };
  int pair[2];
  weft_peer_t peer;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
    return 1;
  pid_t child = fork();
  if (child == 0) {
    close(pair[0]);
    be_target(pair[1], &what);
    return 0;
  }
  close(pair[1]);
  signal(SIGPIPE, SIG_IGN);
  take(pair[0], &other);
  open_side(&side, "initiator", &what, 0);
  give(pair[0], &side.card);
  must(weft_agent_load(side.agent, other.blob, other.size, &peer), "load");
  printf("%s memory, %s, by %s, %s\n", what.kind == WEFT_MEMORY_CUDA ? "GPU" : "host",
         what.own ? "allocated by Weft" : "the caller's", what.transports, what.polls ? "polled" : "waited for");
  for (int op = 0; op < 2; op++)
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      measure_one(&side, peer, &other, &what, pair[0], op == 0 ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ, sizes[i]);
  measure_many(&side, peer, &other, &what);
  weft_agent_close(side.agent);
  close(pair[0]);
  int status;
  waitpid(child, &status, 0);
  return 0;
}
