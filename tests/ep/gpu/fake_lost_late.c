// Links that end while other threads use them, on a plug-in without a GPU: the link of a rank that kernels report
// missing after it was released, and the link of a rank that joins again.
#include "ep/gpu/support/fake_ranks.h"

#include <poll.h>

#include "ep/link/link.h"

static struct ep_link *_Atomic watched; // its end takes as long as the test wants
static _Atomic bool ending, may_end, touched, taken_down, unheld;

void __real_ep_gpu_link_free(weft_ep_t *ep, struct ep_link *link);
void __wrap_ep_gpu_link_free(weft_ep_t *ep, struct ep_link *link);
void __real_ep_link_down(weft_ep_t *ep, struct ep_link *link, enum ep_link_state state, const char *why);
void __wrap_ep_link_down(weft_ep_t *ep, struct ep_link *link, enum ep_link_state state, const char *why);
void __real_ep_gpu_link_down(weft_ep_t *ep, struct ep_link *link);
void __wrap_ep_gpu_link_down(weft_ep_t *ep, struct ep_link *link);

void __wrap_ep_gpu_link_free(weft_ep_t *ep, struct ep_link *link) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  ending = ending || link == watched;
  while (link == watched && !may_end && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  __real_ep_gpu_link_free(ep, link);
}

void __wrap_ep_link_down(weft_ep_t *ep, struct ep_link *link, enum ep_link_state state, const char *why) {
  touched = touched || (link == watched && ending);
  __real_ep_link_down(ep, link, state, why);
}

void __wrap_ep_gpu_link_down(weft_ep_t *ep, struct ep_link *link) {
  if (link == watched) {
    pthread_mutex_lock(&ep->links.lock);
    unheld = unheld || link->holds == 0;
    pthread_mutex_unlock(&ep->links.lock);
    taken_down = true;
  }
  __real_ep_gpu_link_down(ep, link);
}

// The kernels' word, and a look of the watcher at it.
static void miss(weft_ep_t *ep, uint32_t seat) {
  struct ep_gpu *gpu = ep->gpu;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  __atomic_store_n((uint8_t *)(uintptr_t)&gpu->report->lost[seat], 1, __ATOMIC_RELEASE);
  for (bool seen = false; !seen; poll(NULL, 0, 1)) {
    assert_false(clock_passed(deadline_ns));
    pthread_mutex_lock(&gpu->lock);
    seen = gpu->lost_seen >> seat & 1;
    pthread_mutex_unlock(&gpu->lock);
  }
}

static void a_link_that_ends_is_touched_by_nobody(void **state) {
  (void)state;
  const int32_t leaver = 2;
  weft_ep_t *eps[3];
  fake_found(eps, 3);
  watched = ep_link_find(eps[0], leaver, 0);
  assert_non_null(watched);
  uint32_t seat = watched->device.seat;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  assert_ok(weft_ep_disconnect(eps[0], &leaver, 1, DEADLINE_MS));
  while (!ending && !clock_passed(deadline_ns))
    fake_operate(eps, weft_ep_is_active(eps[2]) ? 3 : 2, NULL);
  assert_true(ending);
  miss(eps[0], seat);
  miss(eps[0], DEVICE_SEATS - 1); // nobody's: when the watcher has come to this, it is done with the other
  assert_false(touched);
  may_end = true;
  for (int i = 0; i < 3; i++)
    weft_ep_close(eps[i]);
}

// The caller installs the link to a new incarnation, while the watcher may sweep the old one.
static void a_superseded_link_stays_while_it_is_taken_down(void **state) {
  (void)state;
  const int32_t one = 1;
  weft_ep_t *eps[2];
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  fake_found(eps, 2);
  weft_ep_close(eps[1]);
  eps[1] = fake_open(fake_options(one, NULL, 0));
  struct ep_link *old = atomic_load(&eps[0]->links.by_rank[one]); // which stays, as its view does
  assert_non_null(old);
  while (ep_link_up(old) && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  atomic_store(&old->state, EP_LINK_UP); // as if its hang-up were still to come
  atomic_fetch_add(&eps[0]->links.connected, 1);
  may_end = true;
  taken_down = unheld = false;
  watched = old;
  assert_ok(weft_ep_connect(eps[0], &one, 1, DEADLINE_MS));
  assert_ptr_not_equal(atomic_load(&eps[0]->links.by_rank[one]), old);
  assert_true(taken_down);
  assert_false(unheld);
  for (int i = 0; i < 2; i++)
    weft_ep_close(eps[i]);
}

static struct ep_path_ops slow_path;
static weft_ep_t *flusher;
static _Atomic int flushes, flushed_locked, flushed_unheld;

// What a link has still to send may take half a second, in which others want the lock.
static void flush_slowly(struct ep_link *link) {
  uint64_t deadline_ns = clock_deadline_ms(2000);
  bool locked;
  flushes++;
  while (!(locked = pthread_mutex_trylock(&flusher->gpu->lock) == 0) && !clock_passed(deadline_ns))
    poll(NULL, 0, 1); // another thread has it for a moment
  flushed_locked += !locked;
  if (locked)
    pthread_mutex_unlock(&flusher->gpu->lock);
  pthread_mutex_lock(&flusher->links.lock);
  flushed_unheld += link->holds == 0;
  pthread_mutex_unlock(&flusher->links.lock);
}

// The watcher lets go of a rank that has left the view, and the caller of one that is in none.
static void links_flush_while_others_go_on(void **state) {
  (void)state;
  const int32_t leaver = 1, apart = 2;
  weft_ep_t *eps[3];
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  may_end = true;
  watched = NULL;
  fake_found(eps, 2);
  eps[2] = fake_open(fake_options(apart, NULL, 0));
  flusher = eps[0];
  assert_ok(weft_ep_connect(eps[0], &apart, 1, DEADLINE_MS));
  for (int32_t rank = leaver; rank <= apart; rank++) {
    struct ep_link *link = ep_link_find(eps[0], rank, 0);
    assert_non_null(link);
    slow_path = *link->path;
    slow_path.flush = flush_slowly;
    link->path = &slow_path;
  }
  assert_ok(weft_ep_disconnect(eps[0], &apart, 1, DEADLINE_MS));
  assert_true(flushes > 0);
  assert_null(atomic_load(&eps[0]->links.by_rank[apart]));
  flushes = 0;
  assert_ok(weft_ep_disconnect(eps[0], &leaver, 1, DEADLINE_MS));
  while (atomic_load(&eps[0]->links.by_rank[leaver]) && !clock_passed(deadline_ns))
    fake_operate(eps, weft_ep_is_active(eps[1]) ? 2 : 1, NULL);
  assert_null(atomic_load(&eps[0]->links.by_rank[leaver]));
  assert_true(flushes > 0);
  assert_int_equal(flushed_unheld, 0);
  assert_int_equal(flushed_locked, 0);
  for (int i = 0; i < 3; i++)
    weft_ep_close(eps[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_link_that_ends_is_touched_by_nobody, fake_open_store, fake_close_store),
      cmocka_unit_test_setup_teardown(a_superseded_link_stays_while_it_is_taken_down, fake_open_store,
                                      fake_close_store),
      cmocka_unit_test_setup_teardown(links_flush_while_others_go_on, fake_open_store, fake_close_store),
  };
  return cmocka_run_group_tests_name("ep_fake_lost_late", tests, NULL, NULL);
}
