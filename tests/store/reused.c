// A thread that closes a watch waits for the watch's function, and not for that of a later watch at the same address.
#include "store/client/watch.h"

#include "cmocka_all.h"
#include "support/wait.h"
#include <stdlib.h>
#include <string.h>
#include <weft/store.h>

static weft_store_t *store;
static weft_store_server_t *server;
static _Atomic(void *) first_watch;
static _Atomic(void *) spare; // its memory: kept when it is freed, for the next watch
static atomic_bool first_runs, first_may_end, second_runs, second_may_end, stays, waits, is_closed;

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block) {
  if (block && block == atomic_load(&first_watch) && !atomic_load(&spare))
    spare = block;
  else
    __real_free(block);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
  if (!spare || count * size != sizeof(struct client_watch))
    return __real_calloc(count, size);
  void *block = atomic_exchange(&spare, NULL);
  atomic_store(&first_watch, NULL);
  memset(block, 0, count * size);
  return block;
}

static bool is_set(void *arg) {
  return atomic_load((atomic_bool *)arg);
}

static bool await(atomic_bool *flag) {
  return support_wait(is_set, flag, SUPPORT_DEADLINE_MS);
}

// A thread that was woken may run much later, on a busy machine.
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock) {
  atomic_store(&waits, true);
  int rc = __real_pthread_cond_wait(cond, lock);
  if (atomic_load(&stays)) {
    pthread_mutex_unlock(lock);
    await(&second_runs);
    pthread_mutex_lock(lock);
    atomic_store(&stays, false);
  }
  return rc;
}

static void take_first(void *arg, const struct weft_store_event *event) {
  (void)arg;
  if (event->kind != WEFT_STORE_EVENT_PUT)
    return;
  atomic_store(&first_runs, true);
  await(&first_may_end);
}

static void ignore(void *arg, const struct weft_store_event *event) {
  (void)arg, (void)event;
}

static bool is_freed(void *arg) {
  (void)arg;
  return atomic_load(&spare) != NULL;
}

static void take_second(void *arg, const struct weft_store_event *event) {
  (void)arg;
  if (event->kind != WEFT_STORE_EVENT_PUT)
    return;
  atomic_store(&second_runs, true);
  await(&second_may_end);
}

static void *close_it(void *watch) {
  weft_store_watch_close(watch);
  atomic_store(&is_closed, true);
  return NULL;
}

static void open_store(void) {
  struct weft_store_server_options serving = WEFT_STORE_SERVER_OPTIONS_INIT;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  serving.flags = WEFT_STORE_SERVER_INSECURE;
  assert_int_equal(weft_store_server_start(&server, &serving), 0);
  options.endpoints = weft_store_server_url(server);
  assert_int_equal(weft_store_open(&store, &options), 0);
}

static void a_closing_thread_waits_for_its_own_watch(void **state) {
  (void)state;
  weft_store_watch_t *first, *second, *third;
  pthread_t closer;
  open_store();
  assert_int_equal(weft_store_watch_open(store, "c", 0, ignore, NULL, &third), 0);
  assert_int_equal(weft_store_watch_open(store, "a", 0, take_first, NULL, &first), 0);
  atomic_store(&first_watch, (void *)first);
  assert_int_equal(weft_store_put(store, "a", "x", 1, 0, NULL), 0);
  assert_true(await(&first_runs));
  atomic_store(&stays, true);
  assert_int_equal(pthread_create(&closer, NULL, close_it, first), 0);
  assert_true(await(&waits));
  atomic_store(&first_may_end, true);
  assert_int_equal(weft_store_put(store, "c", "x", 1, 0, NULL), 0); // wakes the thread of the watches
  support_wait(is_freed, NULL, 500);                                // it must not be yet
  assert_int_equal(weft_store_watch_open(store, "b", 0, take_second, NULL, &second), 0);
  assert_int_equal(weft_store_put(store, "b", "x", 1, 0, NULL), 0);
  assert_true(await(&second_runs));
  bool closed = support_wait(is_set, &is_closed, 5000); // while the second one's function runs
  atomic_store(&second_may_end, true);
  weft_store_watch_close(second);
  weft_store_watch_close(third);
  pthread_join(closer, NULL);
  weft_store_close(store);
  weft_store_server_stop(server);
  free(spare);
  assert_true(closed);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_closing_thread_waits_for_its_own_watch)};
  return cmocka_run_group_tests_name("store_reused", tests, NULL, NULL);
}
