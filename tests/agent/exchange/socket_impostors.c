// Callers that have the token and present, on their own connection, the metadata of another agent that the listener
// already knows. They are refused, and the known agent keeps its entry and goes on.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/exchange/support/meeting.h"
#include "agent/exchange/support/raw_peer.h"
#include "base/wire/wire.h"
#include "cmocka_all.h"
#include "support/wait.h"

enum { BYTES = 4096, HEAD = CONNECTION_HEAD + 4 }; // of METADATA before the listener's proof

// What stands in the place of the proof of the agent that is shown.
enum lie {
  NONE,
  SHORT,
  ZEROS,
  OWN_KEY,       // by the liar's own key
  REFLECTED,     // the other's proof
  RECORDED,      // the shown agent's, of another connection of the same two
  OF_OTHER_ROLE, // the shown agent's, if it were on the other end of this connection
  GOODBYE_UNPROVED,
  UPDATE_UNPROVED,
  ADOPTED_UNPROVED,
  LIES
};

static uint8_t in[65536];
static struct crowd_member victim, shown, liar; // the victim knows the shown one
static weft_peer_t known;
static struct weft_descriptor here, there;

static void *allocate(weft_agent_t *agent, struct weft_descriptor *of) {
  void *memory;
  assert_int_equal(weft_agent_allocate(agent, WEFT_MEMORY_HOST, BYTES, 0, &of->region, &memory), 0);
  of->address = (uintptr_t)memory;
  of->length = BYTES;
  return memory;
}

static void check_transfer(void) {
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  static uint8_t fill;
  memset((void *)(uintptr_t)here.address, ++fill, BYTES);
  assert_int_equal(weft_dlist_create(victim.agent, WEFT_PEER_SELF, &here, 1, &local), 0);
  assert_int_equal(weft_dlist_create(victim.agent, known, &there, 1, &remote), 0);
  assert_int_equal(weft_transfer_create(victim.agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer), 0);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(*(uint8_t *)(uintptr_t)there.address, fill);
  assert_int_equal(weft_transfer_free(transfer), 0);
  assert_int_equal(weft_dlist_free(local), 0);
  assert_int_equal(weft_dlist_free(remote), 0);
}

static bool has_no_connection(void *arg) {
  (void)arg;
  pthread_mutex_lock(&victim.agent->housekeeping);
  bool none = TAILQ_EMPTY(&victim.agent->services->sockets->connections) && victim.agent->services->sockets->held == 0;
  pthread_mutex_unlock(&victim.agent->housekeeping);
  return none;
}

// The shown one is known as before.
static void check_unharmed(void) {
  assert_true(support_wait(has_no_connection, NULL, SUPPORT_DEADLINE_MS));
  assert_int_equal(weft_agent_check(victim.agent, known), 0);
  assert_int_equal(crowd_count(&victim, LOADED, NULL), 1);
  assert_int_equal(crowd_count(&victim, UPDATED, NULL), 0);
  assert_int_equal(crowd_count(&victim, LOST, NULL) + crowd_count(&victim, LEFT, NULL), 0);
  check_transfer();
}

static int open_all(void **state) {
  (void)state;
  struct weft_descriptor later;
  meet_listener(&victim, "victim", "127.0.0.1:0");
  meet_listener(&shown, "shown", "127.0.0.1:0");
  meet_caller(&liar, "liar", meet_token);
  allocate(victim.agent, &here);
  allocate(shown.agent, &there);
  known = crowd_load(victim.agent, shown.agent);
  crowd_load(shown.agent, victim.agent);
  allocate(shown.agent, &later); // so that its metadata changes what is known
  return 0;
}

static int close_all(void **state) {
  (void)state;
  crowd_close(&liar);
  crowd_close(&shown);
  crowd_close(&victim);
  return 0;
}

static void make_proof(struct raw *raw, enum lie lie, bool calls, const uint8_t *others, uint8_t *proof) {
  struct raw other;
  memset(proof, 0, HMAC_SIZE);
  if (lie == OWN_KEY)
    raw_prove(raw, calls, calls, liar.agent, victim.agent, proof);
  else if (lie == REFLECTED && others)
    memcpy(proof, others, HMAC_SIZE);
  else if (lie == OF_OTHER_ROLE)
    raw_prove(raw, !calls, !calls, shown.agent, victim.agent, proof);
  if (lie != RECORDED)
    return;
  raw_open(&other, meet_port(&victim));
  raw_prove(&other, calls, calls, shown.agent, victim.agent, proof);
  raw_close(&other);
}

// --- the liar calls ---

static void say_unproved(struct raw *raw, enum lie lie, const uint8_t *content, size_t size) {
  uint8_t proof[HMAC_SIZE];
  make_proof(raw, lie, true, in + HEAD, proof);
  if (lie == GOODBYE_UNPROVED)
    raw_say(raw, CONNECTION_GOODBYE, NULL, 0);
  else if (lie == UPDATE_UNPROVED)
    raw_say(raw, CONNECTION_UPDATE, content + 4, size - 4);
  else if (lie == ADOPTED_UNPROVED)
    raw_say(raw, CONNECTION_ADOPTED, NULL, 0);
  else if (lie != NONE)
    raw_say(raw, CONNECTION_PROOF, proof, lie == SHORT ? HMAC_SIZE - 1 : HMAC_SIZE);
}

