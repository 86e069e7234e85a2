// Two agents that have moved some data, and another one with a token, serve their metrics until standard input ends.
// metrics.py reads the metrics. For each byte of standard input, one agent sends a notification to the other.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/metrics/metrics.h"
#include "agent/support/crowd.h"
#include "cmocka_all.h"
#include "support/wait.h"

enum { WRITES = 3, READS = 2, BYTES = 100 };

static void move(struct crowd_member *a, weft_peer_t peer, enum weft_transfer_op op, int times) {
  weft_region_t region;
  void *address;
  struct weft_region_info info;
  uint32_t count = 1;
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  assert_int_equal(weft_agent_allocate(a->agent, WEFT_MEMORY_HOST, 4096, 0, &region, &address), 0);
  assert_int_equal(weft_agent_regions(a->agent, peer, &info, sizeof info, count, &count), 0);
  struct weft_descriptor here = {.address = (uintptr_t)address, .length = BYTES, .region = region};
  struct weft_descriptor there = {.address = info.address, .length = BYTES, .region = info.region};
  assert_int_equal(weft_dlist_create(a->agent, WEFT_PEER_SELF, &here, 1, &local), 0);
  assert_int_equal(weft_dlist_create(a->agent, peer, &there, 1, &remote), 0);
  assert_int_equal(weft_transfer_create(a->agent, op, local, remote, &options, &transfer), 0);
  for (int i = 0; i < times; i++) {
    assert_int_equal(weft_transfer_post(transfer), 0);
    assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  }
}

static bool has_notification(void *arg) {
  struct weft_notification notification;
  uint32_t count = 1;
  return weft_agent_notifications(arg, &notification, count, &count) == 0 && count == 1;
}

// Counts failures that no test can cause at will, as the core counts them.
static void count_failures(weft_agent_t *agent, weft_peer_t id) {
  pthread_mutex_lock(&agent->lock);
  struct agent_link *link = agent_peer_get(agent, id)->links;
  while (!link->meter) // the first link that reaches the peer
    link++;
  agent_metrics_transfer(link, WEFT_TRANSFER_READ, 0, 5, WEFT_ERR_CANCELED);
  agent_metrics_transfer(link, WEFT_TRANSFER_READ, 0, 5, WEFT_ERR_TIMEOUT);
  static const uint64_t times[] = {0, 1, 256, 257, 512, UINT64_C(1) << 35, (UINT64_C(1) << 35) + 1, UINT64_MAX / 2};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    agent_metrics_transfer(link, WEFT_TRANSFER_READ, 1, times[i], 0);
  pthread_mutex_unlock(&agent->lock);
}

static void notify(struct crowd_member *a, struct crowd_member *b, weft_peer_t to_b) {
  assert_int_equal(weft_agent_notify(a->agent, to_b, "hello", 5), 0);
  assert_true(support_wait(has_notification, b->agent, SUPPORT_DEADLINE_MS));
}

// Prints where it serves, and what has to be shown there.
static void serve_guarded(struct crowd_member *guarded) {
  char bearer[65];
  size_t size = 10;
  uint16_t port;
  struct weft_agent_options options = crowd_options("guarded");
  options.token = "a token";
  crowd_open(guarded, &options);
  assert_int_equal(weft_agent_metrics_bearer(guarded->agent, bearer, size, &size), WEFT_ERR_ROOM);
  assert_int_equal(size, sizeof bearer);
  assert_int_equal(weft_agent_metrics_bearer(guarded->agent, bearer, size, &size), 0);
  assert_int_equal(weft_agent_serve_metrics(guarded->agent, "0.0.0.0:0", &port), 0);
  printf("%u\n%s\n", port, bearer);
}

int main(void) {
  static struct crowd_member a, b, gone, guarded;
  weft_region_t region;
  void *address;
  uint16_t port = 0, other;
  char small[16];
  size_t size = sizeof small;
  struct weft_agent_options options = crowd_options("a \"quoted\\name\"");
  crowd_open(&a, &options);
  options = crowd_options("b");
  crowd_open(&b, &options);
  options = crowd_options("gone");
  crowd_open(&gone, &options);
  assert_int_equal(weft_agent_allocate(b.agent, WEFT_MEMORY_HOST, 4096, 0, &region, &address), 0);
  assert_int_equal(weft_agent_allocate(gone.agent, WEFT_MEMORY_HOST, 4096, 0, &region, &address), 0);
  weft_peer_t to_b = crowd_load(a.agent, b.agent), to_gone = crowd_load(a.agent, gone.agent);
  crowd_load(b.agent, a.agent);
  crowd_load(gone.agent, a.agent);
  move(&a, to_b, WEFT_TRANSFER_WRITE, WRITES);
  move(&a, to_b, WEFT_TRANSFER_READ, READS);
  move(&a, to_gone, WEFT_TRANSFER_WRITE, 1);
  notify(&a, &b, to_b);
  weft_peer_t back = 0;
  assert_int_equal(weft_agent_find(b.agent, "a \"quoted\\name\"", &back), 0);
  count_failures(b.agent, back);
  crowd_close(&gone);
  crowd_await(&a, LEFT, "gone", 1);
  assert_int_equal(weft_agent_metrics(a.agent, small, size, &size), WEFT_ERR_ROOM);
  assert_true(size > sizeof small);
  assert_int_equal(weft_agent_serve_metrics(a.agent, "127.0.0.1", &port), WEFT_ERR_INVALID);
  int err = weft_agent_serve_metrics(a.agent, "127.0.0.1:0", &port);
  if (err == WEFT_ERR_UNSUPPORTED)
    return 77;
  assert_int_equal(err, 0);
  assert_int_equal(weft_agent_serve_metrics(b.agent, "0.0.0.0:0", &other), WEFT_ERR_INVALID); // it has no token
  assert_int_equal(weft_agent_serve_metrics(b.agent, "[::]:0", &other), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_metrics_bearer(b.agent, small, sizeof small, &size), WEFT_ERR_NOT_FOUND);
  assert_int_equal(weft_agent_serve_metrics(a.agent, "127.0.0.1:0", &other), WEFT_ERR_EXISTS);
  printf("%u\n", port);
  assert_int_equal(weft_agent_serve_metrics(b.agent, "127.0.0.1:0", &port), 0);
  printf("%u\n", port);
  serve_guarded(&guarded);
  fflush(stdout);
  while (read(STDIN_FILENO, small, 1) > 0) {
    notify(&a, &b, to_b);
    printf("heard\n");
    fflush(stdout);
  }
  crowd_close(&guarded);
  crowd_close(&a);
  crowd_close(&b);
  return 0;
}
