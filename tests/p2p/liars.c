// Initiators that have the token of a target and lie, or that come at the same time: the target answers each with an
// error or serves it, goes on, and serves the next one.
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "p2p/both.h"
#include "p2p/session/queue.h"
#include "p2p/session/session.h"

enum { LONG_MS = 60000, SHORT_MS = 1000 };

static struct p2p_config of_target = {.listen = "127.0.0.1",
                                      .token = "a token of these tests, long enough",
                                      .lend = "16MB",
                                      .transport = "shm",
                                      .timeout_ms = SHORT_MS,
                                      .forever = true,
                                      .quiet = true};
static pid_t target;
static uint16_t port;

static int start_target(void **state) {
  int fds[2];
  (void)state;
  assert_int_equal(pipe(fds), 0);
  target = fork();
  if (target == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(fds[0]);
    _exit(p2p_target(&of_target, fds[1]) != 0);
  }
  close(fds[1]);
  assert_int_equal(read(fds[0], &port, sizeof port), sizeof port);
  close(fds[0]);
  return 0;
}

// One that waits for its initiator as long as the test does.
static int start_patient_target(void **state) {
  of_target.timeout_ms = LONG_MS;
  int rc = start_target(state);
  of_target.timeout_ms = SHORT_MS;
  return rc;
}

static int end_target(void **state) {
  int status;
  (void)state;
  assert_int_equal(waitpid(target, &status, WNOHANG), 0); // it lives
  kill(target, SIGKILL);
  assert_int_equal(waitpid(target, &status, 0), target);
  return 0;
}

static void begin(struct p2p_session *session) {
  struct p2p_config config = of_target;
  char address[64];
  config.timeout_ms = LONG_MS;
  assert_int_equal(p2p_session_open(session, &config, NULL), 0);
  snprintf(address, sizeof address, "127.0.0.1:%u", port);
  assert_int_equal(weft_agent_meet(session->agent, address, LONG_MS, &session->peer), 0);
}

// Says bytes; returns how the target answers.
static int say(struct p2p_session *session, const void *bytes, size_t size) {
  json_t *answer = NULL;
  assert_int_equal(weft_agent_notify(session->agent, session->peer, bytes, (uint32_t)size), 0);
  int rc = p2p_receive(session, 0, &answer);
  json_decref(answer);
  return rc;
}

static int say_text(struct p2p_session *session, const char *text) {
  return say(session, text, strlen(text));
}

// Receives the next message that is no reminder to wait, and writes its word. Returns 0, or the failure.
static int receive_word(struct p2p_session *session, char word[P2P_SHOWN], uint32_t *waits) {
  int rc = 0;
  for (;;) {
    json_t *message = NULL;
    rc = p2p_receive(session, 0, &message);
    snprintf(word, P2P_SHOWN, "%s", p2p_text(message, "say"));
    json_decref(message);
    if (rc != 0 || strcmp(word, "wait") != 0)
      return rc;
    ++*waits;
  }
}

#define HELLO "{\"say\":\"hello\",\"version\":3,\"bytes\":1048576}"

// An honest initiator is served, from its first message to its last.
static void assert_serves(void) {
  struct p2p_session session;
  char word[P2P_SHOWN];
  uint32_t waits = 0;
  begin(&session);
  assert_int_equal(weft_agent_notify(session.agent, session.peer, HELLO, strlen(HELLO)), 0);
  assert_int_equal(receive_word(&session, word, &waits), 0); // the one before it may not have ended yet
  assert_int_equal(say_text(&session, "{\"say\":\"fill\",\"seed\":3,\"bytes\":1048576}"), 0);
  assert_int_equal(say_text(&session, "{\"say\":\"check\",\"seed\":3,\"bytes\":1048576}"), 0);
  assert_int_equal(say_text(&session, "{\"say\":\"check\",\"seed\":4,\"bytes\":1048576}"), WEFT_ERR_DATA);
  assert_int_equal(say_text(&session, "{\"say\":\"bye\"}"), 0);
  p2p_session_close(&session);
}

