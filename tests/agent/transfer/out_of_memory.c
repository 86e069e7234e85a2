// Memory runs out: each allocation in turn fails while an agent opens, registers, publishes, fetches, connects, moves
// bytes and closes, in its own threads and in those of its peer. The calls report it, the peer goes on, and nothing
// leaks.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/support/crowd.h"
#include "agent/support/owned.h"
#include "cmocka_all.h"
#include "support/allocations.h"
#include "support/entries.h"
#include "support/temporary.h"
#include "support/wait.h"

enum { SOON_MS = 10000, ROUNDS_MAX = 20000, WARM_UP = 4, BYTES = 4096 };

static char path[64];
static const char token[] = "a token that both have";
static uint8_t memory[BYTES];

static struct weft_agent_options with_all(const char *name, weft_store_t *store) {
  struct weft_agent_options options = crowd_options(name);
  options.transports = "shm,file";
  options.store = store;
  options.listen = "127.0.0.1:0";
  options.token = token;
  return options;
}

struct guest {
  weft_agent_t *agent, *host;
  const char *call; // that failed
  weft_region_t mapped, own, file, object;
  void *address;
  weft_peer_t peer;
};

// Notes what is called, for the sentence of a failure.
#define TRY(guest, function, ...) ((guest)->call = #function, function(__VA_ARGS__))

static int register_all(struct guest *guest) {
  struct weft_agent_memory own = WEFT_AGENT_MEMORY_INIT, file = WEFT_AGENT_MEMORY_INIT;
  own.address = memory;
  own.length = BYTES;
  file.kind = WEFT_MEMORY_FILE;
  file.path = path;
  int rc = TRY(guest, weft_agent_allocate, guest->agent, WEFT_MEMORY_HOST, BYTES, -1, &guest->mapped, &guest->address);
  if (rc == 0)
    rc = TRY(guest, weft_agent_register, guest->agent, &own, &guest->own);
  if (rc == 0)
    rc = TRY(guest, weft_agent_register, guest->agent, &file, &guest->file);
  return rc;
}

static int get_acquainted(struct guest *guest) {
  uint16_t port = 0;
  char address[32], blob[4096];
  size_t size = sizeof blob;
  int rc = TRY(guest, weft_agent_publish, guest->agent, NULL, NULL, SOON_MS);
  if (rc == 0)
    rc = TRY(guest, weft_agent_fetch, guest->agent, "host", NULL, SOON_MS, &guest->peer);
  if (rc == 0)
    rc = TRY(guest, weft_agent_port, guest->host, &port);
  snprintf(address, sizeof address, "127.0.0.1:%u", port);
  if (rc == 0)
    rc = TRY(guest, weft_agent_meet, guest->agent, address, SOON_MS, &guest->peer);
  if (rc == 0)
    rc = TRY(guest, weft_agent_metadata, guest->host, NULL, blob, size, &size);
  if (rc == 0)
    rc = TRY(guest, weft_agent_load, guest->agent, blob, size, &guest->peer);
  return rc;
}

static int move(struct guest *guest, weft_peer_t peer, const struct weft_descriptor *here,
                const struct weft_descriptor *there, bool notify) {
  weft_dlist_t *local = NULL, *remote = NULL;
  weft_transfer_t *transfer = NULL;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.notification = notify ? "note" : NULL;
  options.notification_size = notify ? 4 : 0;
  int fd;
  int rc = TRY(guest, weft_dlist_create, guest->agent, WEFT_PEER_SELF, here, 1, &local);
  if (rc == 0)
    rc = TRY(guest, weft_dlist_create, guest->agent, peer, there, 1, &remote);
  if (rc == 0)
    rc = TRY(guest, weft_transfer_create, guest->agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer);
  if (rc == 0)
    rc = TRY(guest, weft_transfer_fd, transfer, &fd);
  for (int i = 0; rc == 0 && i < 2; i++) {
    rc = TRY(guest, weft_transfer_post, transfer);
    if (rc == 0)
      rc = TRY(guest, weft_transfer_wait, transfer, SOON_MS);
  }
  weft_transfer_free(transfer); // BUSY, if it has not ended
  weft_dlist_free(local);
  weft_dlist_free(remote);
  return rc;
}

