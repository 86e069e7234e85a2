// Agents that meet by socket: both ways at once, over IPv4 and IPv6, with one token; and everything that may call at a
// listener besides.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/crowd.h"
#include "agent/talk.h"
#include "base/clock.h"
#include "base/wire.h"
#include "cmocka_all.h"
#include "support/entries.h"
#include "support/relay.h"
#include "support/wait.h"

static const char token[] = "correct horse battery staple";

static void open_listener(struct crowd_member *member, const char *name, const char *listen) {
  struct weft_agent_options options = crowd_options(name);
  options.listen = listen;
  options.token = token;
  crowd_open(member, &options);
}

static void open_caller(struct crowd_member *member, const char *name, const char *secret) {
  struct weft_agent_options options = crowd_options(name);
  options.token = secret;
  crowd_open(member, &options);
}

static uint16_t port_of(struct crowd_member *member) {
  uint16_t port = 0;
  assert_int_equal(weft_agent_port(member->agent, &port), 0);
  assert_true(port > 0);
  return port;
}

static int meet_at(struct crowd_member *member, uint16_t port, uint32_t timeout_ms, weft_peer_t *peer) {
  char address[64];
  snprintf(address, sizeof address, "127.0.0.1:%u", port);
  return weft_agent_meet(member->agent, address, timeout_ms, peer);
}

static weft_peer_t meet(struct crowd_member *member, struct crowd_member *listener) {
  weft_peer_t peer = 0;
  int err = meet_at(member, port_of(listener), SUPPORT_DEADLINE_MS, &peer);
  if (err)
    fail_msg("meet: %s: %s", weft_err_name(err), weft_last_error());
  return peer;
}

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
  struct weft_region_info info[8] = {{.size = sizeof *info}};
  uint32_t count = 8;
  assert_int_equal(weft_agent_regions(agent, peer, info, &count), 0);
  assert_int_equal(count, want);
}

static void test_both_ways(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  open_listener(&listener, "listener", "127.0.0.1:0");
  open_caller(&caller, "caller", token);
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
  // Regions that come and go are told over the connection.
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

static void test_ipv6(void **state) {
  (void)state;
  if (!has_ipv6()) {
    printf("  no IPv6 here\n");
    return;
  }
  static struct crowd_member listener, caller;
  open_listener(&listener, "listener", "[::1]:0");
  open_caller(&caller, "caller", token);
  char address[64];
  snprintf(address, sizeof address, "[::1]:%u", port_of(&listener));
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
  open_listener(&a, "a", "127.0.0.1:0");
  open_listener(&b, "b", "127.0.0.1:0");
  weft_peer_t of_a = meet(&a, &b), of_b = meet(&b, &a), self = 0;
  assert_int_equal(weft_agent_check(a.agent, of_a), 0);
  assert_int_equal(weft_agent_check(b.agent, of_b), 0);
  assert_int_equal(crowd_count(&a, LOADED, NULL), 1);
  assert_int_equal(weft_agent_invalidate(a.agent, of_a), 0);
  crowd_await(&b, LEFT, "a", 1);
  assert_int_equal(meet_at(&a, port_of(&a), SUPPORT_DEADLINE_MS, &self), 0); // itself
  assert_true(self == WEFT_PEER_SELF);
  crowd_close(&a);
  crowd_close(&b);
}

static void test_without_thread(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  open_listener(&listener, "listener", "127.0.0.1:0");
  struct weft_agent_options options = crowd_options("caller");
  options.token = token;
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
  open_caller(&caller, "victim", token);
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
  open_listener(&listener, "listener", "127.0.0.1:0");
  uint16_t port = port_of(&listener);
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
  open_listener(&listener, "listener", "127.0.0.1:0");
  open_caller(&stranger, "stranger", "Correct horse battery staple");
  open_caller(&nobody, "nobody", NULL);
  weft_peer_t peer = 77;
  assert_int_equal(meet_at(&stranger, port_of(&listener), SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_AUTH);
  assert_non_null(strstr(weft_last_error(), "token"));
  assert_int_equal(meet_at(&nobody, port_of(&listener), 1000, &peer), WEFT_ERR_INVALID);
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
  open_caller(&caller, "caller", token);
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
  options.token = token;
  options.listen = "192.0.2.1:0";
  assert_int_equal(weft_agent_open(&agent, &options), WEFT_ERR_INVALID);
  assert_null(agent);
}

static void test_name_taken(void **state) {
  (void)state;
  static struct crowd_member listener, first, second;
  open_listener(&listener, "listener", "127.0.0.1:0");
  open_caller(&first, "twin", token);
  open_caller(&second, "twin", token);
  meet(&first, &listener);
  weft_peer_t peer;
  assert_int_equal(meet_at(&second, port_of(&listener), SUPPORT_DEADLINE_MS, &peer), WEFT_ERR_EXISTS);
  assert_int_equal(crowd_count(&second, LOADED, NULL), 0); // all or nothing, on both sides
  assert_int_equal(crowd_count(&listener, LOADED, NULL), 1);
  crowd_close(&first);
  crowd_await(&listener, LEFT, "twin", 1);
  meet(&second, &listener);
  crowd_close(&second);
  crowd_close(&listener);
}

// --- what else calls ---

static int dial(uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

// Reads until the other side closes; returns how many bytes came.
static size_t read_out(int fd, uint8_t *bytes, size_t size) {
  size_t at = 0;
  for (;;) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, SUPPORT_DEADLINE_MS) != 1)
      fail_msg("the listener does not close");
    ssize_t got = read(fd, bytes + at, size - at);
    if (got <= 0)
      return at;
    at += (size_t)got;
  }
}

