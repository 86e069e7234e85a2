// gpu_far [TRANSPORT]: GPU memory of two agents that are connected by a network only, like those of two hosts. Data
// moves both ways unchanged, staged through host memory; GPUs of one host exchange data directly; and a network that
// cannot do this says so. The test uses a fake CUDA plug-in, whose memory the host cannot touch, or a real GPU.
#include "cmocka_all.h"

#include "agent/support/owned.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/agent.h>

#include "agent/support/pair.h"
#include "base/random.h"

enum { BYTES = 3 << 20, ODD = 4097, LENGTH = BYTES - 2 * ODD, WAIT_MS = 60000 };

// An agent with memory of a GPU, and of its host to look at it.
struct side {
  weft_agent_t *agent;
  weft_peer_t peer; // the other
  weft_region_t gpu, host;
  uint64_t gpu_address;
  uint8_t *bytes;
};

static struct side a, b;

static void works(int rc) {
  if (rc < 0)
    fail_msg("%s: %s", weft_err_name(rc), weft_last_error());
}

static bool open_side(struct side *side, const char *name, const char *transports) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  void *address;
  options.name = name;
  options.transports = transports;
  int rc = weft_agent_open(&side->agent, &options);
  if (rc == WEFT_ERR_UNSUPPORTED) {
    print_message("skipped: %s\n", weft_last_error());
    return false;
  }
  works(rc);
  works(weft_agent_allocate(side->agent, WEFT_MEMORY_HOST, BYTES, -1, &side->host, &address));
  side->bytes = address;
  return true;
}

static void allocate_gpu(struct side *side) {
  void *address;
  works(weft_agent_allocate(side->agent, WEFT_MEMORY_CUDA, BYTES, 0, &side->gpu, &address));
  side->gpu_address = (uint64_t)(uintptr_t)address;
}

static bool open_both(const char *transports) {
  if (!open_side(&a, "here", transports) || !open_side(&b, "there", transports))
    return false;
  allocate_gpu(&a);
  allocate_gpu(&b);
  works(pair_load_metadata(a.agent, b.agent, &b.peer));
  works(pair_load_metadata(b.agent, a.agent, &a.peer));
  return true;
}

static void close_both(void) {
  owned_close(a.agent);
  owned_close(b.agent);
  a = b = (struct side){0};
}

static weft_dlist_t *list_of(struct side *by, weft_peer_t peer, weft_region_t region, uint64_t address) {
  struct weft_descriptor what = {address, LENGTH, region};
  weft_dlist_t *list;
  works(weft_dlist_create(by->agent, peer, &what, 1, &list));
  return list; // it stays until the agent is closed
}

// Moves it, and says how.
static void move(struct side *by, enum weft_transfer_op op, weft_dlist_t *local, weft_dlist_t *remote,
                 const char *transport) {
  weft_transfer_t *transfer;
  char want[64];
  works(weft_transfer_create(by->agent, op, local, remote, NULL, &transfer));
  snprintf(want, sizeof want, "%s is chosen", transport);
  if (!strstr(weft_transfer_explain(transfer), want))
    fail_msg("not by %s: %s", transport, weft_transfer_explain(transfer));
  works(weft_transfer_post(transfer));
  int rc = weft_transfer_wait(transfer, WAIT_MS);
  if (rc != 0)
    fail_msg("%s: %s", weft_err_name(rc), weft_transfer_error(transfer));
  works(weft_transfer_free(transfer));
}

static uint8_t byte_of(uint64_t seed, uint64_t i) {
  return (uint8_t)random_mix(seed + i);
}

static void fill(uint8_t *bytes, uint64_t seed) {
  for (uint64_t i = 0; i < BYTES; i++)
    bytes[i] = byte_of(seed, i);
}

