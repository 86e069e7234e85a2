// Everything that may call at the listeners of a rank, and everything that may answer there in its place. Nobody who
// does not show the token gets to know anything, no greeting that is wrong anywhere makes a link, each is refused in
// words, and the ranks' own calls come through beside all of them.
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "cmocka_all.h"
#include "strangers.h"
#include "support/entries.h"

enum { SILENT = 320, SILENT_MS = 20000, SEED = 20, LATER = 3000 };

static uint32_t connected(weft_ep_t *ep) {
  struct weft_ep_stats stats = WEFT_EP_STATS_INIT;
  assert_int_equal(weft_ep_stats(ep, &stats), 0);
  return stats.connected;
}

// Says `size` bytes and, with `ends`, that nothing follows; what comes back is a refusal with `code`, or nothing: 0.
static struct ep_far_greeting expect(struct hosts *hosts, const void *bytes, size_t size, bool ends, int code) {
  struct ep_far_greeting answer = {0};
  int fd = strangers_call(hosts->called);
  strangers_send(fd, bytes, size);
  if (ends)
    shutdown(fd, SHUT_WR);
  size_t got = strangers_read(fd, &answer, sizeof answer);
  close(fd);
  if (got != (code ? sizeof answer : 0))
    fail_msg("%zu bytes are answered with %zu", size, got);
  if (code && (answer.greeting.kind != EP_REFUSED || answer.greeting.error != code))
    fail_msg("%zu bytes are answered with kind %u and code %d (%s), not %d", size, answer.greeting.kind,
             answer.greeting.error, answer.greeting.why, code);
  assert_int_equal(connected(hosts->called), 0);
  return answer;
}

static void expect_hello(struct hosts *hosts, const struct ep_far_greeting *hello, int code, const char *text) {
  struct ep_far_greeting answer = expect(hosts, hello, sizeof *hello, false, code);
  if (!strstr(answer.greeting.why, text))
    fail_msg("it is refused with \"%s\", which says nothing of \"%s\"", answer.greeting.why, text);
}

// --- without the token ---

static void expect_silence_about_itself(struct hosts *hosts, const struct ep_far_greeting *hello) {
  struct ep_far_greeting answer = expect(hosts, hello, sizeof *hello, false, WEFT_ERR_AUTH);
  struct ep_far_greeting nothing = {.magic = hello->magic, .version = EP_LAYOUT_VERSION, .size = sizeof nothing};
  nothing.greeting.kind = EP_REFUSED;
  nothing.greeting.error = WEFT_ERR_AUTH;
  strcpy(nothing.greeting.why, "a caller does not know this rank's token");
  assert_memory_equal(&answer, &nothing, sizeof answer);
}

