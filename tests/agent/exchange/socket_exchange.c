// Agents that meet by socket: both ways at once, over IPv4 and IPv6, with one token.
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/exchange/support/adopting.h"
#include "agent/exchange/support/meeting.h"
#include "agent/metadata/describe.h"
#include "base/fail.h"
#include "cmocka_all.h"
#include "secure/tls.h"
#include "support/wait.h"

static bool has_ipv6(void) {
  struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool has = fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any) == 0;
  if (fd >= 0)
    close(fd);
  return has;
}

// --- as it should be ---

static void check_regions(weft_agent_t *agent, weft_peer_t peer, uint32_t want) {
  struct weft_region_info info[8];
  uint32_t count = 8;
  assert_int_equal(weft_agent_regions(agent, peer, info, sizeof *info, count, &count), 0);
  assert_int_equal(count, want);
}

static void test_both_ways(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  weft_region_t region;
  void *memory;
  assert_int_equal(weft_agent_allocate(listener.agent, WEFT_MEMORY_HOST, 4096, 0, &region, &memory), 0);
  weft_peer_t there = meet(&caller, &listener), here = 0, again;
  crowd_await(&listener, LOADED, "caller", 1);
  assert_int_equal(weft_agent_find(listener.agent, "caller", &here), 0);
  check_regions(caller.agent, there, 1);
  check_regions(listener.agent, here, 0);
  again = meet(&caller, &listener); // once more: the same peer
  assert_true(again == there);
  // Regions that are added and removed are announced over the connection.
  assert_int_equal(weft_agent_allocate(caller.agent, WEFT_MEMORY_HOST, 4096, 0, &region, &memory), 0);
  crowd_await(&listener, WEFT_AGENT_EVENT_PEER_UPDATED, "caller", 1);
  check_regions(listener.agent, here, 1);
  assert_int_equal(weft_agent_deregister(caller.agent, region), 0);
  crowd_await(&listener, WEFT_AGENT_EVENT_PEER_UPDATED, "caller", 2);
  check_regions(listener.agent, here, 0);
  crowd_close(&caller);
  crowd_await(&listener, LEFT, "caller", 1);
  assert_int_equal(crowd_count(&listener, LOST, NULL), 0);
  crowd_close(&listener);
}

static _Atomic int described; // how often an agent gathered what it is

int __real_agent_describe(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions, bool with_addresses,
                          struct agent_description **description);
int __wrap_agent_describe(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions, bool with_addresses,
                          struct agent_description **description);

int __wrap_agent_describe(weft_agent_t *agent, const weft_region_t *regions, uint32_t num_regions, bool with_addresses,
                          struct agent_description **description) {
  atomic_fetch_add(&described, 1);
  return __real_agent_describe(agent, regions, num_regions, with_addresses, description);
}

// What all are to learn is written once: a tenth of a second for 20,000 regions, in which no heartbeat leaves.
static void test_many_learn_at_once(void **state) {
  (void)state;
  enum { CALLERS = 6 };
  static struct crowd_member listener, callers[CALLERS];
  meet_listener(&listener, "listener", "127.0.0.1:0");
  for (int i = 0; i < CALLERS; i++) {
    char name[24];
    snprintf(name, sizeof name, "caller %d", i);
    meet_caller(&callers[i], name, meet_token);
    meet(&callers[i], &listener);
    crowd_await(&listener, LOADED, name, 1);
  }
  weft_region_t region;
  void *memory;
  atomic_store(&described, 0);
  assert_int_equal(weft_agent_allocate(listener.agent, WEFT_MEMORY_HOST, 4096, 0, &region, &memory), 0);
  for (int i = 0; i < CALLERS; i++)
    crowd_await(&callers[i], UPDATED, "listener", 1);
  assert_in_range(atomic_load(&described), 1, 2); // twice, should one of them still have been at something else
  for (int i = 0; i < CALLERS; i++)
    crowd_close(&callers[i]);
  crowd_close(&listener);
}