static int move_all(struct guest *guest) {
  struct weft_region_info theirs[4];
  uint32_t count = 4;
  int rc = TRY(guest, weft_agent_regions, guest->agent, guest->peer, theirs, sizeof *theirs, 4, &count);
  if (rc != 0)
    return rc;
  struct weft_descriptor own = {(uintptr_t)memory, BYTES, guest->own}, file = {0, BYTES, guest->file};
  struct weft_descriptor there = {theirs[0].address, BYTES, theirs[0].region};
  if (count == 0) // the host's message of it could not be kept
    return 0;
  rc = move(guest, guest->peer, &own, &there, true);
  if (rc == 0)
    rc = move(guest, WEFT_PEER_SELF, &own, &file, false);
  if (rc == 0)
    rc = TRY(guest, weft_agent_notify, guest->agent, guest->peer, "hello", 5);
  return rc;
}

static int look_around(struct guest *guest) {
  char text[16384];
  size_t size = sizeof text;
  int rc = TRY(guest, weft_agent_metrics, guest->agent, text, size, &size);
  if (rc == 0)
    rc = TRY(guest, weft_agent_deregister, guest->agent, guest->mapped);
  if (rc == 0)
    rc = TRY(guest, weft_agent_invalidate, guest->agent, guest->peer);
  return rc;
}

static int visit(struct guest *guest) {
  int rc = register_all(guest);
  if (rc == 0)
    rc = get_acquainted(guest);
  if (rc == 0)
    rc = move_all(guest);
  if (rc == 0)
    rc = look_around(guest);
  return rc;
}

static void open_host(weft_agent_t **host, weft_store_t *store) {
  struct weft_agent_options options = with_all("host", store);
  weft_region_t region;
  void *address;
  assert_int_equal(weft_agent_open(host, &options), 0);
  assert_int_equal(weft_agent_allocate(*host, WEFT_MEMORY_HOST, BYTES, -1, &region, &address), 0);
  assert_int_equal(weft_agent_publish(*host, NULL, NULL, SOON_MS), 0);
}

// A guest with memory enough finds the host as it was.
static void assert_goes_on(weft_agent_t *host, weft_store_t *store, uint64_t n) {
  struct weft_agent_options options = with_all("second", store);
  struct guest second = {.host = host};
  assert_int_equal(weft_agent_open(&second.agent, &options), 0);
  int rc = visit(&second);
  if (rc != 0)
    fail_msg("after allocation %" PRIu64 ": %s: %s: \"%s\"", n, second.call, weft_err_name(rc), weft_last_error());
  owned_close(second.agent);
}

// One visit, in which the n-th allocation fails. Returns whether it came to so many.
static bool run(uint64_t n, uint32_t *told) {
  weft_store_t *store;
  struct guest guest = {.call = "weft_agent_open"};
  assert_int_equal(weft_store_open_local(&store), 0);
  open_host(&guest.host, store);
  struct weft_agent_options options = with_all("guest", store);
  allocations_fail(n);
  int rc = weft_agent_open(&guest.agent, &options);
  if (rc == 0)
    rc = visit(&guest);
  bool failed = allocations_failed();
  allocations_fail(0);
  if (rc > 0 || (rc != 0 && !weft_last_error()[0]))
    fail_msg("allocation %" PRIu64 ": %s: %d without a word", n, guest.call, rc);
  if (rc == WEFT_ERR_TIMEOUT || (rc != 0 && !failed))
    fail_msg("allocation %" PRIu64 ": %s: %s: \"%s\"", n, guest.call, weft_err_name(rc), weft_last_error());
  if (rc != 0 && rc != WEFT_ERR_NOMEM)
    print_message("allocation %" PRIu64 ": %s: %s: \"%s\"\n", n, guest.call, weft_err_name(rc), weft_last_error());
  *told += rc != 0;
  owned_close(guest.agent);
  assert_goes_on(guest.host, store, n);
  owned_close(guest.host);
  weft_store_close(store);
  return failed;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  uint32_t told = 0;
  for (int i = 0; i < WARM_UP; i++)
    run(0, &told);
  int descriptors = support_descriptors();
  uint64_t n = 1;
  for (int64_t live = allocations_live(); n < ROUNDS_MAX && run(n, &told); n++, live = allocations_live()) {
    int64_t left = allocations_live() - live;
    if (left > 0) { // a library may keep something the first time; what leaks does so each time
      live = allocations_live();
      run(n, &told);
      left = allocations_live() - live;
    }
    if (left > 0)
      fail_msg("allocation %" PRIu64 ": %" PRId64 " allocations are left behind", n, left);
    assert_int_equal(support_descriptors(), descriptors);
  }
  print_message("each of %" PRIu64 " allocations failed once; %u visits were ended by it, the others went on\n", n - 1,
                told);
  assert_true(n > 50 && n < ROUNDS_MAX);
}

