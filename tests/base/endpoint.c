// Listening at HOST:PORT.
#include "base/net/endpoint.h"

#include "cmocka_all.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

// As where net.ipv6.bindv6only is 1.
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol) {
  int fd = __real_socket(domain, type, protocol), on = 1;
  if (fd >= 0 && domain == AF_INET6)
    assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), 0);
  return fd;
}

static void all_addresses_are_those_of_ipv4_too(void **state) {
  (void)state;
  int listener, caller = __real_socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  uint16_t port;
  if (caller < 0)
    skip(); // a host without IPv6
  close(caller);
  assert_int_equal(endpoint_listen("[::]:0", &listener, &port), 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  caller = __real_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(caller >= 0);
  assert_int_equal(connect(caller, (struct sockaddr *)&to, sizeof to), 0);
  close(caller);
  close(listener);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_addresses_are_those_of_ipv4_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