static bool has_described(void *arg) {
  return atomic_load(&described) >= *(int *)arg;
}

// An agent that has met itself informs itself of its regions like any other, and the connection stays.
static void test_itself(void **state) {
  (void)state;
  enum { A_WHILE_MS = 20 };
  static struct crowd_member alone;
  meet_listener(&alone, "alone", "127.0.0.1:0");
  weft_peer_t self = 0;
  assert_int_equal(meet_at(&alone, meet_port(&alone), SUPPORT_DEADLINE_MS, &self), 0);
  assert_true(self == WEFT_PEER_SELF);
  atomic_store(&described, 0);
  for (int i = 1; i <= 3; i++) {
    weft_region_t region;
    void *memory;
    assert_int_equal(weft_agent_allocate(alone.agent, WEFT_MEMORY_HOST, 4096, 0, &region, &memory), 0);
    assert_true(support_wait(has_described, &i, SUPPORT_DEADLINE_MS));
    usleep(A_WHILE_MS * 1000); // until the update has been read
  }
  crowd_close(&alone);
}

// A peer ends while an update of it is being read: the other side sees that it was released, and no error.
static void test_an_update_of_a_peer_that_ends(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  weft_peer_t peer = meet(&caller, &listener);
  crowd_await(&listener, LOADED, "caller", 1);
  adopting_invalidates(caller.agent, peer);
  weft_region_t region;
  void *memory;
  assert_int_equal(weft_agent_allocate(listener.agent, WEFT_MEMORY_HOST, 4096, 0, &region, &memory), 0);
  crowd_await(&listener, LEFT, "caller", 1);
  crowd_await(&caller, LEFT, "listener", 1);
  assert_int_equal(crowd_count(&listener, LOST, NULL) + crowd_count(&caller, LOST, NULL), 0);
  crowd_close(&caller);
  crowd_close(&listener);
}

