// The addresses at which the embedded server listens: a link-local one has its interface behind it.
#include "store/server/server.h"

#include "cmocka_all.h"
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct sockaddr_in6 wanted; // the last address that was to be bound

// Binds ::1 instead, since a host may have no link-local address.
int __real_bind(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t size) {
  assert_int_equal(size, sizeof wanted);
  memcpy(&wanted, address, sizeof wanted);
  struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  return __real_bind(fd, (struct sockaddr *)&loopback, sizeof loopback);
}

static int listen_at(const char *address, int *listener, char url[96]) {
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.address = address;
  return server_listen(&options, listener, url);
}

static void a_link_local_address_names_its_interface(void **state) {
  (void)state;
  int listener, trial = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in6 bound;
  socklen_t size = sizeof bound;
  char url[96], expected[96];
  if (trial < 0)
    skip(); // a host without IPv6
  close(trial);
  assert_int_equal(listen_at("fe80::1%lo", &listener, url), 0);
  assert_int_equal(wanted.sin6_scope_id, if_nametoindex("lo"));
  assert_int_equal(wanted.sin6_addr.s6_addr[0], 0xfe);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&bound, &size), 0);
  snprintf(expected, sizeof expected, "https://[fe80::1%%25lo]:%u", ntohs(bound.sin6_port));
  assert_string_equal(url, expected);
  close(listener);
}

static void other_zones_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *address, *word;
  } cases[] = {
      {"fe80::1", "fe80::1%eth0"},
      {"fe80::1%", "no interface"},
      {"fe80::1%none0", "no interface 'none0'"},
      {"::1%lo", "not a numeric address"},
      {"127.0.0.1%lo", "not a numeric address"},
      {"localhost", "not a numeric address"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int listener = -1;
    char url[96];
    assert_int_equal(listen_at(cases[i].address, &listener, url), WEFT_ERR_INVALID);
    assert_non_null(strstr(weft_last_error(), cases[i].word));
    assert_int_equal(listener, -1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_link_local_address_names_its_interface),
      cmocka_unit_test(other_zones_are_refused),
  };
  return cmocka_run_group_tests_name("store_listen", tests, NULL, NULL);
}
