// The client of an etcd with users leaves no copy of the password in memory that it frees. (What curl copies to send it
// is curl's own.)
#include "store/support/scripted.h"

#include "cmocka_all.h"
#include <jansson.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>
#include <weft/store.h>

#define PASSWORD   "a-password-that-nobody-else-has"
#define HTTP(body) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" body

static atomic_uint found, looked;

static void look(const void *block) {
  atomic_fetch_add(&looked, 1);
  if (memmem(block, malloc_usable_size((void *)(uintptr_t)block), PASSWORD, strlen(PASSWORD)))
    atomic_fetch_add(&found, 1);
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block) {
  if (block)
    look(block);
  __real_free(block);
}

static weft_store_t *open_on(const struct scripted *server) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store;
  options.endpoints = server->url;
  options.user = "user";
  options.password = PASSWORD;
  options.request_timeout_ms = 30000;
  assert_int_equal(weft_store_open(&store, &options), 0);
  return store;
}

static void ignore(void *arg, const struct weft_store_event *event) {
  (void)arg, (void)event;
}

static void by_a_call(struct scripted *server) {
  struct weft_store_list *list;
  weft_store_t *store = open_on(server);
  assert_int_equal(weft_store_range(store, "a", false, 0, &list), 0);
  weft_store_list_free(list);
  weft_store_close(store);
}

static void by_a_watch(struct scripted *server) {
  weft_store_watch_t *watch;
  weft_store_t *store = open_on(server);
  assert_int_equal(weft_store_watch_open(store, "a", 0, ignore, NULL, &watch), WEFT_ERR_UNREACHABLE); // it ends at once
  weft_store_close(store);
}

static void run(void (*what)(struct scripted *server)) {
  static const struct scripted_answer answers[] = {{.text = HTTP("{\"token\":\"t\"}")},
                                                   {.text = HTTP("{\"header\":{\"revision\":\"5\"}}")}};
  static struct scripted server;
  scripted_start(&server, answers, 2);
  found = looked = 0;
  what(&server);
  assert_true(scripted_was_asked(&server, 0, PASSWORD));
  scripted_stop(&server);
  assert_true(looked > 0);
  assert_int_equal(found, 0);
}

static void a_call_leaves_no_copy(void **state) {
  (void)state;
  run(by_a_call);
}

static void a_watch_leaves_no_copy(void **state) {
  (void)state;
  run(by_a_watch);
}

int main(void) {
  json_set_alloc_funcs(malloc, __wrap_free);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_leaves_no_copy),
      cmocka_unit_test(a_watch_leaves_no_copy),
  };
  return cmocka_run_group_tests_name("store_wiped", tests, NULL, NULL);
}
