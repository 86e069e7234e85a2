// What calls at a listener besides agents that share its token, and those that do and do not keep to the protocol.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/meeting.h"
#include "agent/talk.h"
#include "base/clock.h"
#include "base/wire.h"
#include "cmocka_all.h"
#include "support/relay.h"
#include "support/wait.h"

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
  meet_listener(&listener, "secret-name", "127.0.0.1:0");
  uint8_t out[1024], in[4096];
  int fd = dial(meet_port(&listener));
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
  meet_listener(&listener, "listener", "127.0.0.1:0");
  uint8_t out[1024], in[4096];
  int fd = dial(meet_port(&listener));
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
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  uint16_t port = meet_port(&listener);
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
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  uint16_t port = meet_port(&listener);
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
  meet_caller(&caller, "caller", meet_token);
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
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  struct support_relay *relay = support_relay_start(meet_port(&listener));
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
  assert_int_equal(hmac_sha256(meet_token, strlen(meet_token), parts, 4, out), 0);
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
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&other, "other", meet_token);
  size_t blob_size, loaded = 0;
  void *blob = crowd_blob(other.agent, &blob_size);
  for (enum break_how how = HONEST; how < BREAKS; how++) {
    struct raw raw;
    raw_open(&raw, meet_port(&listener));
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

static int run(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_learns_nothing), cmocka_unit_test(test_versions),      cmocka_unit_test(test_garbage),
      cmocka_unit_test(test_half_open),      cmocka_unit_test(test_mute_listener), cmocka_unit_test(test_between),
      cmocka_unit_test(test_seals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
  return meet_run(run);
}