#define LOAD(bytes, depth, iterations, warmup, region)                                                                 \
  "{\"say\":\"load\",\"op\":1,\"bytes\":" bytes ",\"depth\":" depth ",\"iterations\":" iterations                      \
  ",\"warmup\":" warmup ",\"region\":" region ",\"address\":4096}"

static void test_lies_are_reported(void **state) {
  static const char *const lies[] = {
      "{\"say\":\"hello\",\"version\":1,\"bytes\":8}",
      "{\"say\":\"hello\",\"version\":3,\"bytes\":0}",
      "{\"say\":\"hello\",\"version\":3,\"bytes\":-8}",
      "{\"say\":\"hello\",\"version\":3,\"bytes\":\"8\"}",
      "{\"say\":\"hello\",\"version\":3,\"bytes\":16777217}",
      "{\"say\":\"hello\",\"version\":3,\"bytes\":9223372036854775807}",
      "{\"say\":\"fill\",\"seed\":1,\"bytes\":1048577}",
      "{\"say\":\"check\",\"seed\":1,\"bytes\":9223372036854775807}",
      LOAD("8", "4294967296", "10", "1", "1"), // 0 in 32 bits
      LOAD("8", "0", "10", "1", "1"),
      LOAD("0", "1", "10", "1", "1"),
      LOAD("1048577", "1", "10", "1", "1"),
      LOAD("8", "1", "4294967296", "1", "1"),
      LOAD("8", "1", "100000001", "1", "1"),
      LOAD("8", "1", "10", "4294967297", "1"),
      LOAD("8", "16", "10", "1", "12345678901"), // a region that nobody has
      "{\"say\":\"dance \\u001b[31m\"}",
  };
  struct p2p_session session;
  (void)state;
  begin(&session);
  assert_int_equal(say_text(&session, HELLO), 0);
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    int rc = say_text(&session, lies[i]);
    if (rc >= 0 || rc == WEFT_ERR_PEER_LOST || !strstr(weft_last_error(), "at the peer: "))
      fail_msg("%s: %d, %s", lies[i], rc, weft_last_error());
    assert_null(strchr(weft_last_error(), '\x1b'));
  }
  assert_int_equal(say_text(&session, "{\"say\":\"bye\"}"), 0);
  p2p_session_close(&session);
  assert_serves();
}

// The reason of a failure arrives whole, however long it is.
static void test_a_long_reason(void **state) {
  char word[300], text[400];
  struct p2p_session session;
  (void)state;
  memset(word, 'x', sizeof word - 1);
  word[sizeof word - 1] = '\0';
  snprintf(text, sizeof text, "{\"say\":\"%s\"}", word);
  begin(&session);
  assert_int_equal(say_text(&session, HELLO), 0);
  assert_int_equal(say_text(&session, text), WEFT_ERR_PROTOCOL);
  assert_non_null(strstr(weft_last_error(), "is not a request of weft p2p: is the initiator of another version?"));
  p2p_session_close(&session);
}

// What is no message ends the session of who said it.
static void test_what_is_no_message(void **state) {
  static char deep[WEFT_AGENT_MAX_NOTIFICATION];
  static const char *const words[] = {"", "no JSON", "[1]", "{\"say\":1}", "\x03", "{\"say\":\"hello\"", deep};
  (void)state;
  memset(deep, '[', sizeof deep - 1);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    struct p2p_session session;
    begin(&session);
    assert_int_equal(weft_agent_notify(session.agent, session.peer, words[i], (uint32_t)strlen(words[i])), 0);
    p2p_session_close(&session);
    assert_serves();
  }
}

