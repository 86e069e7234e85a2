// Many threads use one agent at once: they post, wait, cancel, notify, register, make and free, while the peer is
// forgotten and loaded again. The argument names the transport, as in transfers.c. Sanitizers find the races; this test
// finds transfers that are lost or end twice.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "support/loop.h"
#include "support/sanitized.h"
#include "support/wait.h"

enum { THREADS = 4, ROUNDS = SUPPORT_SANITIZED ? 300 : 2000, LIVES = 5, SLICE = 4096 };

static const char *names = "";
static const struct transport *more[2];
static struct pair pair;
static _Atomic weft_peer_t current;
static _Atomic uint32_t wrong, done_well, ended_early;
static _Atomic bool stop;

// A thread has no cmocka: it counts.
static void check(bool right, const char *what, int rc) {
  if (right)
    return;
  if (wrong++ < 5)
    print_error("%s: %d %s\n", what, rc, weft_last_error());
}

static void use(weft_transfer_t *transfer, uint64_t *seed) {
  int rc = weft_transfer_post(transfer);
  if (rc == WEFT_ERR_PEER_LOST || rc == WEFT_ERR_BUSY) { // no credit
    ended_early++;
    return;
  }
  check(rc == 0, "post", rc);
  if (random_next(seed) % 8 == 0)
    check(weft_transfer_cancel(transfer, SUPPORT_DEADLINE_MS) == 0, "cancel", 0);
  rc = weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS);
  check(rc == 0 || rc == WEFT_ERR_CANCELED || rc == WEFT_ERR_PEER_LOST, "wait", rc);
  rc == 0 ? done_well++ : ended_early++;
}

static weft_transfer_t *make(uint32_t slice, weft_peer_t peer, bool note) {
  struct weft_descriptor here = {(uintptr_t)pair.a.memory + slice * SLICE, SLICE, 0};
  struct weft_descriptor there = {(uintptr_t)pair.b.memory + slice * SLICE, SLICE, 0};
  weft_dlist_t *local = NULL, *remote = NULL;
  weft_transfer_t *transfer = NULL;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  if (note) {
    options.notification = &slice;
    options.notification_size = sizeof slice;
  }
  int rc = weft_dlist_create(pair.a.agent, WEFT_PEER_SELF, &here, 1, &local);
  if (rc == 0)
    rc = weft_dlist_create(pair.a.agent, peer, &there, 1, &remote);
  if (rc == 0)
    rc = weft_transfer_create(pair.a.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer);
  if (rc != 0) {
    check(rc == WEFT_ERR_PEER_LOST, "create", rc);
    weft_dlist_free(local);
    weft_dlist_free(remote);
  }
  return transfer;
}

static void discard(weft_transfer_t *transfer) {
  weft_dlist_t *local = transfer->local, *remote = transfer->remote;
  int rc = weft_transfer_free(transfer);
  check(rc == 0, "free", rc);
  check(weft_dlist_free(local) == 0 && weft_dlist_free(remote) == 0, "free of a list", 0);
}

static void *work(void *arg) {
  uint32_t slice = (uint32_t)(uintptr_t)arg;
  uint64_t seed = slice;
  for (uint32_t round = 0; round < ROUNDS;) {
    weft_transfer_t *transfer = make(slice, atomic_load(&current), slice % 2);
    for (uint32_t i = 0; i < 20 && transfer; i++, round++)
      use(transfer, &seed);
    round++;
    if (transfer)
      discard(transfer);
    struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
    memory.address = pair.a.memory + slice * SLICE;
    memory.length = SLICE;
    weft_region_t region;
    int rc = weft_agent_register(pair.a.agent, &memory, &region);
    check(rc == 0, "register", rc);
    rc = weft_agent_deregister(pair.a.agent, region);
    check(rc == 0 || rc == WEFT_ERR_BUSY, "deregister", rc);
    rc = weft_agent_notify(pair.a.agent, atomic_load(&current), &slice, sizeof slice);
    check(rc == 0 || rc == WEFT_ERR_BUSY || rc == WEFT_ERR_PEER_LOST, "notify", rc);
  }
  return NULL;
}

static void *listen_to(void *arg) {
  (void)arg;
  struct weft_notification got[16];
  while (!atomic_load(&stop)) {
    uint32_t count = 16;
    weft_agent_notifications(pair.b.agent, got, count, &count);
    for (uint32_t i = 0; i < count; i++)
      check(got[i].size == sizeof(uint32_t), "size of a notification", (int)got[i].size);
    if (count == 0)
      sched_yield();
  }
  return NULL;
}

static void all_at_once(void **state) {
  (void)state;
  pair_open(&pair, names, more[0] ? more : NULL, NULL);
  current = pair.a.peer;
  pthread_t threads[THREADS], listener;
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
  assert_int_equal(pthread_create(&listener, NULL, listen_to, NULL), 0);
  for (uint32_t life = 0; life < LIVES; life++) {
    uint32_t until = done_well + ROUNDS / 4;
    uint64_t deadline = clock_deadline_ms(2000);
    while (done_well < until && !clock_passed(deadline))
      sched_yield();
    assert_int_equal(weft_agent_invalidate(pair.a.agent, atomic_load(&current)), 0);
    weft_peer_t again;
    assert_int_equal(pair_load_metadata(pair.b.agent, pair.a.agent, &again), 0);
    atomic_store(&current, again);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  atomic_store(&stop, true);
  pthread_join(listener, NULL);
  assert_int_equal(wrong, 0);
  assert_int_equal(atomic_load(&pair.a.agent->in_flight), 0);
  assert_true(done_well > 0);
  print_message("%u ended well, %u early\n", (unsigned)done_well, (unsigned)ended_early);
  pair_close(&pair);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "loop";
  if (strcmp(name, "loop") == 0)
    more[0] = &transport_loop;
  else if (strcmp(name, "free") == 0)
    more[0] = &transport_loop_free;
  else
    names = name;
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_at_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
