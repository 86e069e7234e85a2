// Listening at HOST:PORT.
#include "base/net/endpoint.h"

#include "cmocka_all.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/err.h>

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

// A name with two addresses, as "localhost" has.
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out) {
  if (strcmp(host, "two") != 0)
    return __real_getaddrinfo(host, port, hints, out);
  int err = __real_getaddrinfo("::1", port, hints, out);
  return err ? err : __real_getaddrinfo("127.0.0.1", port, hints, &(*out)->ai_next);
}

static void a_port_that_one_address_has_not_is_not_taken_at_another(void **state) {
  (void)state;
  int first, second = -1;
  uint16_t port, other = 0;
  char text[16];
  if (endpoint_listen("[::1]:0", &first, &port) != 0)
    skip(); // a host without IPv6
  snprintf(text, sizeof text, "two:%u", port);
  assert_int_equal(endpoint_listen(text, &second, &other), WEFT_ERR_BUSY);
  close(first);
  assert_int_equal(endpoint_listen(text, &first, &other), 0);
  assert_int_equal(other, port);
  close(first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_addresses_are_those_of_ipv4_too),
      cmocka_unit_test(a_port_that_one_address_has_not_is_not_taken_at_another),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