// A message without a seal.
static size_t put_message(uint8_t *out, enum talk_kind kind, const void *content, size_t size) {
  struct wire_writer writer = {.bytes = out, .capacity = SIZE_MAX / 2};
  wire_put_number(&writer, size + 1, 4);
  wire_put_number(&writer, kind, 1);
  wire_put(&writer, content, size);
  return writer.at;
}

static size_t put_hello(uint8_t *out, uint16_t version, uint16_t minimum) {
  uint8_t content[12 + TALK_NONCE] = "WEFTMEET";
  struct wire_writer writer = {.bytes = content, .capacity = sizeof content, .at = 8};
  wire_put_number(&writer, version, 2);
  wire_put_number(&writer, minimum, 2);
  memset(content + 12, 7, TALK_NONCE);
  return put_message(out, TALK_HELLO, content, sizeof content);
}

static void test_learns_nothing(void **state) {
  (void)state;
  static struct crowd_member listener;
  open_listener(&listener, "secret-name", "127.0.0.1:0");
  uint8_t out[1024], in[4096];
  int fd = dial(port_of(&listener));
  size_t size = put_hello(out, TALK_VERSION, TALK_MINIMUM);
  memset(in, 9, HMAC_SIZE);
  size += put_message(out + size, TALK_PROOF, in, HMAC_SIZE);
  crowd_write(fd, out, size);
  size = read_out(fd, in, sizeof in);
  close(fd);
  // A random value, and the refusal: nothing of the agent, and no proof to guess a token by.
  size_t hello = put_hello(out, TALK_VERSION, TALK_MINIMUM);
  assert_true(size > hello + TALK_HEAD);
  assert_int_equal(in[hello + 4], TALK_REFUSED);
  assert_int_equal(in[hello + 5], -WEFT_ERR_AUTH);
  assert_null(memmem(in, size, "secret-name", 11));
  assert_int_equal(size, hello + TALK_HEAD + 4 + strlen("the two agents do not share one token"));
  crowd_close(&listener);
}

static void test_versions(void **state) {
  (void)state;
  static struct crowd_member listener;
  open_listener(&listener, "listener", "127.0.0.1:0");
  uint8_t out[1024], in[4096];
  int fd = dial(port_of(&listener));
  crowd_write(fd, out, put_hello(out, 9, 8));
  size_t size = read_out(fd, in, sizeof in);
  close(fd);
  assert_true(size > TALK_HEAD + 4);
  assert_int_equal(in[4], TALK_REFUSED);
  assert_int_equal(in[5], -WEFT_ERR_VERSION);
  crowd_close(&listener);
}

static void test_garbage(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  open_listener(&listener, "listener", "127.0.0.1:0");
  open_caller(&caller, "caller", token);
  uint16_t port = port_of(&listener);
  uint8_t in[4096], out[1024];
  static const char *const garbage[] = {"GET / HTTP/1.1\r\n\r\n", "\xFF\xFF\xFF\xFF\1", "\1\0\0\0\4", "\2\0\0\0\1x",
                                        "\xFF\xFF\xFF\x0F\1"};
  static const size_t sizes[] = {18, 5, 5, 6, 5};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int fd = dial(port);
    crowd_write(fd, garbage[i], sizes[i]);
    assert_int_equal(read_out(fd, in, sizeof in), 0); // closed, without an answer
    close(fd);
  }
  int fd = dial(port); // two greetings
  size_t size = put_hello(out, TALK_VERSION, TALK_MINIMUM);
  crowd_write(fd, out, size);
  crowd_write(fd, out, size);
  read_out(fd, in, sizeof in);
  close(fd);
  assert_int_equal(crowd_count(&listener, LOADED, NULL), 0);
  meet(&caller, &listener);
  crowd_close(&caller);
  crowd_close(&listener);
}