// `moved` from byte ODD of the one to byte 0 of the other; what is behind it is as it was.
static void check(const uint8_t *bytes, uint64_t seed, uint64_t from, uint64_t old) {
  for (uint64_t i = 0; i < BYTES; i++) {
    uint8_t want = i < LENGTH ? byte_of(seed, from + i) : byte_of(old, i);
    if (bytes[i] != want)
      fail_msg("byte %llu is %02x, not %02x", (unsigned long long)i, bytes[i], want);
  }
}

// Host to GPU, GPU to GPU of the other agent, GPU to host of the first, and the same by reads.
static void there_and_back(const char *network, const char *between) {
  uint64_t seed = random_id();
  print_message("seed %llu\n", (unsigned long long)seed);
  weft_dlist_t *host = list_of(&a, WEFT_PEER_SELF, a.host, (uintptr_t)a.bytes + ODD);
  weft_dlist_t *back = list_of(&a, WEFT_PEER_SELF, a.host, (uintptr_t)a.bytes);
  weft_dlist_t *gpu = list_of(&a, WEFT_PEER_SELF, a.gpu, a.gpu_address + ODD);
  weft_dlist_t *far_gpu = list_of(&a, a.peer, b.gpu, b.gpu_address + 1);
  weft_dlist_t *far_host = list_of(&a, a.peer, b.host, (uintptr_t)b.bytes);
  fill(a.bytes, seed);
  fill(b.bytes, seed + 1);
  move(&a, WEFT_TRANSFER_WRITE, host, far_gpu, network);
  move(&a, WEFT_TRANSFER_READ, gpu, far_gpu, between);
  move(&a, WEFT_TRANSFER_WRITE, gpu, far_host, network);
  check(b.bytes, seed, ODD, seed + 1);
  fill(a.bytes, seed + 2);
  move(&a, WEFT_TRANSFER_READ, gpu, far_host, network);
  move(&a, WEFT_TRANSFER_WRITE, gpu, far_gpu, between);
  move(&a, WEFT_TRANSFER_READ, back, far_gpu, network);
  check(a.bytes, seed, ODD, seed + 2);
}

static const char *network = "ucx";

static void test_between_hosts(void **state) {
  (void)state;
  if (!open_both(network))
    skip();
  there_and_back(network, network);
  close_both();
}

// The direct way costs less, for a few bytes too.
static void test_on_one_host(void **state) {
  char transports[64];
  (void)state;
  snprintf(transports, sizeof transports, "cuda,%s", network);
  if (!open_both(transports))
    skip();
  there_and_back("cuda", "cuda");
  close_both();
}

static void test_a_network_that_cannot(void **state) {
  (void)state;
  setenv("FI_PROVIDER", "tcp", 1);
  if (!open_side(&a, "here", "ofi,cuda") || !open_side(&b, "there", "ofi"))
    skip();
  void *address;
  static const char want[] = "libfabric's provider tcp;ofi_rxm moves host memory only";
  assert_int_equal(weft_agent_allocate(b.agent, WEFT_MEMORY_CUDA, BYTES, 0, &b.gpu, &address), WEFT_ERR_UNSUPPORTED);
  if (!strstr(weft_last_error(), want))
    fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), want);
  allocate_gpu(&a);
  works(pair_load_metadata(b.agent, a.agent, &a.peer));
  weft_transfer_t *transfer;
  weft_dlist_t *gpu = list_of(&a, WEFT_PEER_SELF, a.gpu, a.gpu_address);
  weft_dlist_t *far_host = list_of(&a, a.peer, b.host, (uintptr_t)b.bytes);
  assert_int_equal(weft_transfer_create(a.agent, WEFT_TRANSFER_WRITE, gpu, far_host, NULL, &transfer),
                   WEFT_ERR_UNREACHABLE);
  if (!strstr(weft_last_error(), want))
    fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), want);
  close_both();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_between_hosts),
      cmocka_unit_test(test_on_one_host),
      cmocka_unit_test(test_a_network_that_cannot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
