// Measures what an agent adds to its transport. A small write, posted and complete, is compared with that of the
// transport alone; one transfer of many descriptors with one large copy. Both agents are in one process, over the named
// transport (default: shm).
//   bench_agent_post [transport]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/weft.h>

#include "agent/agent.h"
#include "support/must.h"
#include "support/values.h"

enum { MANY = 20000, PIECE = 16384, POSTS = 20000, ROUNDS = 15 };

// Processor time, since this thread does all the work; so the time of other programs does not count.
static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t median(uint64_t *values, uint32_t count) {
  bench_sort_ns(values, count);
  return values[count / 2];
}

struct end {
  weft_agent_t *agent;
  weft_region_t region;
  uint8_t *memory;
};

static void open_end(struct end *end, const char *name, const char *transport, uint64_t bytes) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = name;
  options.transports = transport;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  must(weft_agent_open(&end->agent, &options), "open");
  void *memory;
  must(weft_agent_allocate(end->agent, WEFT_MEMORY_HOST, bytes, -1, &end->region, &memory), "allocate");
  end->memory = memory;
  memset(memory, 1, bytes);
}

static weft_peer_t load_metadata(weft_agent_t *from, weft_agent_t *to) {
  static uint8_t blob[1 << 16];
  size_t size = sizeof blob;
  weft_peer_t peer;
  must(weft_agent_metadata(from, NULL, blob, size, &size), "metadata");
  must(weft_agent_load(to, blob, size, &peer), "load");
  return peer;
}

static weft_transfer_t *make(struct end *a, struct end *b, weft_peer_t peer, const struct weft_descriptor *here,
                             const struct weft_descriptor *there, uint32_t count) {
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  (void)b;
  must(weft_dlist_create(a->agent, WEFT_PEER_SELF, here, count, &local), "list");
  must(weft_dlist_create(a->agent, peer, there, count, &remote), "list");
  must(weft_transfer_create(a->agent, WEFT_TRANSFER_WRITE, local, remote, NULL, &transfer), "transfer");
  return transfer;
}

static void run(struct end *a, struct end *b, weft_transfer_t *transfer) {
  must(weft_transfer_post(transfer), "post");
  int rc;
  while ((rc = weft_transfer_poll(transfer)) == 1)
    must(weft_agent_progress(b->agent, NULL), "progress");
  must(rc, "transfer");
  (void)a;
}

// Posts the same prepared request with the transport alone.
static void run_bare(weft_transfer_t *transfer) {
  struct agent_post *part = &transfer->parts[0];
  const struct transport *transport = part->worker->transport;
  void (*done)(struct transport_request *) = part->request.done;
  part->request.done = NULL;
  must(transport->post(&part->request), "post");
  while (atomic_load_explicit(&part->request.state, memory_order_acquire) == TRANSPORT_IN_FLIGHT)
    transport->progress(part->worker->worker);
  part->request.done = done;
}

static void small(struct end *a, struct end *b, weft_peer_t peer) {
  struct weft_descriptor here = {(uintptr_t)a->memory, 8, a->region}, there = {(uintptr_t)b->memory, 8, b->region};
  weft_transfer_t *transfer = make(a, b, peer, &here, &there, 1);
  uint64_t with[ROUNDS], bare[ROUNDS];
  run(a, b, transfer);
  for (uint32_t round = 0; round < ROUNDS; round++) { // by turns, so that both are disturbed alike
    uint64_t begun = now_ns();
    for (uint32_t i = 0; i < POSTS; i++)
      run(a, b, transfer);
    with[round] = now_ns() - begun;
    begun = now_ns();
    for (uint32_t i = 0; i < POSTS; i++)
      run_bare(transfer);
    bare[round] = now_ns() - begun;
  }
  uint64_t agent = median(with, ROUNDS) / POSTS, alone = median(bare, ROUNDS) / POSTS;
  printf("write of 8 bytes, posted and complete: %lu ns by the agent, %lu ns by the transport alone\n",
         (unsigned long)agent, (unsigned long)alone);
}