// Callers that say nothing, or a byte at a time, hold nobody up, and are cut off: by their number at once, by time
// each.
static void test_half_open(void **state) {
  (void)state;
  enum { MANY = 300 };
  static struct crowd_member listener, caller;
  static int fds[MANY];
  open_listener(&listener, "listener", "127.0.0.1:0");
  open_caller(&caller, "caller", token);
  uint16_t port = port_of(&listener);
  uint8_t hello[256], in[256];
  size_t size = put_hello(hello, TALK_VERSION, TALK_MINIMUM);
  for (int i = 0; i < MANY; i++) {
    fds[i] = dial(port);
    crowd_write(fds[i], hello, (size_t)i % size); // none whole
  }
  uint64_t begin = clock_ns();
  meet(&caller, &listener);
  printf("  met among %d half-open ones in %d ms\n", MANY, (int)((clock_ns() - begin) / 1000000));
  pthread_mutex_lock(&listener.agent->tending);
  uint32_t half_open = listener.agent->meta->meet->num_half_open;
  pthread_mutex_unlock(&listener.agent->tending);
  assert_true(half_open <= 64);
  read_out(fds[0], in, sizeof in);        // cut off by those that came later
  read_out(fds[MANY - 1], in, sizeof in); // and the last by its time
  for (int i = 0; i < MANY; i++)
    close(fds[i]);
  assert_int_equal(crowd_count(&listener, LOADED, NULL), 1);
  assert_int_equal(crowd_count(&listener, LOST, NULL), 0);
  crowd_close(&caller);
  crowd_close(&listener);
}

// A listener that accepts and never answers: the time limit holds, and the text names the step.
static void test_mute_listener(void **state) {
  (void)state;
  static struct crowd_member caller;
  open_caller(&caller, "caller", token);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(fd, 8), 0);
  getsockname(fd, (struct sockaddr *)&at, &size);
  weft_peer_t peer;
  assert_int_equal(meet_at(&caller, ntohs(at.sin_port), 200, &peer), WEFT_ERR_TIMEOUT);
  assert_non_null(strstr(weft_last_error(), "with a greeting"));
  close(fd);
  crowd_close(&caller);
}

// Somebody between the two who does not have the token: what it cuts, holds or replays.
static void test_between(void **state) {
  (void)state;
  static struct crowd_member listener, caller;
  open_listener(&listener, "listener", "127.0.0.1:0");
  open_caller(&caller, "caller", token);
  struct support_relay *relay = support_relay_start(port_of(&listener));
  assert_non_null(relay);
  weft_peer_t peer = 0;
  support_relay_hold_answers(relay, true);
  assert_int_equal(meet_at(&caller, support_relay_port(relay), 200, &peer), WEFT_ERR_TIMEOUT);
  support_relay_hold_answers(relay, false);
  assert_int_equal(meet_at(&caller, support_relay_port(relay), SUPPORT_DEADLINE_MS, &peer), 0);
  crowd_await(&listener, LOADED, "caller", 1);
  support_relay_cut(relay);
  crowd_await(&caller, LOST, "listener", 1);
  crowd_await(&listener, LOST, "caller", 1);
  assert_int_equal(meet_at(&caller, support_relay_port(relay), SUPPORT_DEADLINE_MS, &peer), 0); // again
  support_relay_stop(relay);
  crowd_close(&caller);
  crowd_close(&listener);
}

// --- who has the token, and does not keep to the protocol ---

struct raw {
  int fd;
  uint8_t nonces[2][TALK_NONCE];
  uint8_t key[HMAC_SIZE]; // of what the caller says
  uint64_t number;
};

static void prove(const struct raw *raw, const char *role, uint8_t out[HMAC_SIZE]) {
  const struct hmac_part parts[] = {
      {"WEFTMEET", 8}, {role, strlen(role) + 1}, {raw->nonces[0], TALK_NONCE}, {raw->nonces[1], TALK_NONCE}};
  assert_int_equal(hmac_sha256(token, strlen(token), parts, 4, out), 0);
}

// Calls, and goes through the proofs as talk.h says.
static void raw_open(struct raw *raw, uint16_t port) {
  uint8_t out[512], in[512], proof[HMAC_SIZE], want[HMAC_SIZE];
  *raw = (struct raw){.fd = dial(port)};
  size_t size = put_hello(out, TALK_VERSION, TALK_MINIMUM);
  memset(raw->nonces[0], 7, TALK_NONCE);
  crowd_write(raw->fd, out, size);
  crowd_read(raw->fd, in, size);
  assert_int_equal(in[4], TALK_HELLO);
  memcpy(raw->nonces[1], in + size - TALK_NONCE, TALK_NONCE);
  prove(raw, "caller", proof);
  crowd_write(raw->fd, out, put_message(out, TALK_PROOF, proof, HMAC_SIZE));
  crowd_read(raw->fd, in, TALK_HEAD + HMAC_SIZE);
  prove(raw, "listener", want);
  assert_int_equal(in[4], TALK_PROOF);
  assert_memory_equal(in + TALK_HEAD, want, HMAC_SIZE); // it has the token too
  prove(raw, "key of what the caller says", raw->key);
}

