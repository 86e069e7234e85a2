// Measures the transport cuda between two GPUs of one process (one GPU, if there is only one): one large copy, the same
// bytes in many small pieces at scattered places, and small writes.
// bench_transport_cuda [SECONDS of each, default 1]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/time/clock.h"
#include "device/device.h"
#include "support/values.h"
#include "transport/transport.h"

enum { PIECES = 20000, PIECE = 16384 };

struct side {
  struct transport_worker *worker;
  struct device *device;
  struct device_window window;
  int fd;
  struct transport_region *region;
};

static const struct device_api *api;
static const struct transport *cuda;
static char why[DEVICE_WHY];

#define WORKS(call)                                                                                                    \
  do {                                                                                                                 \
    if ((call) != 0) {                                                                                                 \
      fprintf(stderr, "%s: %s %s\n", #call, weft_last_error(), why);                                                   \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static void open_side(struct side *side, int gpu, uint64_t length) {
  struct transport_options options = {.size = sizeof options};
  WORKS(cuda->open(&options, &side->worker));
  WORKS(api->open(gpu, &side->device, why));
  WORKS(api->window_create(side->device, length, &side->window, &side->fd, why));
  struct transport_memory memory = {
      .kind = WEFT_MEMORY_CUDA, .address = side->window.memory, .length = length, .device = gpu, .fd = side->fd};
  WORKS(cuda->reg(side->worker, &memory, &side->region));
}

static struct transport_remote *know(struct side *from, struct side *to) {
  unsigned char bytes[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof bytes;
  struct transport_peer *peer;
  struct transport_remote *remote;
  WORKS(cuda->address(to->worker, bytes, &size));
  WORKS(cuda->connect(from->worker, bytes, size, NULL, &peer));
  size = TRANSPORT_MAX_KEY;
  WORKS(cuda->pack(to->region, bytes, &size));
  WORKS(cuda->import(peer, bytes, size, &remote));
  return remote;
}

static void shuffle(uint32_t *order, uint32_t count, uint64_t seed) {
  for (uint32_t i = 0; i < count; i++)
    order[i] = i;
  for (uint32_t i = count; i > 1; i--) {
    uint32_t j = (uint32_t)(random_next(&seed) % i), kept = order[i - 1];
    order[i - 1] = order[j];
    order[j] = kept;
  }
}

// Copies pieces from places in one order to places in another order.
static struct transport_piece *make_pieces(const struct side *from, struct transport_remote *to, uint32_t count,
                                           uint64_t size) {
  struct transport_piece *pieces = calloc(count, sizeof *pieces);
  uint32_t *here = calloc(count, sizeof *here), *there = calloc(count, sizeof *there);
  shuffle(here, count, 1);
  shuffle(there, count, 2);
  for (uint32_t i = 0; i < count; i++)
    pieces[i] = (struct transport_piece){.local = from->region,
                                         .remote = to,
                                         .local_address = (uintptr_t)from->window.memory + here[i] * size,
                                         .remote_address = to->address + there[i] * size,
                                         .length = size};
  free(here);
  free(there);
  return pieces;
}

struct figures {
  double post_us, us, gbps; // medians
};

static struct figures measure(struct side *from, struct transport_remote *to, enum weft_transfer_op op, uint32_t count,
                              uint64_t size, uint64_t seconds) {
  enum { MAX = 4096 };
  static uint64_t posts[MAX], times[MAX];
  struct transport_piece *pieces = make_pieces(from, to, count, size);
  struct transport_request request = {.peer = to->peer, .op = op, .pieces = pieces, .num_pieces = count};
  uint64_t until = clock_ns() + seconds * 1000000000u;
  uint32_t n = 0;
  WORKS(cuda->prepare(&request));
  for (int warm = 10; n < MAX && (n < 10 || clock_ns() < until);) {
    uint64_t begun = clock_ns();
    WORKS(cuda->post(&request));
    uint64_t posted = clock_ns();
    while (atomic_load(&request.state) == TRANSPORT_IN_FLIGHT)
      cuda->progress(from->worker);
    WORKS(atomic_load(&request.state));
    posts[n] = posted - begun;
    times[n] = clock_ns() - begun;
    n += warm-- <= 0;
    warm = warm < 0 ? 0 : warm;
  }
  cuda->unprepare(&request);
  free(pieces);
  bench_sort_ns(posts, n);
  bench_sort_ns(times, n);
  double us = (double)times[n / 2] / 1e3;
  return (struct figures){
      .post_us = (double)posts[n / 2] / 1e3, .us = us, .gbps = (double)count * (double)size / us / 1e3};
}

int main(int argc, char **argv) {
  uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  struct side a, b;
  int gpus = 0;
  if (device_load(&api) != 0 || api->count(&gpus, why) != 0) {
    printf("skipped: %s %s\n", weft_last_error(), why);
    return 77;
  }
  WORKS(transport_find("cuda", &cuda));
  uint64_t length = (uint64_t)PIECES * PIECE;
  open_side(&a, 0, length);
  open_side(&b, gpus > 1, length);
  struct transport_remote *to = know(&a, &b);
  printf("%d GPUs; medians\n%-6s %8s %10s %12s %12s %10s %8s\n", gpus > 1 ? 2 : 1, "op", "pieces", "bytes", "post (us)",
         "done (us)", "GB/s", "ratio");
  static const struct {
    uint32_t count;
    uint64_t size;
  } shapes[] = {{1, (uint64_t)PIECES * PIECE}, {PIECES, PIECE}, {PIECES, 4096}, {PIECES, 512}, {64, 1 << 20}, {1, 8}};
  for (enum weft_transfer_op op = WEFT_TRANSFER_READ; op <= WEFT_TRANSFER_WRITE; op++) {
    double large = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      struct figures f = measure(&a, to, op, shapes[i].count, shapes[i].size, seconds);
      large = i == 0 ? f.gbps : large;
      printf("%-6s %8u %10llu %12.1f %12.1f %10.2f %8.3f\n", op == WEFT_TRANSFER_READ ? "read" : "write",
             shapes[i].count, (unsigned long long)shapes[i].size, f.post_us, f.us, f.gbps, f.gbps / large);
    }
  }
  cuda->close(a.worker);
  cuda->close(b.worker);
  return 0;
}