// What the other side says of a failure is cleaned before people see it, and its code is one of ours.
static void test_what_a_liar_says_of_failures(void **state) {
  static const char *const codes[] = {"-4294967295", "5", "0", "\"x\"", "-2147483648"};
  struct p2p_session session;
  (void)state;
  begin(&session);
  struct p2p_session other = session; // hears what it says itself
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    char text[128];
    json_t *message = NULL;
    snprintf(text, sizeof text, "{\"say\":\"failed\",\"code\":%s,\"text\":\"\\u001b[2Jgone\"}", codes[i]);
    other.peer = WEFT_PEER_SELF;
    assert_int_equal(weft_agent_notify(other.agent, WEFT_PEER_SELF, text, (uint32_t)strlen(text)), 0);
    assert_int_equal(p2p_receive(&other, 0, &message), WEFT_ERR_PROTOCOL);
    assert_string_equal(weft_last_error(), "at the peer: ?[2Jgone");
  }
  p2p_session_close(&session);
}

static void send_text(struct p2p_session *session, const char *text) {
  assert_int_equal(weft_agent_notify(session->agent, session->peer, text, (uint32_t)strlen(text)), 0);
}

// A caller that connects while another one is served waits, and is served then, whatever it sends meanwhile.
static void test_turns(void **state) {
  enum { WAITING = 3 };
  struct p2p_session first, others[WAITING];
  char word[P2P_SHOWN];
  uint32_t waits = 0;
  (void)state;
  begin(&first);
  assert_int_equal(say_text(&first, HELLO), 0);
  for (int i = 0; i < WAITING; i++) {
    json_t *message = NULL;
    begin(&others[i]);
    send_text(&others[i], "{\"say\":\"fill\",\"seed\":1,\"bytes\":1}"); // without a hello: nobody hears it
    send_text(&others[i], HELLO);
    send_text(&others[i], HELLO);
    assert_int_equal(p2p_receive(&others[i], 0, &message), 0);
    assert_string_equal(p2p_text(message, "say"), "wait");
    json_decref(message);
  }
  assert_int_equal(say_text(&first, "{\"say\":\"fill\",\"seed\":3,\"bytes\":8}"), 0);
  p2p_session_close(&others[1]);
  assert_int_equal(say_text(&first, "{\"say\":\"bye\"}"), 0);
  for (int i = 0; i < WAITING; i += 2) {
    assert_int_equal(receive_word(&others[i], word, &waits), 0);
    assert_string_equal(word, "ready");
    send_text(&others[i], "{\"say\":\"bye\"}");
    assert_int_equal(receive_word(&others[i], word, &waits), 0);
    assert_string_equal(word, "bye");
  }
  p2p_session_close(&others[0]);
  p2p_session_close(&others[2]);
  p2p_session_close(&first);
}

// The number of places is limited: a caller that finds none gets an error, and a caller that has one keeps it.
static void test_more_than_may_wait(void **state) {
  static struct p2p_session all[P2P_MAX_WAITING + 2];
  enum { ALL = sizeof all / sizeof *all };
  char word[P2P_SHOWN];
  uint32_t waits = 0;
  (void)state;
  begin(&all[0]);
  assert_int_equal(say_text(&all[0], HELLO), 0);
  for (int i = 1; i < ALL - 1; i++) {
    begin(&all[i]);
    assert_int_equal(say_text(&all[i], HELLO), 0);                                       // "wait"
    assert_int_equal(say_text(&all[0], "{\"say\":\"fill\",\"seed\":3,\"bytes\":8}"), 0); // served on
  }
  begin(&all[ALL - 1]);
  send_text(&all[ALL - 1], HELLO);
  assert_int_equal(receive_word(&all[ALL - 1], word, &waits), WEFT_ERR_BUSY);
  assert_non_null(strstr(weft_last_error(), "64 initiators wait"));
  assert_int_equal(say_text(&all[0], "{\"say\":\"bye\"}"), 0);
  assert_int_equal(receive_word(&all[1], word, &waits), 0);
  assert_string_equal(word, "ready");
  for (int i = 0; i < ALL; i++)
    p2p_session_close(&all[i]);
}