static void who_shows_no_token_learns_nothing(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  const struct ep_far_greeting right = strangers_hello(hosts.caller, hosts.called);
  for (int i = -1; i < EP_TOKEN; i++) { // none at all, and each byte of it wrong
    struct ep_far_greeting hello = right;
    if (i < 0)
      memset(hello.token, 0, sizeof hello.token);
    else
      hello.token[i] ^= 1;
    expect_silence_about_itself(&hosts, &hello);
    hello.version++; // nor what else is wrong
    hello.greeting.rank = 99;
    expect_silence_about_itself(&hosts, &hello);
  }
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

static void rubbish_is_not_answered(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  uint64_t seed = SEED;
  static char bytes[sizeof(struct ep_far_greeting)];
  static const char http[] = "GET / HTTP/1.1\r\nHost: weft\r\n\r\n";
  expect(&hosts, http, sizeof http - 1, true, 0);
  expect(&hosts, "", 0, true, 0);
  for (int round = 0; round < 32; round++) {
    for (size_t i = 0; i < sizeof bytes; i++)
      bytes[i] = (char)random_next(&seed);
    expect(&hosts, bytes, sizeof bytes, false, 0);
    expect(&hosts, bytes, random_next(&seed) % sizeof bytes, true, 0);
  }
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

// --- with the token ---

// Every length up to the greeting's end, and some of those in the address and the key.
static void a_greeting_cut_short_makes_no_link(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  const struct ep_far_greeting right = strangers_hello(hosts.caller, hosts.called);
  for (size_t size = 0; size < sizeof right; size += size < offsetof(struct ep_far_greeting, address) ? 1 : 97)
    expect(&hosts, &right, size, true, size < offsetof(struct ep_far_greeting, greeting) ? 0 : WEFT_ERR_PROTOCOL);
  expect(&hosts, &right, sizeof right - 1, true, WEFT_ERR_PROTOCOL);
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

// Whatever the size of its greeting is.
static void another_version_is_told_so(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  const size_t sizes[] = {sizeof(struct ep_far_greeting), sizeof(struct ep_far_greeting) + LATER,
                          offsetof(struct ep_far_greeting, link)};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char bytes[sizeof(struct ep_far_greeting) + LATER] = "";
    struct ep_far_greeting hello = strangers_hello(hosts.caller, hosts.called);
    hello.version = EP_LAYOUT_VERSION + 1;
    hello.size = (uint32_t)sizes[i];
    memcpy(bytes, &hello, sizeof hello);
    struct ep_far_greeting answer =
        expect(&hosts, bytes, sizes[i], false, WEFT_ERR_VERSION); // the last: when it is late
    assert_non_null(strstr(answer.greeting.why, "version"));
    assert_int_equal(answer.version, EP_LAYOUT_VERSION);
  }
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

#define EXPECT(code, text, ...)                                                                                        \
  do {                                                                                                                 \
    struct ep_far_greeting hello = right;                                                                              \
    __VA_ARGS__;                                                                                                       \
    expect_hello(&hosts, &hello, code, text);                                                                          \
  } while (0)

static void a_greeting_that_is_wrong_anywhere_is_refused_in_words(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  const struct ep_far_greeting right = strangers_hello(hosts.caller, hosts.called);
  EXPECT(WEFT_ERR_PROTOCOL, "bytes", hello.size = UINT32_MAX);
  EXPECT(WEFT_ERR_PROTOCOL, "bytes", hello.size = 0);
  EXPECT(WEFT_ERR_PROTOCOL, "address of 4294967295", hello.address_size = UINT32_MAX);
  EXPECT(WEFT_ERR_PROTOCOL, "a key of 1025", hello.key_size = sizeof hello.key + 1);
  EXPECT(WEFT_ERR_PROTOCOL, "name does not end", memset(hello.transport, 'x', sizeof hello.transport));
  EXPECT(WEFT_ERR_PROTOCOL, "text does not end", memset(hello.greeting.why, 'x', sizeof hello.greeting.why));
  EXPECT(WEFT_ERR_PROTOCOL, "no greeting", hello.greeting.magic ^= 1);
  EXPECT(WEFT_ERR_VERSION, "layout version", hello.greeting.version ^= 1);
  EXPECT(WEFT_ERR_PROTOCOL, "rank -1", hello.greeting.rank = -1);
  EXPECT(WEFT_ERR_PROTOCOL, "rank 4", hello.greeting.rank = 4);
  EXPECT(WEFT_ERR_PROTOCOL, "rank 0", hello.greeting.rank = 0); // itself
  EXPECT(WEFT_ERR_PROTOCOL, "rank 2147483647", hello.greeting.rank = INT32_MAX);
  EXPECT(WEFT_ERR_PROTOCOL, "incarnation", hello.greeting.to ^= 1);
  EXPECT(WEFT_ERR_PROTOCOL, "incarnation", hello.greeting.kind = EP_WELCOME);
  EXPECT(WEFT_ERR_PROTOCOL, "incarnation", hello.greeting.kind = 77);
  EXPECT(WEFT_ERR_VERSION, "hidden 4294967295", hello.greeting.hidden = UINT32_MAX);
  EXPECT(WEFT_ERR_VERSION, "window size", hello.greeting.area_bytes = 1);
  EXPECT(WEFT_ERR_VERSION, "CUDA memory", hello.greeting.memory = WEFT_EP_MEMORY_CUDA);
  EXPECT(WEFT_ERR_UNSUPPORTED, "shm", strcpy(hello.transport, "ofi"));
  EXPECT(WEFT_ERR_PROTOCOL, "address", hello.address_size = 0);
  EXPECT(WEFT_ERR_PROTOCOL, "address", hello.address_size = 64);
  struct ep_net *net;
  assert_int_equal(ep_net_open(hosts.caller, "shm", &net), 0);
  EXPECT(WEFT_ERR_PROTOCOL, "key", hello.address_size = (uint32_t)net->address_size, hello.key_size = 80;
         memcpy(hello.address, net->address, net->address_size));
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

// --- many ---

// More than it ever listens to at once, so that a caller behind them would wait for many of their deadlines.
static void expect_through_silence(const char *host_of_caller) {
  static int silent[SILENT];
  static const int32_t called = 0;
  struct hosts hosts;
  hosts_open(&hosts);
  bool near = strcmp(host_of_caller, "one") == 0;
  if (near) {
    weft_ep_close(hosts.caller);
    hosts.caller = hosts_rank(&hosts, 1, host_of_caller);
  }
  const struct ep_far_greeting right = strangers_hello(hosts.caller, hosts.called);
  int before = support_descriptors();
  for (int i = 0; i < SILENT; i++) {
    silent[i] = near ? strangers_call_near(hosts.called) : strangers_call(hosts.called);
    if (i % 2 && !near)
      strangers_send(silent[i], &right, 100); // and not the rest
  }
  if (weft_ep_connect(hosts.caller, &called, 1, SILENT_MS) != 0)
    fail_msg("rank 1 does not get through: %s", weft_last_error());
  uint32_t taken = support_descriptors() - before - SILENT;
  if (taken > SILENT / 2)
    fail_msg("of %d that say nothing, %u are kept", SILENT, taken);
  for (int i = 0; i < SILENT; i++)
    close(silent[i]);
  hosts_close(&hosts);
}

static void who_says_nothing_keeps_nobody_out(void **state) {
  (void)state;
  expect_through_silence("two");
}

static void who_says_nothing_on_the_same_host_keeps_nobody_out(void **state) {
  (void)state;
  expect_through_silence("one");
}

// --- who answers in a rank's place ---

struct impostor {
  int listener;
  uint8_t answer[sizeof(struct ep_far_greeting) + LATER];
  size_t size;
  bool holds; // the connection open, until it is closed
};

static void *answer_one(void *arg) {
  struct impostor *impostor = arg;
  struct ep_far_greeting hello;
  int fd = accept(impostor->listener, NULL, NULL);
  if (fd < 0)
    return NULL;
  recv(fd, &hello, sizeof hello, MSG_WAITALL);
  send(fd, impostor->answer, impostor->size, MSG_NOSIGNAL);
  if (impostor->holds)
    recv(fd, &hello, sizeof hello, MSG_WAITALL);
  close(fd);
  return NULL;
}

// Calls where the impostor answers; expects that code and text.
static void expect_of_answer(struct hosts *hosts, struct impostor *impostor, uint32_t timeout_ms, int code,
                             const char *text) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  pthread_t thread;
  char address[128];
  impostor->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(impostor->listener, (struct sockaddr *)&at, size), 0);
  assert_int_equal(listen(impostor->listener, 1), 0);
  assert_int_equal(getsockname(impostor->listener, (struct sockaddr *)&at, &size), 0);
  snprintf(address, sizeof address, "elsewhere name 00112233445566778899aabbccddeeff 127.0.0.1:%u", ntohs(at.sin_port));
  assert_int_equal(pthread_create(&thread, NULL, answer_one, impostor), 0);
  int rc = ep_dial(hosts->caller, 0, 1234, address, clock_deadline_ms(timeout_ms));
  pthread_join(thread, NULL);
  close(impostor->listener);
  if (rc != code || !strstr(weft_last_error(), text))
    fail_msg("the call gives %d: %s; not %d with \"%s\"", rc, weft_last_error(), code, text);
  assert_int_equal(connected(hosts->caller), 0);
}

static struct impostor answering(const struct ep_far_greeting *answer, size_t size) {
  struct impostor impostor = {.size = size};
  memcpy(impostor.answer, answer, size < sizeof *answer ? size : sizeof *answer);
  return impostor;
}

#define EXPECT_OF(code, text, ...)                                                                                     \
  do {                                                                                                                 \
    struct ep_far_greeting answer = welcome;                                                                           \
    size_t size = sizeof answer;                                                                                       \
    __VA_ARGS__;                                                                                                       \
    struct impostor impostor = answering(&answer, size);                                                               \
    expect_of_answer(&hosts, &impostor, STRANGERS_DEADLINE_MS, code, text);                                            \
  } while (0)

static void an_answer_that_is_wrong_makes_no_link(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  struct ep_far_greeting welcome = ep_far_greeting_make(hosts.called, EP_WELCOME, hosts.caller->incarnation);
  welcome.greeting.incarnation = 1234;
  EXPECT_OF(WEFT_ERR_PEER_LOST, "hung up", size = 0);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "no greeting", size = 7);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "bytes", size = sizeof answer - 1);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "no greeting", memset(&answer, 'x', sizeof answer));
  EXPECT_OF(WEFT_ERR_VERSION, "layout version", answer.version++);
  EXPECT_OF(WEFT_ERR_VERSION, "layout version", answer.version++, size = 200);
  EXPECT_OF(WEFT_ERR_VERSION, "layout version", answer.version++, size += LATER);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "an answer that is none", answer.greeting.incarnation++);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "an answer that is none", answer.greeting.rank = 2);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "an answer that is none", answer.greeting.kind = EP_HELLO);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "an answer that is none", answer.greeting.kind = EP_YIELD, answer.greeting.rank = 2);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "address of 5000", answer.address_size = 5000);
  EXPECT_OF(WEFT_ERR_PROTOCOL, "name does not end", memset(answer.transport, 'x', sizeof answer.transport));
  EXPECT_OF(WEFT_ERR_PROTOCOL, "address", strcpy(answer.transport, "shm"));
  EXPECT_OF(WEFT_ERR_LIMIT, "refused: so it is", answer.greeting.kind = EP_REFUSED,
            answer.greeting.error = WEFT_ERR_LIMIT, strcpy(answer.greeting.why, "so it is"));
  EXPECT_OF(WEFT_ERR_PROTOCOL, "refused: ?[31mred?", answer.greeting.kind = EP_REFUSED, answer.greeting.error = 7,
            strcpy(answer.greeting.why, "\x1B[31mred\n"));
  EXPECT_OF(WEFT_ERR_PROTOCOL, "refused", answer.greeting.kind = EP_REFUSED, answer.greeting.error = INT32_MIN,
            memset(answer.greeting.why, 'x', sizeof answer.greeting.why));
  struct impostor mute = {.holds = true};
  expect_of_answer(&hosts, &mute, 200, WEFT_ERR_TIMEOUT, "did not answer the call");
  hosts_connect(&hosts);
  hosts_close(&hosts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_shows_no_token_learns_nothing),
      cmocka_unit_test(rubbish_is_not_answered),
      cmocka_unit_test(a_greeting_cut_short_makes_no_link),
      cmocka_unit_test(another_version_is_told_so),
      cmocka_unit_test(a_greeting_that_is_wrong_anywhere_is_refused_in_words),
      cmocka_unit_test(who_says_nothing_keeps_nobody_out),
      cmocka_unit_test(who_says_nothing_on_the_same_host_keeps_nobody_out),
      cmocka_unit_test(an_answer_that_is_wrong_makes_no_link),
  };
  printf("seed %d\n", SEED);
  return cmocka_run_group_tests_name("ep_callers", tests, NULL, NULL);
}
