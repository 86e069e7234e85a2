// A peer that itself waits for a third rank gets more time. Whether it waits is looked at once: a heartbeat that
// expires between two looks would make a rank lose peers that it did not count as silent.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "cmocka_all.h"

#include "ep/core/engine.h"
#include "ep/support/rank.h"

enum { DEADLINE_MS = 60000, OP_TIMEOUT_MS = 1000 };

static const struct weft_ep *_Atomic patient; // whose looks are answered here
static sem_t looked;
static uint32_t extensions; // of the last look

bool __real_ep_link_waits(const weft_ep_t *ep, const struct ep_link *link);
bool __wrap_ep_link_waits(const weft_ep_t *ep, const struct ep_link *link);
// The heartbeat has expired when it is looked at again before the next deadline.
bool __wrap_ep_link_waits(const weft_ep_t *ep, const struct ep_link *link) {
  if (ep != patient)
    return __real_ep_link_waits(ep, link);
  bool first = extensions != ep->interrupt.extensions;
  extensions = ep->interrupt.extensions;
  if (first)
    sem_post(&looked);
  return first;
}

static weft_ep_t *open_rank(weft_store_t *store, int32_t rank) {
  static const int32_t founders[] = {0, 1};
  weft_ep_t *ep = NULL;
  struct weft_ep_options options = WEFT_EP_OPTIONS_INIT;
  options.store = store;
  options.rank = rank;
  options.founders = founders;
  options.num_founders = 2;
  options.capacity = 2;
  options.hidden = 128;
  options.max_tokens = 4;
  options.topk = 2;
  options.op_timeout_ms = OP_TIMEOUT_MS;
  assert_int_equal(weft_ep_open(&ep, &options, DEADLINE_MS), 0);
  return ep;
}

static void *come_late(void *arg) {
  weft_ep_t *ep = arg;
  bool active = weft_ep_activate(ep, DEADLINE_MS) == 0 && weft_ep_barrier(ep) == 0;
  while (active && sem_wait(&looked) != 0)
    continue; // a signal
  return active && weft_ep_barrier(ep) == 0 ? ep : NULL;
}

static void one_look_decides(void **state) {
  (void)state;
  weft_store_t *store;
  pthread_t thread;
  void *came;
  assert_int_equal(weft_store_open_local(&store), 0);
  assert_int_equal(sem_init(&looked, 0, 0), 0);
  weft_ep_t *ep = open_rank(store, 0), *late = open_rank(store, 1);
  assert_int_equal(pthread_create(&thread, NULL, come_late, late), 0);
  assert_int_equal(weft_ep_activate(ep, DEADLINE_MS), 0);
  assert_int_equal(weft_ep_barrier(ep), 0);
  patient = ep;
  int rc = weft_ep_barrier(ep);
  pthread_join(thread, &came);
  patient = NULL;
  assert_int_equal(rc, 0);
  assert_ptr_equal(came, late);
  weft_ep_close(late);
  weft_ep_close(ep);
  weft_store_close(store);
  sem_destroy(&looked);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_look_decides)};
  return cmocka_run_group_tests_name("ep_extension", tests, NULL, NULL);
}