// One that does not wait for the answer to its good-bye has been served well: a target that ends with it ends so. Now
// and then the good-bye itself is lost, for an agent that closes does not wait until its messages are taken.
static void test_a_hasty_end(void **state) {
  enum { TIMES = 10 };
  int well = 0;
  of_target.forever = false;
  for (int i = 0; i < TIMES; i++) {
    struct p2p_session session;
    int status = -1;
    start_target(state);
    begin(&session);
    assert_int_equal(say_text(&session, HELLO), 0);
    kill(target, SIGSTOP); // until it has both the good-bye and the news that its peer has left
    send_text(&session, "{\"say\":\"bye\"}");
    p2p_session_close(&session);
    kill(target, SIGCONT);
    assert_int_equal(waitpid(target, &status, 0), target);
    assert_true(WIFEXITED(status));
    well += WEXITSTATUS(status) == 0;
  }
  of_target.forever = true;
  assert_true(well > TIMES / 2);
}

// --- both ways at once ---

static json_t *next_message(struct p2p_session *session, const char *word) {
  json_t *message = NULL;
  assert_int_equal(p2p_receive(session, 0, &message), 0);
  assert_string_equal(p2p_text(message, "say"), word);
  return message;
}

static uint64_t next_number(struct p2p_session *session, const char *word, const char *name) {
  uint64_t value;
  json_t *message = next_message(session, word);
  assert_int_equal(p2p_number(message, name, &value), 0);
  json_decref(message);
  return value;
}

// Up to where the target is warm. The buffer is the caller's to close.
static void begin_load(struct p2p_session *session, struct p2p_buffer *buffer) {
  char load[256];
  begin(session);
  assert_int_equal(say_text(session, HELLO), 0);
  assert_int_equal(p2p_buffer_open(buffer, session->agent, P2P_MEMORY_HOST, 0, 65536), 0);
  snprintf(load, sizeof load,
           "{\"say\":\"load\",\"op\":1,\"bytes\":4096,\"depth\":4,\"iterations\":100,\"warmup\":1,\"region\":%" PRIu64
           ",\"address\":%" PRIuPTR "}",
           (uint64_t)buffer->region, (uintptr_t)buffer->address);
  send_text(session, load);
  json_decref(next_message(session, "warm"));
}

static double count_of(struct p2p_session *session, uint64_t from, uint64_t until) {
  char text[128];
  snprintf(text, sizeof text, "{\"say\":\"count\",\"from\":%" PRIu64 ",\"until\":%" PRIu64 "}", from, until);
  send_text(session, text);
  json_t *counted = next_message(session, "counted");
  double transfers = json_number_value(json_object_get(counted, "transfers"));
  json_decref(counted);
  return transfers;
}

// The target begins when it is asked to, and goes on after its own part, until the initiator has had enough as well.
// Only what lies in the window that it is asked for counts.
static void test_a_load_ends_with_the_initiators(void **state) {
  static const struct {
    int from, until; // eighths of the run
    double least, most;
  } windows[] = {{0, 8, 100, 1e12}, {2, 1, 0, 0}, {-16, -8, 0, 0}, {16, 24, 0, 0}};
  (void)state;
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    struct p2p_session session;
    struct p2p_buffer buffer = {0};
    begin_load(&session, &buffer);
    volatile char *first = buffer.address;
    *first = 'x';
    send_text(&session, "{\"say\":\"clock\"}");
    uint64_t before = next_number(&session, "clock", "ns");
    assert_int_equal(*first, 'x'); // nothing was written since
    send_text(&session, "{\"say\":\"go\",\"least\":1000}");
    json_decref(next_message(&session, "running"));
    json_decref(next_message(&session, "enough"));
    uint64_t until = clock_deadline_ms(LONG_MS);
    *first = 'x';
    while (*first == 'x')
      assert_false(clock_passed(until)); // it goes on
    send_text(&session, "{\"say\":\"enough\"}");
    json_t *loaded = next_message(&session, "loaded");
    uint64_t begun, ended;
    assert_int_equal(p2p_number(loaded, "begun", &begun), 0);
    assert_int_equal(p2p_number(loaded, "ended", &ended), 0);
    json_decref(loaded);
    assert_true(before <= begun && begun < ended);
    int64_t eighth = (int64_t)(ended - begun) / 8 + 1;
    double counted =
        count_of(&session, begun + (uint64_t)(eighth * windows[i].from), begun + (uint64_t)(eighth * windows[i].until));
    assert_true(counted >= windows[i].least && counted <= windows[i].most);
    assert_int_equal(say_text(&session, "{\"say\":\"bye\"}"), 0);
    p2p_buffer_close(&buffer);
    p2p_session_close(&session);
  }
}