static void test_caller(void **state) {
  (void)state;
  for (enum lie lie = NONE; lie < LIES; lie++) {
    struct raw raw;
    size_t size;
    uint8_t *content = raw_metadata(shown.agent, CONNECTION_VERSION, CONNECTION_MINIMUM, &size);
    raw_open(&raw, meet_port(&victim));
    raw_say(&raw, CONNECTION_METADATA, content, size);
    assert_true(raw_take(&raw, in, sizeof in) > 0);
    assert_int_equal(in[4], CONNECTION_METADATA);
    say_unproved(&raw, lie, content, size);
    if (lie >= ZEROS && lie <= OF_OTHER_ROLE) { // it receives the reason
      assert_true(raw_take(&raw, in, sizeof in) > 0);
      assert_int_equal(in[4], CONNECTION_REFUSED);
      assert_int_equal(in[5], -WEFT_ERR_AUTH);
    }
    raw_close(&raw);
    free(content);
    check_unharmed();
  }
}

// --- the liar is called ---

struct call {
  pthread_t thread;
  uint16_t port;
  int err;
};

static void *call(void *arg) {
  struct call *call = arg;
  weft_peer_t peer;
  call->err = meet_at(&victim, call->port, SUPPORT_DEADLINE_MS, &peer);
  return NULL;
}

static void begin_call(struct call *made, int listener, uint16_t port, struct raw *raw) {
  made->port = port;
  assert_int_equal(pthread_create(&made->thread, NULL, call, made), 0);
  raw_accept(raw, listener);
  assert_true(raw_take(raw, in, sizeof in) > 0);
  assert_int_equal(in[4], CONNECTION_METADATA);
}

static void end_call(struct call *made, struct raw *raw, int want) {
  static uint8_t rest[65536];
  if (want == WEFT_ERR_AUTH) {
    assert_true(raw_take(raw, rest, sizeof rest) > 0);
    assert_int_equal(rest[4], CONNECTION_REFUSED); // and has not shown a proof of its own
  }
  raw_close(raw);
  pthread_join(made->thread, NULL);
  assert_int_equal(made->err, want);
  check_unharmed();
}

// The answer of a listener: versions, its proof, the metadata.
static void answer(struct raw *raw, enum lie lie) {
  size_t size;
  uint8_t *content = raw_metadata(shown.agent, CONNECTION_VERSION, CONNECTION_MINIMUM, &size);
  uint8_t *out = malloc(size + HMAC_SIZE);
  assert_non_null(out);
  memcpy(out, content, 4);
  make_proof(raw, lie, false, NULL, out + 4);
  memcpy(out + 4 + HMAC_SIZE, content + 4, size - 4);
  raw_say(raw, CONNECTION_METADATA, out, lie == SHORT ? 4 + HMAC_SIZE - 1 : size + HMAC_SIZE);
  free(content);
  free(out);
}

static void test_listener(void **state) {
  (void)state;
  static const enum lie lies[] = {ZEROS, OWN_KEY, RECORDED, OF_OTHER_ROLE};
  uint16_t port;
  int listener = raw_listen(&port);
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    struct call made;
    struct raw raw;
    begin_call(&made, listener, port, &raw);
    answer(&raw, lies[i]);
    end_call(&made, &raw, WEFT_ERR_AUTH);
  }
  close(listener);
}

// Its metadata is no more believed than it was proved, when the listener hangs up in the place of ADOPTED.
static void test_listener_short(void **state) {
  (void)state;
  uint16_t port;
  int listener = raw_listen(&port);
  struct call made;
  struct raw raw;
  begin_call(&made, listener, port, &raw);
  answer(&raw, SHORT);
  assert_true(raw_take(&raw, in, sizeof in) > 0);
  assert_int_equal(in[4], CONNECTION_REFUSED);
  raw_close(&raw);
  pthread_join(made.thread, NULL);
  assert_true(made.err < 0);
  check_unharmed();
  close(listener);
}

// The liar shows each what the other says on another connection: the shown one's proof is right, but not for this one.
static void test_between(void **state) {
  (void)state;
  uint16_t port;
  int listener = raw_listen(&port);
  struct call made;
  struct raw to_victim, to_shown;
  begin_call(&made, listener, port, &to_victim);
  struct wire_reader reader = {.bytes = in, .size = 4};
  size_t size = (size_t)wire_take_number(&reader, 4) - 1;
  raw_open(&to_shown, meet_port(&shown));
  raw_say(&to_shown, CONNECTION_METADATA, in + CONNECTION_HEAD, size);
  size = raw_take(&to_shown, in, sizeof in);
  assert_true(size > HEAD + HMAC_SIZE);
  assert_int_equal(in[4], CONNECTION_METADATA);
  raw_say(&to_victim, CONNECTION_METADATA, in + CONNECTION_HEAD, size - CONNECTION_HEAD);
  end_call(&made, &to_victim, WEFT_ERR_AUTH);
  raw_close(&to_shown);
  close(listener);
}

static int run(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_caller, open_all, close_all),
      cmocka_unit_test_setup_teardown(test_listener, open_all, close_all),
      cmocka_unit_test_setup_teardown(test_listener_short, open_all, close_all),
      cmocka_unit_test_setup_teardown(test_between, open_all, close_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
  return meet_run(run);
}
