// Callers that have the token of a listener but break the protocol: each loses its own connection.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/exchange/support/meeting.h"
#include "agent/exchange/support/raw_peer.h"
#include "cmocka_all.h"
#include "support/wait.h"

static uint8_t in[65536];

enum lie {
  HONEST,
  FLIPPED,  // on its way, by somebody who does not have the token
  REPEATED, // by the same
  NO_BLOB,
  OUT_OF_TURN,
  ADOPTED_FIRST,
  UNKNOWN,
  LENGTH_ZERO,
  LENGTH_HUGE,
  OLD,
  NEW,
  LIES
};

static void say(struct raw *raw, enum lie lie, weft_agent_t *other, weft_agent_t *listener) {
  size_t size;
  uint8_t *content = raw_metadata(other,
                                  lie == NEW   ? 9
                                  : lie == OLD ? 1
                                               : CONNECTION_VERSION,
                                  lie == NEW   ? 8
                                  : lie == OLD ? 1
                                               : CONNECTION_MINIMUM,
                                  &size);
  raw->flips = lie == FLIPPED;
  if (lie == NO_BLOB)
    memset(content + 4, 'x', size - 4);
  if (lie == OUT_OF_TURN)
    raw_say(raw, CONNECTION_UPDATE, content + 4, size - 4);
  else if (lie == ADOPTED_FIRST)
    raw_say(raw, CONNECTION_ADOPTED, NULL, 0);
  else if (lie == UNKNOWN)
    raw_say(raw, (enum connection_kind)99, content, size);
  else if (lie == LENGTH_ZERO)
    raw_say_length(raw, 0, CONNECTION_METADATA, content, size);
  else if (lie == LENGTH_HUGE)
    raw_say_length(raw, 200 << 20, CONNECTION_METADATA, content, size);
  else
    raw_say(raw, CONNECTION_METADATA, content, size);
  free(content);
  raw->repeats = lie == REPEATED;
  if (lie == HONEST || lie == REPEATED)
    raw_say_proof(raw, other, listener);
}

static void test_lies(void **state) {
  (void)state;
  static struct crowd_member listener, other;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&other, "other", meet_token);
  size_t loaded = 0;
  for (enum lie lie = HONEST; lie < LIES; lie++) {
    struct raw raw;
    raw_open(&raw, meet_port(&listener));
    say(&raw, lie, other.agent, listener.agent);
    bool known = lie == HONEST || lie == REPEATED; // its first was right, and so was its proof
    if (lie == HONEST)
      shutdown(raw.fd, SHUT_WR);
    size_t size = raw_hear(&raw, in, sizeof in);
    raw_close(&raw);
    loaded += known;
    if (known)
      crowd_await(&listener, LOST, "other", loaded); // its connection has ended
    assert_int_equal(crowd_count(&listener, LOADED, "other"), loaded);
    if (lie == NO_BLOB || lie == OLD || lie == NEW) { // it receives the reason
      assert_int_equal(in[4], CONNECTION_REFUSED);
      assert_int_equal(in[5], lie == NO_BLOB ? -WEFT_ERR_PROTOCOL : -WEFT_ERR_VERSION);
    } else if (!known) {
      assert_int_equal(size, 0);
    }
  }
  crowd_close(&other);
  crowd_close(&listener);
}

static size_t held(struct crowd_member *listener, uint32_t *num_taken) {
  struct agent_sockets *meet = listener->agent->services->sockets;
  pthread_mutex_lock(&listener->agent->housekeeping);
  size_t bytes = meet->held;
  *num_taken = meet->num_taken;
  pthread_mutex_unlock(&listener->agent->housekeeping);
  return bytes;
}

struct wanted {
  struct crowd_member *listener;
  size_t bytes;
};

static bool is_held(void *arg) {
  struct wanted *wanted = arg;
  uint32_t taken;
  return held(wanted->listener, &taken) == wanted->bytes;
}

static void await_held(struct crowd_member *listener, size_t bytes) {
  struct wanted wanted = {listener, bytes};
  assert_true(support_wait(is_held, &wanted, SUPPORT_DEADLINE_MS));
}

// Messages that do not come to their end, on many connections: what they hold together is bounded, and a lawful caller
// is served.
static void test_memory(void **state) {
  (void)state;
  enum { LIARS = 8, PART = 15 << 20 };
  static struct crowd_member listener, caller;
  static struct raw raw[LIARS];
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&caller, "caller", meet_token);
  uint8_t *part = calloc(1, PART);
  assert_non_null(part);
  uint32_t taken;
  for (int i = 0; i < LIARS; i++) {
    raw_open(&raw[i], meet_port(&listener));
    raw_say_length(&raw[i], CONNECTION_MAX_MESSAGE, CONNECTION_METADATA, part, PART);
    assert_true(held(&listener, &taken) <= CONNECTION_MAX_HELD);
  }
  meet(&caller, &listener);
  assert_true(held(&listener, &taken) <= CONNECTION_MAX_HELD);
  assert_true(taken < LIARS + 1); // those that held most have gone
  for (int i = 0; i < LIARS; i++)
    raw_close(&raw[i]);
  free(part);
  crowd_close(&caller);
  crowd_close(&listener);
}