static void test_lies_in_a_load(void **state) {
  static const struct {
    const char *go, *then;
    int rc;
  } lies[] = {
      {"{\"say\":\"warm\"}", NULL, WEFT_ERR_PROTOCOL},
      {"{\"say\":\"go\"}", NULL, WEFT_ERR_PROTOCOL},
      {"{\"say\":\"go\",\"least\":2000000001}", NULL, WEFT_ERR_PROTOCOL},
      {"{\"say\":\"go\",\"least\":1000}", NULL, WEFT_ERR_TIMEOUT}, // it never says that it had enough
      {"{\"say\":\"go\",\"least\":2000000000}", "{\"say\":\"bye\"}", WEFT_ERR_PROTOCOL},
      {"{\"say\":\"go\",\"least\":2000000000}", "\x01", WEFT_ERR_PROTOCOL}, // a ping
  };
  (void)state;
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    struct p2p_session session;
    struct p2p_buffer buffer = {0};
    char word[P2P_SHOWN];
    uint32_t waits = 0;
    begin_load(&session, &buffer);
    send_text(&session, lies[i].go);
    if (lies[i].then)
      send_text(&session, lies[i].then);
    int rc = receive_word(&session, word, &waits);
    while (rc == 0 && (strcmp(word, "running") == 0 || strcmp(word, "enough") == 0))
      rc = receive_word(&session, word, &waits);
    if (rc != lies[i].rc || !strstr(weft_last_error(), "at the peer: "))
      fail_msg("%s: %d, %s", lies[i].go, rc, rc < 0 ? weft_last_error() : word);
    assert_int_equal(say_text(&session, "{\"say\":\"bye\"}"), 0);
    p2p_buffer_close(&buffer);
    p2p_session_close(&session);
  }
}

// --- a target that lies ---

// Lends its buffer by a pipe, and answers each message with the next of `answers`.
static void be_liar(const char *const *answers, int out) {
  struct p2p_session session;
  struct p2p_buffer buffer = {0};
  struct p2p_remote lent;
  json_t *message = NULL;
  bool well = p2p_session_open(&session, &of_target, "127.0.0.1:0") == 0 &&
              p2p_buffer_open(&buffer, session.agent, P2P_MEMORY_HOST, 0, 65536) == 0 &&
              weft_agent_port(session.agent, &port) == 0;
  lent = (struct p2p_remote){.region = buffer.region, .address = (uintptr_t)buffer.address};
  well = well && write(out, &port, sizeof port) == sizeof port && write(out, &lent, sizeof lent) == sizeof lent;
  for (; well && *answers; answers++) {
    well = p2p_receive(&session, LONG_MS, &message) == 0 &&
           weft_agent_notify(session.agent, session.peer, *answers, (uint32_t)strlen(*answers)) == 0;
    json_decref(message);
  }
  while (well && p2p_receive(&session, LONG_MS, &message) == 0) // until the initiator leaves
    json_decref(message);
  _exit(0);
}

#define CLOCK  "{\"say\":\"clock\",\"ns\":1}"
#define CLOCKS CLOCK, CLOCK, CLOCK, CLOCK, CLOCK, CLOCK, CLOCK, CLOCK