// The place of the i-th piece. No piece lies behind the one before it: neighbours are exchanged, or the pieces are
// scattered, in equal or in different orders at both ends.
static const struct order {
  const char *name;
  uint32_t exchange, here, there; // `here` and `there` are coprime to MANY
} orders[] = {{"neighbours exchanged", 1, 1, 1},
              {"scattered", 0, 7919, 7919},
              {"scattered otherwise at each end", 0, 7919, 10007}};

static void many(struct end *a, struct end *b, weft_peer_t peer, const struct order *order) {
  struct weft_descriptor *here = calloc(MANY, sizeof *here), *there = calloc(MANY, sizeof *there);
  if (!here || !there)
    exit(1);
  for (uint32_t i = 0; i < MANY; i++) {
    uint64_t from = (uint64_t)(i ^ order->exchange) * order->here % MANY;
    uint64_t to = (uint64_t)(i ^ order->exchange) * order->there % MANY;
    here[i] = (struct weft_descriptor){(uintptr_t)a->memory + from * PIECE, PIECE, 0};
    there[i] = (struct weft_descriptor){(uintptr_t)b->memory + to * PIECE, PIECE, 0};
  }
  struct weft_descriptor all_here = {(uintptr_t)a->memory, (uint64_t)MANY * PIECE, 0};
  struct weft_descriptor all_there = {(uintptr_t)b->memory, (uint64_t)MANY * PIECE, 0};
  uint64_t begun = now_ns();
  weft_transfer_t *pieces = make(a, b, peer, here, there, MANY);
  uint64_t made = now_ns() - begun;
  weft_transfer_t *whole = make(a, b, peer, &all_here, &all_there, 1);
  uint64_t post[ROUNDS], moved[ROUNDS], large[ROUNDS], plain[ROUNDS], bare[ROUNDS];
  run(a, b, pieces);
  run(a, b, whole);
  for (uint32_t round = 0; round < ROUNDS; round++) {
    begun = now_ns();
    must(weft_transfer_post(pieces), "post");
    post[round] = now_ns() - begun;
    while (weft_transfer_poll(pieces) == 1)
      ;
    moved[round] = now_ns() - begun;
    begun = now_ns();
    run(a, b, whole);
    large[round] = now_ns() - begun;
    begun = now_ns();
    for (uint32_t i = 0; i < MANY; i++)
      memcpy((void *)(uintptr_t)there[i].address, (void *)(uintptr_t)here[i].address, PIECE);
    plain[round] = now_ns() - begun;
    begun = now_ns();
    memcpy(b->memory, a->memory, (size_t)MANY * PIECE);
    bare[round] = now_ns() - begun;
  }
  double bytes = (double)MANY * PIECE, ns = (double)median(moved, ROUNDS), one = (double)median(large, ROUNDS);
  double copy = (double)median(bare, ROUNDS);
  printf("%d pieces of %d bytes, %s, %u after merging: made in %.2f ms, posted in %.3f ms,\n"
         "  moved at %.2f GB/s (memcpy of the same pieces: %.2f); as one piece at %.2f: %.2f of it, by one memcpy at "
         "%.2f: %.2f of it\n",
         MANY, PIECE, order->name, pieces->num_pieces, (double)made / 1e6, (double)median(post, ROUNDS) / 1e6,
         bytes / ns, bytes / (double)median(plain, ROUNDS), bytes / one, one / ns, bytes / copy, copy / ns);
  free(here);
  free(there);
}

int main(int argc, char **argv) {
  struct end a, b;
  const char *transport = argc > 1 ? argv[1] : "shm";
  open_end(&a, "a", transport, (uint64_t)MANY * PIECE);
  open_end(&b, "b", transport, (uint64_t)MANY * PIECE);
  weft_peer_t peer = load_metadata(b.agent, a.agent);
  load_metadata(a.agent, b.agent);
  small(&a, &b, peer);
  for (uint32_t i = 0; i < sizeof orders / sizeof *orders; i++)
    many(&a, &b, peer, &orders[i]);
  weft_agent_close(a.agent);
  weft_agent_close(b.agent);
  return 0;
}
