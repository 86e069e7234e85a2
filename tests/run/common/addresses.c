// Hosts by their names and addresses: the lead's store, and the address that other hosts get.
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"
#include "run/common/lead_address.h"
#include "run/common/own_address.h"

enum { SKIPPED = 77 };

static void hosts_are_compared_by_address(void **state) {
  (void)state;
  assert_true(run_lead_has_store("10.0.0.1", "http://10.0.0.1:2379"));
  assert_true(run_lead_has_store("10.0.0.1:9999", "http://10.0.0.2:2379,http://10.0.0.1:2379/"));
  assert_true(run_lead_has_store("localhost", "http://127.0.0.1:2379"));
  assert_true(run_lead_has_store("127.0.0.1:9999", "http://localhost:2379"));
  assert_true(run_lead_has_store("[::1]:9999", "http://[0:0:0:0:0:0:0:1]:2379"));
  assert_true(run_lead_has_store("127.0.0.2", "127.0.0.1:2379")); // both are this host
  assert_false(run_lead_has_store("10.0.0.1", "http://10.0.0.10:2379"));
  assert_false(run_lead_has_store("192.0.2.1", "http://127.0.0.1:2379"));
}

static void a_lead_is_found_by_whatever_address_it_has(void **state) {
  (void)state;
  static const char *const leads[][2] = {
      {"node7", "https://node7:9999"},         {"node7:80", "https://node7:80"},
      {"10.0.0.1", "https://10.0.0.1:9999"},   {"fd00::7", "https://[fd00::7]:9999"},
      {"::1", "https://[::1]:9999"},           {"[fd00::7]", "https://[fd00::7]:9999"},
      {"[fd00::7]:80", "https://[fd00::7]:80"}};
  for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
    char *url = run_lead_url(leads[i][0], 9999);
    assert_string_equal(url, leads[i][1]);
    free(url);
  }
}

static int listen_at(uint32_t host, uint16_t *port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(host)}};
  socklen_t size = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_return_code(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  assert_return_code(listen(fd, 1), 0);
  assert_return_code(getsockname(fd, (struct sockaddr *)&at, &size), 0);
  *port = ntohs(at.sin_port);
  return fd;
}

static void a_url_is_open_while_something_listens(void **state) {
  (void)state;
  uint16_t port;
  char url[64];
  int fd = listen_at(INADDR_LOOPBACK, &port);
  snprintf(url, sizeof url, "https://localhost:%u", port);
  assert_true(run_url_is_open(url));
  close(fd);
  assert_false(run_url_is_open(url));
}

// A store that listens on all addresses is told with one of this host's, each of several endpoints by itself.
static void others_receive_an_address_that_they_reach(void **state) {
  (void)state;
  uint16_t port;
  char own[64], urls[128], told[128];
  bool has_address = run_host_address(own, sizeof own);
  static const char *const hosts[] = {"127.0.0.1", "localhost", "0.0.0.0", "[::]"};
  for (int i = 0; i < 4; i++) {
    int fd = listen_at(INADDR_ANY, &port); // which nobody accepts at, so each calls at one of its own
    snprintf(urls, sizeof urls, "http://%s:%u,http://192.0.2.7:2379", hosts[i], port);
    snprintf(told, sizeof told, "http://%s:%u,http://192.0.2.7:2379", own, port);
    char *found = run_url_for_others(urls);
    assert_string_equal(found, has_address ? told : urls);
    free(found);
    close(fd);
  }
}

static void a_store_that_only_this_host_reaches_is_announced_as_it_is(void **state) {
  (void)state;
  uint16_t port;
  char url[64];
  int fd = listen_at(INADDR_LOOPBACK, &port);
  snprintf(url, sizeof url, "http://localhost:%u", port);
  char *found = run_url_for_others(url);
  assert_string_equal(found, url);
  free(found);
  close(fd);
}

static void need(bool holds) {
  if (!holds)
    _exit(1);
}

// In a network of its own, whose interface has an address of IPv6 alone.
static void be_a_host_of_ipv6_alone(void) {
  struct sockaddr_in6 at = {.sin6_family = AF_INET6};
  socklen_t size = sizeof at;
  char own[64], url[64], told[64];
  if (unshare(CLONE_NEWNET) != 0 || system("exec 2> /dev/null; ip link set lo up && ip link add weft0 type veth peer "
                                           "name weft1 && ip address add fd00::7/64 dev weft0 nodad && "
                                           "ip link set weft0 up && ip link set weft1 up") != 0)
    _exit(SKIPPED);
  need(run_host_address(own, sizeof own) && strcmp(own, "fd00::7") == 0 && strcmp(run_any_address(), "::") == 0);
  int fd = socket(AF_INET6, SOCK_STREAM, 0);
  need(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0 &&
       getsockname(fd, (struct sockaddr *)&at, &size) == 0);
  snprintf(url, sizeof url, "http://[::]:%u", ntohs(at.sin6_port));
  snprintf(told, sizeof told, "http://[fd00::7]:%u", ntohs(at.sin6_port));
  char *found = run_url_for_others(url);
  need(found && strcmp(found, told) == 0);
  free(found);
  close(fd);
  _exit(0);
}

static void a_host_of_ipv6_alone_has_an_address(void **state) {
  (void)state;
  int status;
  pid_t child = fork();
  if (child == 0)
    be_a_host_of_ipv6_alone();
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == SKIPPED)
    skip();
  assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hosts_are_compared_by_address),
      cmocka_unit_test(a_lead_is_found_by_whatever_address_it_has),
      cmocka_unit_test(a_url_is_open_while_something_listens),
      cmocka_unit_test(others_receive_an_address_that_they_reach),
      cmocka_unit_test(a_store_that_only_this_host_reaches_is_announced_as_it_is),
      cmocka_unit_test(a_host_of_ipv6_alone_has_an_address),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