// Changes what is on its way out by `more`, and returns it.
static size_t sending(struct crowd_member *listener, size_t more) {
  struct agent_sockets *meet = listener->agent->services->sockets;
  pthread_mutex_lock(&listener->agent->housekeeping);
  size_t bytes = meet->sending += more;
  pthread_mutex_unlock(&listener->agent->housekeeping);
  return bytes;
}

// Callers that ask for metadata and do not read it: what waits for them all is bounded, and a lawful caller is served.
static void test_unread(void **state) {
  (void)state;
  enum { REGIONS = 4000, LIARS = 8, SPARE = 1 << 20, OTHERS = CONNECTION_MAX_SENDING - SPARE };
  static struct crowd_member listener, other, caller;
  static struct raw raw[LIARS];
  static char memory[REGIONS];
  int least = 1; // bytes of a socket's buffer, which the kernel rounds up
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&other, "other", meet_token);
  meet_caller(&caller, "caller", meet_token);
  setsockopt(listener.agent->services->sockets->listening_fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  for (int i = 0; i < REGIONS; i++) {
    weft_region_t region;
    what.address = memory + i;
    what.length = 1;
    assert_int_equal(weft_agent_register(listener.agent, &what, &region), 0);
  }
  size_t size;
  uint8_t *content = raw_metadata(other.agent, CONNECTION_VERSION, CONNECTION_MINIMUM, &size);
  sending(&listener, OTHERS); // as if there were some hundreds more
  for (int i = 0; i < LIARS; i++) {
    raw_open(&raw[i], meet_port(&listener));
    raw_say(&raw[i], CONNECTION_METADATA, content, size);
    assert_true(sending(&listener, 0) <= CONNECTION_MAX_SENDING);
  }
  uint32_t taken;
  meet(&caller, &listener);
  assert_true(sending(&listener, 0) <= CONNECTION_MAX_SENDING);
  held(&listener, &taken);
  assert_true(taken < LIARS + 1); // those that kept it waiting longest have gone
  for (int i = 0; i < LIARS; i++)
    raw_close(&raw[i]);
  await_held(&listener, 0);
  sending(&listener, (size_t)0 - OTHERS);
  free(content);
  crowd_close(&caller);
  crowd_close(&other);
  assert_true(sending(&listener, 0) <= SPARE);
  crowd_close(&listener);
}

// A message that comes a byte at a time gets no more time for it.
static void test_slow(void **state) {
  (void)state;
  static struct crowd_member listener, other;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&other, "other", meet_token);
  size_t size;
  uint8_t *content = raw_metadata(other.agent, CONNECTION_VERSION, CONNECTION_MINIMUM, &size);
  struct raw raw;
  raw_open(&raw, meet_port(&listener));
  raw_say_length(&raw, (uint32_t)size + 1, CONNECTION_METADATA, content, 1);
  await_held(&listener, CONNECTION_HEAD + 1);
  uint64_t due = raw_due(&listener);
  for (size_t i = 1; i < 16; i++) {
    raw_say_bytes(&raw, content + i, 1);
    await_held(&listener, CONNECTION_HEAD + 1 + i);
    assert_true(raw_due(&listener) == due);
  }
  raw_close(&raw);
  free(content);
  crowd_close(&other);
  crowd_close(&listener);
}

// Metadata that is not proved counts as held, for a bounded time.
static void test_unproved(void **state) {
  (void)state;
  static struct crowd_member listener, other;
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&other, "other", meet_token);
  size_t size;
  uint8_t *content = raw_metadata(other.agent, CONNECTION_VERSION, CONNECTION_MINIMUM, &size);
  struct raw raw;
  raw_open(&raw, meet_port(&listener));
  raw_say(&raw, CONNECTION_METADATA, content, size);
  assert_true(raw_take(&raw, in, sizeof in) > 0);
  await_held(&listener, size - 4); // without the versions
  assert_true(raw_due(&listener) > 0);
  raw_close(&raw);
  await_held(&listener, 0);
  assert_int_equal(crowd_count(&listener, LOADED, NULL), 0);
  free(content);
  crowd_close(&other);
  crowd_close(&listener);
}

// One peer has some connections, and no more.
static void test_connections_of_one(void **state) {
  (void)state;
  enum { MANY = 12 };
  static struct crowd_member listener, other;
  static struct raw raw[MANY];
  meet_listener(&listener, "listener", "127.0.0.1:0");
  meet_caller(&other, "other", meet_token);
  int refused = 0;
  for (int i = 0; i < MANY; i++) {
    raw_open(&raw[i], meet_port(&listener));
    say(&raw[i], HONEST, other.agent, listener.agent);
    assert_true(raw_take(&raw[i], in, sizeof in) > 0);
    assert_true(in[4] == CONNECTION_REFUSED || in[4] == CONNECTION_ADOPTED);
    refused += in[4] == CONNECTION_REFUSED && in[5] == -WEFT_ERR_LIMIT;
  }
  assert_int_equal(refused, MANY - 8);
  for (int i = 0; i < MANY; i++)
    raw_close(&raw[i]);
  crowd_close(&other);
  crowd_close(&listener);
}

static int run(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lies), cmocka_unit_test(test_memory),   cmocka_unit_test(test_unread),
      cmocka_unit_test(test_slow), cmocka_unit_test(test_unproved), cmocka_unit_test(test_connections_of_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
  return meet_run(run);
}