// A sealed message, in `out`; returns its size.
static size_t raw_put(struct raw *raw, uint8_t *out, enum talk_kind kind, const void *content, size_t size) {
  struct wire_writer writer = {.bytes = out, .capacity = SIZE_MAX / 2};
  uint8_t number[8];
  wire_put_number(&writer, size + 1 + HMAC_SIZE, 4);
  wire_put_number(&writer, kind, 1);
  wire_put(&writer, content, size);
  struct wire_writer counter = {.bytes = number, .capacity = sizeof number};
  wire_put_number(&counter, raw->number++, 8);
  const struct hmac_part parts[] = {{number, sizeof number}, {out, writer.at}};
  assert_int_equal(hmac_sha256(raw->key, HMAC_SIZE, parts, 2, out + writer.at), 0);
  return writer.at + HMAC_SIZE;
}

enum break_how { HONEST, FLIPPED, REPLAYED, RENUMBERED, UNSEALED, NO_BLOB, OUT_OF_TURN, BREAKS };

// Says what `how` means, with the metadata of an agent; returns what came back.
static size_t raw_break(struct raw *raw, enum break_how how, const void *blob, size_t size, uint8_t *in, size_t room) {
  uint8_t *out = malloc(2 * size + 1024);
  assert_non_null(out);
  size_t length;
  raw->number += how == RENUMBERED;
  if (how == UNSEALED)
    length = put_message(out, TALK_METADATA, blob, size);
  else if (how == NO_BLOB)
    length = raw_put(raw, out, TALK_METADATA, "no blob", 7);
  else if (how == OUT_OF_TURN)
    length = raw_put(raw, out, TALK_UPDATE, blob, size);
  else
    length = raw_put(raw, out, TALK_METADATA, blob, size);
  if (how == FLIPPED)
    out[length / 2] ^= 4;
  if (how == REPLAYED) {
    memcpy(out + length, out, length);
    length *= 2;
  }
  crowd_write(raw->fd, out, length);
  if (how == HONEST)
    shutdown(raw->fd, SHUT_WR);
  free(out);
  return read_out(raw->fd, in, room);
}

static void test_seals(void **state) {
  (void)state;
  static struct crowd_member listener, other;
  static uint8_t in[65536];
  open_listener(&listener, "listener", "127.0.0.1:0");
  open_caller(&other, "other", token);
  size_t blob_size, loaded = 0;
  void *blob = crowd_blob(other.agent, &blob_size);
  for (enum break_how how = HONEST; how < BREAKS; how++) {
    struct raw raw;
    raw_open(&raw, port_of(&listener));
    size_t size = raw_break(&raw, how, blob, blob_size, in, sizeof in);
    close(raw.fd);
    bool known = how == HONEST || how == REPLAYED; // its first was right
    loaded += known;
    if (known)
      crowd_await(&listener, LOST, "other", loaded); // its connection has ended
    assert_int_equal(crowd_count(&listener, LOADED, "other"), loaded);
    if (how == NO_BLOB) { // who has proved itself is told why
      assert_int_equal(in[4], TALK_REFUSED);
      assert_int_equal(in[5], -WEFT_ERR_PROTOCOL);
    } else if (!known) {
      assert_int_equal(size, 0);
    }
  }
  free(blob);
  crowd_close(&other);
  crowd_close(&listener);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_both_ways),      cmocka_unit_test(test_ipv6),       cmocka_unit_test(test_each_calls),
      cmocka_unit_test(test_without_thread), cmocka_unit_test(test_killed),     cmocka_unit_test(test_tokens),
      cmocka_unit_test(test_arguments),      cmocka_unit_test(test_name_taken), cmocka_unit_test(test_learns_nothing),
      cmocka_unit_test(test_versions),       cmocka_unit_test(test_garbage),    cmocka_unit_test(test_half_open),
      cmocka_unit_test(test_mute_listener),  cmocka_unit_test(test_between),    cmocka_unit_test(test_seals),
  };
  if (!hmac_is_there()) {
    printf("skipped: this build has no libcrypto\n");
    return 77;
  }
  int before = support_descriptors();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  if (failed == 0 && support_descriptors() != before) {
    printf("%d descriptors before, %d behind\n", before, support_descriptors());
    return 1;
  }
  return failed;
}