// A peer ends as soon as it is one: the connection ends with it, and the call says so.
static void test_a_peer_that_ends_at_once(void **state) {
  (void)state;
  enum { ROUNDS = 10 };
  static struct crowd_member listener, caller;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  weft_peer_t peer;
  for (size_t i = 1; i <= ROUNDS; i++) {
    adopting_invalidates(i % 2 ? caller.agent : listener.agent, 0);
    assert_int_equal(meet_at(&caller, meet_port(&listener), SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_PEER_LOST);
    crowd_await(&listener, LEFT, "caller", i);
  }
  peer = meet(&caller, &listener);
  assert_int_equal(weft_agent_check(caller.agent, peer), 0);
  assert_int_equal(crowd_count(&listener, LOST, NULL) + crowd_count(&caller, LOST, NULL), 0);
  crowd_close(&caller);
  crowd_close(&listener);
}

static bool has_ucx(struct crowd_member *member, weft_peer_t peer) {
  struct weft_peer_info info = WEFT_PEER_INFO_INIT;
  assert_int_equal(weft_agent_peer(member->agent, peer, &info), 0);
  return strstr(info.transports, "ucx") != NULL;
}

// Both open one that they had not when they met.
static void test_a_transport_that_comes_later(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  weft_peer_t there = meet(&caller, &listener), here = 0;
  crowd_await(&listener, LOADED, "caller", 1);
  assert_int_equal(weft_agent_find(listener.agent, "caller", &here), 0);
  int rc = weft_agent_add_transport(listener.agent, "ucx");
  if (rc == 0) {
    assert_int_equal(weft_agent_add_transport(caller.agent, "ucx"), 0);
    crowd_await(&listener, WEFT_AGENT_EVENT_PEER_UPDATED, "caller", 1);
    assert_true(has_ucx(&listener, here));
  } else {
    assert_int_equal(rc, WEFT_ERR_UNSUPPORTED);
    assert_false(has_ucx(&caller, there));
  }
  crowd_close(&caller);
  crowd_close(&listener);
}

static void test_ipv6(void **state) {
  (void)state;
  if (!has_ipv6()) {
    printf("  no IPv6 here\n");
    return;
  }
  static struct crowd_member listener, caller;
  meet_listener(&listener, "listener", "[::1]:0");
  meet_caller(&caller, "caller", meet_token);
  char address[64];
  snprintf(address, sizeof address, "[::1]:%u", meet_port(&listener));
  weft_peer_t peer = 0;
  assert_int_equal(weft_agent_meet(caller.agent, address, SUPPORT_DEADLINE_MS, &peer), 0);
  assert_int_equal(weft_agent_check(caller.agent, peer), 0);
  crowd_close(&listener);
  crowd_await(&caller, LEFT, "listener", 1);
  crowd_close(&caller);
}

// Both call each other: two connections, one peer each way, and the end of one connection is no end of a peer.
static void test_each_calls(void **state) {
  (void)state;
  static struct crowd_member a, b;
  meet_listener(&a, "a", "127.0.0.1:0");
  meet_listener(&b, "b", "127.0.0.1:0");
  weft_peer_t of_a = meet(&a, &b), of_b = meet(&b, &a), self = 0;
  assert_int_equal(weft_agent_check(a.agent, of_a), 0);
  assert_int_equal(weft_agent_check(b.agent, of_b), 0);
  assert_int_equal(crowd_count(&a, LOADED, NULL), 1);
  assert_int_equal(weft_agent_invalidate(a.agent, of_a), 0);
  crowd_await(&b, LEFT, "a", 1);
  assert_int_equal(meet_at(&a, meet_port(&a), SUPPORT_DEADLINE_MS, &self), 0); // itself
  assert_true(self == WEFT_PEER_SELF);
  crowd_close(&a);
  crowd_close(&b);
}

static void test_without_thread(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  struct weft_agent_options options = crowd_options("caller");
  options.token = meet_token;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  crowd_open(&caller, &options);
  weft_peer_t peer = meet(&caller, &listener);
  assert_int_equal(weft_agent_check(caller.agent, peer), 0);
  crowd_close(&caller);
  crowd_close(&listener);
}

static int be_caller(void *arg, int in, int out) {
  static struct crowd_member caller;
  uint16_t port;
  char byte;
  (void)arg;
  meet_caller(&caller, "victim", meet_token);
  crowd_read(in, &port, sizeof port);
  weft_peer_t peer;
  if (meet_at(&caller, port, SUPPORT_DEADLINE_MS, &peer) != 0)
    return 1;
  crowd_write(out, "", 1);
  while (read(in, &byte, 1) > 0)
    continue;
  crowd_close(&caller);
  return 0;
}

static void test_killed(void **state) {
  (void)state;
  struct crowd_process process;
  crowd_start(&process, be_caller, NULL);
  static struct crowd_member listener;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  uint16_t port = meet_port(&listener);
  char byte;
  crowd_write(process.to, &port, sizeof port);
  crowd_read(process.from, &byte, 1);
  crowd_await(&listener, LOADED, "victim", 1);
  crowd_kill(&process);
  crowd_await(&listener, LOST, "victim", 1);
  crowd_close(&listener);
}

// --- refused ---

static void test_tokens(void **state) {
  (void)state;
  static struct crowd_member listener, stranger, nobody;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&stranger, "stranger", "Correct horse battery staple");
  meet_caller(&nobody, "nobody", NULL);
  weft_peer_t peer = 77;
  assert_int_equal(meet_at(&stranger, meet_port(&listener), SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_AUTH);
  assert_non_null(strstr(weft_last_error(), "token"));
  assert_int_equal(meet_at(&nobody, meet_port(&listener), 1000, &peer), WEFT_ERR_INVALID);
  assert_true(peer == 77);
  assert_int_equal(crowd_count(&listener, LOADED, NULL), 0);
  assert_int_equal(crowd_count(&stranger, LOADED, NULL), 0);
  crowd_close(&stranger);
  crowd_close(&nobody);
  crowd_close(&listener);
}

static void test_arguments(void **state) {
  (void)state;
  static struct crowd_member caller;
  meet_caller(&caller, "caller", meet_token);
  weft_peer_t peer;
  uint16_t port;
  static const char *const wrong[] = {"",      "host",    "host:", ":1",   "1.2.3.4:65536", "::1:99",
                                      "[::1]", "[::1:99", "h:0",   "[]:5", "h:12x",         "h:+5"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(weft_agent_meet(caller.agent, wrong[i], 1000, &peer), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_meet(caller.agent, NULL, 1000, &peer), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_port(caller.agent, &port), WEFT_ERR_NOT_FOUND);
  assert_int_equal(meet_at(&caller, support_free_port(), SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_UNREACHABLE);
  crowd_close(&caller);
  struct weft_agent_options options = crowd_options("open");
  options.listen = "127.0.0.1:0"; // and no token
  weft_agent_t *agent = NULL;
  assert_int_equal(weft_agent_open(&agent, &options), WEFT_ERR_INVALID);
  options.token = meet_token;
  options.listen = "192.0.2.1:0";
  assert_int_equal(weft_agent_open(&agent, &options), WEFT_ERR_INVALID);
  assert_null(agent);
}

static void test_name_taken(void **state) {
  (void)state;
  static struct crowd_member listener, first, second;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&first, "twin", meet_token);
  meet_caller(&second, "twin", meet_token);
  meet(&first, &listener);
  weft_peer_t peer;
  assert_int_equal(meet_at(&second, meet_port(&listener), SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_EXISTS);
  assert_int_equal(crowd_count(&second, LOADED, NULL), 0); // all or nothing, on both sides
  assert_int_equal(crowd_count(&listener, LOADED, NULL), 1);
  crowd_close(&first);
  crowd_await(&listener, LEFT, "twin", 1);
  meet(&second, &listener);
  crowd_close(&second);
  crowd_close(&listener);
}

// The goodbye by the socket does not overtake the notifications, which come another way.
static void test_last_notification(void **state) {
  (void)state;
  enum { MEETINGS = 100 };
  static struct crowd_member listener;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  for (int i = 0; i < MEETINGS; i++) {
    static struct crowd_member caller;
    struct weft_notification last;
    char name[32];
    uint32_t count = 0;
    snprintf(name, sizeof name, "caller %d", i);
    meet_caller(&caller, name, meet_token);
    weft_peer_t there = meet(&caller, &listener);
    assert_int_equal(weft_agent_notify(caller.agent, there, "last", 4), 0);
    crowd_close(&caller);
    crowd_await(&listener, LEFT, name, 1);
    assert_int_equal(weft_agent_notifications(listener.agent, &last, 1, &count), 0);
    assert_int_equal(count, 1);
    assert_memory_equal(last.bytes, "last", 4);
  }
  crowd_close(&listener);
}

// An agent that has let go of another one meets it again before that one has noted the end.
static void test_met_again_at_once(void **state) {
  (void)state;
  enum { MEETINGS = 10, A_WHILE_MS = 60 };
  static struct crowd_member listener, caller;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  for (int i = 0; i < MEETINGS; i++) {
    weft_peer_t there = meet(&caller, &listener);
    assert_int_equal(weft_agent_notify(caller.agent, there, "here", 4), 0);
    usleep(A_WHILE_MS * 1000);
    assert_int_equal(weft_agent_check(caller.agent, there), 0);
    assert_int_equal(weft_agent_invalidate(caller.agent, there), 0);
  }
  crowd_close(&caller);
  crowd_close(&listener);
}

static atomic_bool no_tls; // libssl refuses to speak TLS, as one without the cipher does

int __real_tls_open(struct tls **tls, int fd, bool calls, const char *protocol, const uint8_t key[SECRET_KEY_SIZE]);
int __wrap_tls_open(struct tls **tls, int fd, bool calls, const char *protocol, const uint8_t key[SECRET_KEY_SIZE]);
int __wrap_tls_open(struct tls **tls, int fd, bool calls, const char *protocol, const uint8_t key[SECRET_KEY_SIZE]) {
  return atomic_load(&no_tls) ? fail(WEFT_ERR_SYSTEM, "libssl cannot speak TLS")
                              : __real_tls_open(tls, fd, calls, protocol, key);
}

static void test_without_tls(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  weft_peer_t there;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  atomic_store(&no_tls, true);
  assert_int_equal(meet_at(&caller, meet_port(&listener), SUPPORT_DEADLINE_MS, &there), WEFT_ERR_SYSTEM);
  assert_non_null(strstr(weft_last_error(), "libssl cannot speak TLS"));
  atomic_store(&no_tls, false);
  meet(&caller, &listener);
  crowd_close(&caller);
  crowd_close(&listener);
}

// --- a name with two addresses ---

static struct addrinfo *first_address; // of every name, if it is there

int __real_endpoint_resolve(const char *text, bool passive, struct addrinfo **addresses);
int __wrap_endpoint_resolve(const char *text, bool passive, struct addrinfo **addresses);

int __wrap_endpoint_resolve(const char *text, bool passive, struct addrinfo **addresses) {
  struct addrinfo *first = first_address;
  first_address = NULL;
  int rc = __real_endpoint_resolve(text, passive, addresses);
  if (rc == 0 && first) {
    first->ai_next = *addresses;
    *addresses = first;
  }
  return rc;
}

// A listener that nobody can reach any more, since its queue is full: as a firewall that drops packets.
struct silence {
  int listener, callers[2];
};

static void make_silence(struct silence *silence, const struct addrinfo *at) {
  silence->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(silence->listener, at->ai_addr, at->ai_addrlen), 0);
  assert_int_equal(listen(silence->listener, 0), 0);
  for (int i = 0; i < 2; i++) {
    silence->callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(silence->callers[i], at->ai_addr, at->ai_addrlen), -1);
    assert_int_equal(errno, EINPROGRESS);
  }
}

static void end_silence(const struct silence *silence) {
  for (int i = 0; i < 2; i++)
    close(silence->callers[i]);
  close(silence->listener);
}

// The time is long enough for both addresses.
static void test_a_silent_address(void **state) {
  (void)state;
  enum { TIME_MS = 4000 };
  static struct crowd_member listener, caller;
  struct silence silence;
  weft_peer_t peer;
  char address[32];
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  snprintf(address, sizeof address, "127.0.0.2:%u", meet_port(&listener));
  struct addrinfo *silent = NULL;
  assert_int_equal(__real_endpoint_resolve(address, false, &silent), 0);
  make_silence(&silence, silent);
  first_address = silent;
  assert_int_equal(meet_at(&caller, meet_port(&listener), TIME_MS, &peer), 0);
  end_silence(&silence);
  crowd_close(&caller);
  crowd_close(&listener);
}

static void test_an_unknown_family(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  weft_peer_t peer;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  struct addrinfo *unknown = NULL;
  assert_int_equal(__real_endpoint_resolve("127.0.0.1:1", false, &unknown), 0);
  unknown->ai_family = AF_MAX; // as IPv6 is to a system without it
  first_address = unknown;
  assert_int_equal(meet_at(&caller, meet_port(&listener), SUPPORT_DEADLINE_MS, &peer), 0);
  crowd_close(&caller);
  crowd_close(&listener);
}

static int run(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_both_ways),
      cmocka_unit_test(test_many_learn_at_once),
      cmocka_unit_test(test_itself),
      cmocka_unit_test(test_an_update_of_a_peer_that_ends),
      cmocka_unit_test(test_a_peer_that_ends_at_once),
      cmocka_unit_test(test_a_transport_that_comes_later),
      cmocka_unit_test(test_ipv6),
      cmocka_unit_test(test_each_calls),
      cmocka_unit_test(test_without_thread),
      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_tokens),
      cmocka_unit_test(test_without_tls),
      cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_name_taken),
      cmocka_unit_test(test_last_notification),
      cmocka_unit_test(test_met_again_at_once),
      cmocka_unit_test(test_a_silent_address),
      cmocka_unit_test(test_an_unknown_family),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
  return meet_run(run);
}
