// A transport that is opened when the agent already has regions, peers and transfers: from when on each of them can use
// it, what does not change, and that transfers in flight are not disturbed.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"
#include "support/loop.h"
#include "support/temporary.h"
#include "support/wait.h"

enum { LENGTH = 4096 };

static const struct transport *more[2] = {&transport_loop, NULL};
static struct pair pair;

static int set_up(void **state) {
  (void)state;
  loop_reset();
  pair_open(&pair, "", more, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pair_close(&pair);
  return 0;
}

static void add(weft_agent_t *agent, const char *name) {
  if (weft_agent_add_transport(agent, name) != 0)
    fail_msg("%s is not added: %s", name, weft_last_error());
}

static void moves(weft_transfer_t *transfer, uint64_t here, uint64_t there) {
  memset(pair.a.memory + here, (int)(1 + here / LENGTH), LENGTH);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  assert_memory_equal(pair.b.memory + there, pair.a.memory + here, LENGTH);
}

// How a transfer from a to b by shm fails, or the transfer.
static int create_by_shm(weft_transfer_t **transfer) {
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  weft_dlist_t *local = pair_list(&pair.a, &pair.a, 0, LENGTH), *remote = pair_list(&pair.a, &pair.b, LENGTH, LENGTH);
  options.transport = "shm";
  int rc = weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, transfer);
  if (rc != 0) {
    assert_int_equal(weft_dlist_free(local), 0);
    assert_int_equal(weft_dlist_free(remote), 0);
  }
  return rc;
}

static const char *transports_of(weft_agent_t *agent, weft_peer_t peer) {
  static struct weft_peer_info info;
  info = (struct weft_peer_info)WEFT_PEER_INFO_INIT;
  assert_int_equal(weft_agent_peer(agent, peer, &info), 0);
  return info.transports;
}

static void test_peers_use_it_once_they_know(void **state) {
  (void)state;
  weft_transfer_t *before = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 2 * LENGTH, 3 * LENGTH, LENGTH, NULL), *after;
  assert_int_equal(create_by_shm(&after), WEFT_ERR_UNSUPPORTED);
  add(pair.a.agent, "shm");
  assert_int_equal(create_by_shm(&after), WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(weft_last_error(), "load it again"));
  assert_null(strstr(transports_of(pair.a.agent, pair.a.peer), "shm"));
  add(pair.b.agent, "shm");
  weft_peer_t known = pair.a.peer;
  pair_acquaint(&pair);
  assert_true(pair.a.peer == known);
  assert_non_null(strstr(transports_of(pair.a.agent, pair.a.peer), "shm"));
  assert_int_equal(create_by_shm(&after), 0);
  assert_non_null(strstr(weft_transfer_explain(after), "shm is chosen"));
  moves(after, 0, LENGTH);
  assert_non_null(strstr(weft_transfer_explain(before), "loop is chosen"));
  moves(before, 2 * LENGTH, 3 * LENGTH);
  pair_free(after);
  pair_free(before);
}

// Of the agent's own: files where there was no transport for them.
static void test_new_kinds_of_memory(void **state) {
  (void)state;
  char path[96];
  support_temporary(path, sizeof path, "weft-later");
  int fd = mkstemp(path);
  assert_true(fd >= 0 && ftruncate(fd, LENGTH) == 0);
  assert_int_equal(unlink(path), 0);
  struct weft_agent_memory file = WEFT_AGENT_MEMORY_INIT;
  weft_region_t region;
  file.kind = WEFT_MEMORY_FILE;
  file.flags = WEFT_MEMORY_FD | WEFT_MEMORY_READ_ONLY;
  file.fd = fd;
  assert_int_equal(weft_agent_register(pair.a.agent, &file, &region), WEFT_ERR_UNSUPPORTED);
  add(pair.a.agent, "file");
  assert_int_equal(weft_agent_register(pair.a.agent, &file, &region), 0);
  struct weft_descriptor from = {0, LENGTH, region};
  weft_dlist_t *zeros, *memory = pair_list(&pair.a, &pair.a, 0, LENGTH);
  weft_transfer_t *transfer;
  assert_int_equal(weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, &from, 1, &zeros), 0);
  assert_int_equal(weft_transfer_create(pair.a.agent, WEFT_TRANSFER_READ, memory, zeros, NULL, &transfer), 0);
  memset(pair.a.memory, 1, LENGTH);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  for (uint32_t i = 0; i < LENGTH; i++)
    assert_int_equal(pair.a.memory[i], 0);
  pair_free(transfer);
  assert_int_equal(weft_agent_deregister(pair.a.agent, region), 0);
  close(fd);
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int err;
    const char *says;
  } cases[] = {
      {NULL, WEFT_ERR_INVALID, "it is NULL"},         {"", WEFT_ERR_INVALID, "one name"},
      {"shm,file", WEFT_ERR_INVALID, "\"shm,file\""}, {"smoke", WEFT_ERR_NOT_FOUND, "smoke"},
      {"loop", WEFT_ERR_EXISTS, "loop already"},      {"cuda", WEFT_ERR_UNSUPPORTED, "\"cuda\" was asked for"},
  };
  for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(weft_agent_add_transport(pair.a.agent, cases[i].name), cases[i].err);
    assert_non_null(strstr(weft_last_error(), cases[i].says));
  }
  assert_int_equal(weft_agent_add_transport(NULL, "shm"), WEFT_ERR_INVALID);
  char name[32];
  int err = 0;
  for (int i = 1; err == 0 && i < 10; i++) {
    snprintf(name, sizeof name, "fault:%d:none:shm", i);
    err = weft_agent_add_transport(pair.a.agent, name);
  }
  assert_int_equal(err, WEFT_ERR_LIMIT);
  assert_non_null(strstr(weft_last_error(), "at most"));
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, LENGTH, LENGTH, NULL);
  moves(transfer, 0, LENGTH);
  pair_free(transfer);
}

static void *keep_posting(void *arg) {
  _Atomic bool *stop = arg;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 2 * LENGTH, 3 * LENGTH, LENGTH, NULL);
  int rc = 0;
  while (rc == 0 && !*stop) {
    rc = weft_transfer_post(transfer);
    if (rc == 0)
      rc = weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS);
  }
  pair_free(transfer);
  return (void *)(intptr_t)rc;
}

static void test_beside_transfers(void **state) {
  (void)state;
  static const char *const names[] = {"shm", "file", "object"};
  pthread_t poster;
  _Atomic bool stop = false;
  void *rc;
  assert_int_equal(pthread_create(&poster, NULL, keep_posting, &stop), 0);
  for (uint32_t i = 0; i < 3; i++) {
    int err = weft_agent_add_transport(pair.a.agent, names[i]);
    assert_true(err == 0 || err == WEFT_ERR_UNSUPPORTED); // which of them a build has
    pair_acquaint(&pair);
  }
  stop = true;
  pthread_join(poster, &rc);
  assert_null(rc);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_peers_use_it_once_they_know, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_new_kinds_of_memory, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_beside_transfers, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