// --- what is reported later ---

struct news {
  weft_agent_t *agent;
  weft_peer_t peer;
  uint32_t wanted; // regions
};

// The region is known, or the peer has gone, which the application hears.
static bool came(void *arg) {
  struct news *news = arg;
  uint32_t count = 0;
  int rc = weft_agent_regions(news->agent, news->peer, NULL, sizeof(struct weft_region_info), count, &count);
  return rc != 0 || count == news->wanted;
}

// A region is registered while memory runs out once, here or at the peer. Returns whether it did.
static bool register_without_memory(uint64_t n, bool by_store) {
  weft_store_t *store;
  weft_agent_t *host;
  struct news news = {.wanted = 2};
  struct weft_agent_memory own = WEFT_AGENT_MEMORY_INIT;
  own.address = memory;
  own.length = BYTES;
  weft_region_t region;
  uint16_t port;
  char address[32];
  assert_int_equal(weft_store_open_local(&store), 0);
  open_host(&host, store);
  struct weft_agent_options options = with_all("guest", store);
  assert_int_equal(weft_agent_open(&news.agent, &options), 0);
  assert_int_equal(weft_agent_port(host, &port), 0);
  snprintf(address, sizeof address, "127.0.0.1:%u", port);
  assert_int_equal(by_store ? weft_agent_fetch(news.agent, "host", NULL, SOON_MS, &news.peer)
                            : weft_agent_meet(news.agent, address, SOON_MS, &news.peer),
                   0);
  allocations_fail(n);
  bool registered = weft_agent_register(host, &own, &region) == 0;
  if (registered && !support_wait(came, &news, SUPPORT_DEADLINE_MS))
    fail_msg("allocation %" PRIu64 ", by %s: the peer never learns of a region", n, by_store ? "the store" : "socket");
  bool failed = allocations_failed();
  allocations_fail(0);
  owned_close(news.agent);
  owned_close(host);
  weft_store_close(store);
  return failed;
}

static void no_news_is_lost(void **state) {
  (void)state;
  for (int by_store = 0; by_store < 2; by_store++) {
    uint64_t n = 1;
    while (n < ROUNDS_MAX && register_without_memory(n, by_store))
      n++;
    print_message("each of %" PRIu64 " allocations failed once\n", n - 1);
    assert_true(n > 4 && n < ROUNDS_MAX);
  }
}

int main(void) {
  if (!allocations_counted()) {
    print_message("skipped: a sanitizer has an allocator of its own\n");
    return 77;
  }
  support_temporary(path, sizeof path, "nomem");
  int fd = mkstemp(path);
  if (fd < 0)
    return 1;
  close(fd);
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail), cmocka_unit_test(no_news_is_lost)};
  int failed = cmocka_run_group_tests_name("agent_out_of_memory", tests, NULL, NULL);
  unlink(path);
  return failed;
}