static void test_a_target_that_lies_of_a_load(void **state) {
  static const struct {
    const char *answers[16];
    const char *sentence;
  } lies[] = {
      {{"{\"say\":\"loaded\",\"gbps\":1e9}"}, "the peer sent \"loaded\" where \"warm\" was expected"},
      {{"{\"say\":\"warm\"}", "{\"say\":\"warm\"}"}, "the peer sent \"warm\" where \"clock\" was expected"},
      {{"{\"say\":\"warm\"}", "{\"say\":\"clock\"}"}, "lacks the number \"ns\""},
      {{"{\"say\":\"warm\"}", CLOCKS, "{\"say\":\"enough\"}"}, "\"enough\" where \"running\" was expected"},
      {{"{\"say\":\"warm\"}", CLOCKS, "{\"say\":\"running\"}", "{\"say\":\"loaded\"}"},
       "\"loaded\" where \"enough\" was expected"},
      {{"{\"say\":\"warm\"}", CLOCKS}, "the peer did not begin its load within 1000 ms"},
      {{"{\"say\":\"warm\"}", CLOCKS, "{\"say\":\"running\"}"}, "the peer did not end its load within 1000 ms"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    struct p2p_session session;
    struct p2p_buffer buffer = {0};
    struct p2p_remote lent;
    struct p2p_result result = {0};
    const struct p2p_load load = {
        .op = WEFT_TRANSFER_WRITE, .bytes = 4096, .iterations = 10, .warmup = 1, .depth = 4, .transport = "shm"};
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t liar = fork();
    if (liar == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      be_liar(lies[i].answers, fds[1]);
    }
    assert_int_equal(read(fds[0], &port, sizeof port), sizeof port);
    assert_int_equal(read(fds[0], &lent, sizeof lent), sizeof lent);
    close(fds[0]);
    close(fds[1]);
    begin(&session);
    session.timeout_ms = SHORT_MS;
    assert_int_equal(p2p_buffer_open(&buffer, session.agent, P2P_MEMORY_HOST, 0, 65536), 0);
    assert_int_equal(p2p_await_region(&session, lent.region), 0);
    int rc = p2p_both_lead(&session, &load, &buffer, &lent, &result);
    if ((rc != WEFT_ERR_PROTOCOL && rc != WEFT_ERR_TIMEOUT) || !strstr(weft_last_error(), lies[i].sentence))
      fail_msg("%zu: %d, %s", i, rc, rc < 0 ? weft_last_error() : "");
    assert_true(result.gbps == 0 && result.peer_gbps == 0);
    p2p_buffer_close(&buffer);
    p2p_session_close(&session);
    kill(liar, SIGKILL);
    assert_int_equal(waitpid(liar, NULL, 0), liar);
  }
}

// One who says hello and then nothing has its time, and those who wait are served then.
static void test_silent_ones(void **state) {
  struct p2p_session silent, mute;
  (void)state;
  begin(&mute); // does not even say hello: it is nobody
  begin(&silent);
  assert_int_equal(say_text(&silent, HELLO), 0);
  struct p2p_session next;
  char word[P2P_SHOWN];
  uint32_t waits = 0;
  begin(&next);
  send_text(&next, HELLO);
  assert_int_equal(receive_word(&next, word, &waits), 0); // not before the silent one's time is over
  assert_string_equal(word, "ready");
  assert_true(waits > 0);
  assert_int_equal(say_text(&next, "{\"say\":\"bye\"}"), 0);
  p2p_session_close(&next);
  p2p_session_close(&silent);
  p2p_session_close(&mute);
  assert_serves();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_lies_are_reported, start_target, end_target),
      cmocka_unit_test_setup_teardown(test_a_long_reason, start_target, end_target),
      cmocka_unit_test_setup_teardown(test_what_is_no_message, start_target, end_target),
      cmocka_unit_test_setup_teardown(test_what_a_liar_says_of_failures, start_target, end_target),
      cmocka_unit_test_setup_teardown(test_turns, start_patient_target, end_target),
      cmocka_unit_test_setup_teardown(test_more_than_may_wait, start_patient_target, end_target),
      cmocka_unit_test(test_a_hasty_end),
      cmocka_unit_test_setup_teardown(test_a_load_ends_with_the_initiators, start_patient_target, end_target),
      cmocka_unit_test_setup_teardown(test_lies_in_a_load, start_target, end_target),
      cmocka_unit_test(test_a_target_that_lies_of_a_load),
      cmocka_unit_test_setup_teardown(test_silent_ones, start_target, end_target),
  };
  return cmocka_run_group_tests_name("initiators that lie", tests, NULL, NULL);
}
