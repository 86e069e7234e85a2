// A client whose connection leads back to its own socket: the kernel gave it, as its own port, the one that it connects
// to, since no server listened there.
#include "cmocka_all.h"
#include "support/wait.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/store.h>

static uint16_t port;

// Chooses that port.
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol) {
  int fd = __real_socket(domain, type, protocol), on = 1;
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (fd >= 0 && domain == AF_INET && port) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
  }
  return fd;
}

static void ignore(void *arg, const struct weft_store_event *event) {
  (void)arg, (void)event;
}

static void it_reaches_no_server(void **state) {
  (void)state;
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  struct weft_store_list *list;
  weft_store_watch_t *watch;
  weft_store_t *store;
  char url[64];
  uint16_t free_port = support_free_port();
  snprintf(url, sizeof url, "http://127.0.0.1:%u", free_port);
  options.endpoints = url;
  assert_int_equal(weft_store_open(&store, &options), 0);
  port = free_port;
  assert_int_equal(weft_store_range(store, "a", false, 0, &list), WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(weft_last_error(), "came back to this client"));
  assert_int_equal(weft_store_put(store, "a", "x", 1, 0, NULL), WEFT_ERR_UNREACHABLE);
  assert_null(strstr(weft_last_error(), "may or may not")); // it was not sent
  assert_int_equal(weft_store_watch_open(store, "", 0, ignore, NULL, &watch), WEFT_ERR_UNREACHABLE);
  weft_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_reaches_no_server)};
  return cmocka_run_group_tests_name("store_itself", tests, NULL, NULL);
}
