// A peer in another process that does nothing, is killed at any moment, is stopped, or closes.
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "base/random.h"
#include "base/time/clock.h"
#include "conformance/process.h"

enum { LENGTH = 1000000 };

// This process' end, and another's with a region that is known here.
struct couple {
  struct pair pair; // a alone
  struct process process;
  struct transport_peer *peer;
  struct place local;
  struct transport_remote *remote;
  struct transport_piece piece;
  struct transport_request request;
};

static void couple_connect(struct couple *couple) {
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  process_start(&couple->process, couple->pair.a);
  struct answer *answer = process_ask(&couple->process, ORDER_OPEN, 0, 0, NULL, 0);
  assert_works(suite.transport->connect(couple->pair.a->worker, answer->bytes, answer->size, NULL, &couple->peer));
  couple->pair.to_b = couple->peer;
  assert_works(suite.transport->address(couple->pair.a->worker, address, &size));
  process_ask(&couple->process, ORDER_CONNECT, 0, 0, address, size);
  const unsigned char how[2] = {(unsigned char)suite.kind, suite.plain};
  answer = process_ask(&couple->process, ORDER_REGION, LENGTH, 51, how, sizeof how);
  assert_works(suite.transport->import(couple->peer, answer->bytes, answer->size, &couple->remote));
}

static void show_local(struct couple *couple) {
  place_show(&couple->local, couple->pair.a, suite.local_kind, suite.local_kind == WEFT_MEMORY_HOST && suite.plain,
             LENGTH);
}

static void couple_open(struct couple *couple) {
  memset(couple, 0, sizeof *couple);
  couple->pair.a = couple->pair.b = &couple->pair.ends[0];
  end_open(couple->pair.a);
  couple_connect(couple);
  show_local(couple);
  place_fill(&couple->local, 52);
}

static void couple_close(struct couple *couple) {
  if (couple->local.region)
    place_close(&couple->local);
  end_close(couple->pair.a);
  if (couple->process.pid)
    process_end(&couple->process);
}

static void prepare_whole(struct couple *couple, enum weft_transfer_op op, bool message) {
  couple->piece = (struct transport_piece){.local = couple->local.region,
                                           .remote = couple->remote,
                                           .local_address = place_address(&couple->local, 0),
                                           .remote_address = couple->remote->address,
                                           .length = LENGTH};
  request_init(&couple->request, couple->peer, op, &couple->piece, 1);
  if (message && HAS(MESSAGES)) {
    couple->request.message = "whole";
    couple->request.message_size = 6;
  }
  assert_works(suite.transport->prepare(&couple->request));
}

static void run_whole(struct couple *couple, enum weft_transfer_op op, bool message, int wanted) {
  prepare_whole(couple, op, message);
  assert_works(suite.transport->post(&couple->request));
  pair_wait(&couple->pair, request_ended, &couple->request, "a transfer with another process");
  if (couple->request.state != wanted)
    fail_msg("it ended with %s: %s", weft_err_name(couple->request.state), couple->request.why);
  suite.transport->unprepare(&couple->request);
}

// Posts to a peer that is gone; what did not fail at once is cut short.
static int post_in_vain(struct couple *couple, const char *what) {
  int rc = suite.transport->post(&couple->request);
  if (rc == 0) {
    for (int i = 0; i < 1000 && !request_ended(&couple->request); i++)
      pair_drive(&couple->pair);
    suite.transport->cancel(&couple->request);
    pair_wait(&couple->pair, request_ended, &couple->request, what);
  }
  print_message("%s: %s: %s: %s\n", suite.name, what, weft_err_name(couple->request.state), couple->request.why);
  suite.transport->unprepare(&couple->request);
  return rc;
}

// The process learns of the region here.
static void send_region(struct couple *couple) {
  unsigned char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  assert_works(suite.transport->pack(couple->local.region, key, &size));
  process_ask(&couple->process, ORDER_IMPORT, 0, 0, key, size);
}

static void wait_for_messages(struct couple *couple, uint64_t count) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  while (process_ask(&couple->process, ORDER_COUNT, 0, 0, NULL, 0)->value < count)
    if (clock_passed(deadline_ns))
      fail_msg("the other process did not get %llu messages", (unsigned long long)count);
}

static void test_another_process(void **state) {
  (void)state;
  struct couple couple;
  couple_open(&couple);
  run_whole(&couple, WEFT_TRANSFER_WRITE, true, 0);
  assert_int_equal(process_ask(&couple.process, ORDER_CHECK, 52, 0, NULL, 0)->value, 0);
  if (HAS(MESSAGES))
    wait_for_messages(&couple, 1);
  place_fill(&couple.local, 53);
  run_whole(&couple, WEFT_TRANSFER_READ, false, 0);
  place_check(&couple.local, 0, LENGTH, 52, 0);
  couple_close(&couple);
}

// And it to us, its region being private memory of its own.
static void test_another_process_as_initiator(void **state) {
  (void)state;
  struct couple couple;
  couple_open(&couple);
  send_region(&couple);
  process_ask(&couple.process, ORDER_POST, WEFT_TRANSFER_READ, 0, NULL, 0);
  assert_int_equal(process_ask(&couple.process, ORDER_WAIT, 0, 0, NULL, 0)->value, 0);
  assert_int_equal(process_ask(&couple.process, ORDER_CHECK, 52, 0, NULL, 0)->value, 0);
  place_fill(&couple.local, 54);
  process_ask(&couple.process, ORDER_POST, WEFT_TRANSFER_WRITE, HAS(MESSAGES), NULL, 0);
  assert_int_equal(process_ask(&couple.process, ORDER_WAIT, 0, 0, NULL, 0)->value, 0);
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  while (HAS(MESSAGES) && couple.pair.a->messages == 0) {
    suite.transport->progress(couple.pair.a->worker);
    assert_false(clock_passed(deadline_ns));
  }
  place_check(&couple.local, 0, LENGTH, 52, 0);
  couple_close(&couple);
}

static void test_one_sided_needs_no_help(void **state) {
  (void)state;
  NEEDS(HAS(ONE_SIDED), "its data needs the target's progress");
  struct couple couple;
  couple_open(&couple);
  assert_int_equal(kill(couple.process.pid, SIGSTOP), 0);
  run_whole(&couple, WEFT_TRANSFER_WRITE, false, 0);
  place_fill(&couple.local, 53);
  run_whole(&couple, WEFT_TRANSFER_READ, false, 0);
  place_check(&couple.local, 0, LENGTH, 52, 0);
  assert_int_equal(kill(couple.process.pid, SIGCONT), 0);
  assert_int_equal(process_ask(&couple.process, ORDER_CHECK, 52, 0, NULL, 0)->value, 0);
  couple_close(&couple);
}

static bool was_told(void *arg) {
  return ((struct end *)arg)->peer_events > 0;
}

// The peer is dead: a transport that reports that does so once, and a post fails or can be ended.
static void expect_lost(struct couple *couple) {
  struct end *end = couple->pair.a;
  if (HAS(REPORTS_DEATH)) {
    pair_wait(&couple->pair, was_told, end, "the news of a peer's death");
    assert_ptr_equal(end->told[0].peer, couple->peer);
    assert_int_equal(end->told[0].err, WEFT_ERR_PEER_LOST);
    assert_int_not_equal(couple->peer->failed, 0);
  }
  for (enum weft_transfer_op op = WEFT_TRANSFER_READ; op <= WEFT_TRANSFER_WRITE; op++) {
    prepare_whole(couple, op, true);
    int rc = post_in_vain(couple, "the end of a post to a dead peer");
    if (HAS(REPORTS_DEATH))
      assert_int_equal(rc, WEFT_ERR_PEER_LOST);
  }
  pair_drive_on(&couple->pair, 2000);
  assert_true(end->peer_events <= 1);
}

// Its worker is as good as new: another process takes the dead one's place.
static void expect_successor(struct couple *couple) {
  suite.transport->disconnect(couple->peer);
  couple->pair.a->peer_events = 0;
  couple_connect(couple);
  place_fill(&couple->local, 55);
  run_whole(couple, WEFT_TRANSFER_WRITE, true, 0);
  assert_int_equal(process_ask(&couple->process, ORDER_CHECK, 55, 0, NULL, 0)->value, 0);
}

static void test_killed_while_idle(void **state) {
  (void)state;
  struct couple couple;
  couple_open(&couple);
  process_kill(&couple.process);
  expect_lost(&couple);
  expect_successor(&couple);
  couple_close(&couple);
}

static void test_a_zombie_is_dead(void **state) {
  (void)state;
  NEEDS(HAS(REPORTS_DEATH), "it does not report deaths");
  struct couple couple;
  couple_open(&couple);
  assert_int_equal(kill(couple.process.pid, SIGKILL), 0);
  siginfo_t info;
  assert_int_equal(waitid(P_PID, (id_t)couple.process.pid, &info, WEXITED | WNOWAIT), 0);
  expect_lost(&couple);
  process_kill(&couple.process); // reaps it
  couple_close(&couple);
}

// The other end dies while this one writes, after some posts.
static void test_killed_under_writes(void **state) {
  (void)state;
  uint64_t random = suite.seed;
  for (int round = 0; round < 4; round++) {
    struct couple couple;
    couple_open(&couple);
    prepare_whole(&couple, round % 2 ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ, true);
    uint64_t kill_at = random_next(&random) % 20, deadline_ns = clock_deadline_ms(DEADLINE_MS);
    int is = 0;
    for (uint64_t i = 0; is == 0 && i < kill_at + 200; i++) {
      is = suite.transport->post(&couple.request);
      if (i == kill_at)
        process_kill(&couple.process);
      while (is == 0 && !request_ended(&couple.request)) {
        suite.transport->progress(couple.pair.a->worker);
        if (i >= kill_at && clock_left_ms(deadline_ns) < DEADLINE_MS - 5000)
          suite.transport->cancel(&couple.request);
        if (clock_passed(deadline_ns))
          fail_msg("a request to a process that was killed did not end");
      }
      is = is ? is : couple.request.state;
      suite.transport->progress(couple.pair.a->worker);
    }
    suite.transport->unprepare(&couple.request);
    place_forget(&couple.local);
    munmap(couple.local.mapping, couple.local.mapping_size);
    memset(&couple.local, 0, sizeof couple.local);
    pair_drive_on(&couple.pair, 2000);
    couple_close(&couple);
  }
}

// The one that writes dies: its target takes the region back, and goes on with the next.
static void test_initiator_killed_under_writes(void **state) {
  (void)state;
  for (int round = 0; round < 4; round++) {
    struct couple couple;
    couple_open(&couple);
    send_region(&couple);
    process_ask(&couple.process, ORDER_POST, WEFT_TRANSFER_WRITE, HAS(MESSAGES), NULL, 0);
    process_ask(&couple.process, ORDER_KEEP, 0, 0, NULL, 0);
    uint64_t deadline_ns = clock_ns() + (uint64_t)round * 3000000u; // somewhere in the midst
    do
      suite.transport->progress(couple.pair.a->worker);
    while (!clock_passed(deadline_ns));
    process_kill(&couple.process);
    pair_drive_on(&couple.pair, 2000);
    place_close(&couple.local);
    show_local(&couple);
    expect_successor(&couple);
    couple_close(&couple);
  }
}

// A process that is stopped takes no messages: those that wait can be cancelled, the others come when it goes on.
static void test_stopped(void **state) {
  (void)state;
  NEEDS(HAS(MESSAGES), "it carries no messages");
  enum { COUNT = 200 };
  static struct transport_request requests[COUNT];
  static unsigned char message[TRANSPORT_MAX_MESSAGE];
  struct couple couple;
  couple_open(&couple);
  assert_int_equal(kill(couple.process.pid, SIGSTOP), 0);
  for (int i = 0; i < COUNT; i++) {
    request_init(&requests[i], couple.peer, WEFT_TRANSFER_WRITE, NULL, 0);
    requests[i].message = message;
    requests[i].message_size = sizeof message;
    assert_works(suite.transport->prepare(&requests[i]));
    assert_works(suite.transport->post(&requests[i]));
  }
  pair_drive_on(&couple.pair, 5000);
  uint64_t sent = 0, waiting = 0;
  for (int i = 0; i < COUNT; i++)
    waiting += !request_ended(&requests[i]);
  for (int i = COUNT; i-- > 0;) // the last first
    suite.transport->cancel(&requests[i]);
  for (int i = 0; i < COUNT; i++) {
    pair_wait(&couple.pair, request_ended, &requests[i], "the end of what was cancelled, its peer being stopped");
    assert_true(requests[i].state == 0 || requests[i].state == WEFT_ERR_CANCELED);
    sent += requests[i].state == 0;
    suite.transport->unprepare(&requests[i]);
  }
  print_message("%s: of %d messages to a stopped process %llu had gone, %llu waited\n", suite.name, COUNT,
                (unsigned long long)sent, (unsigned long long)waiting);
  assert_int_equal(kill(couple.process.pid, SIGCONT), 0);
  wait_for_messages(&couple, sent);
  run_whole(&couple, WEFT_TRANSFER_WRITE, true, 0);
  wait_for_messages(&couple, sent + 1);
  assert_int_equal(process_ask(&couple.process, ORDER_COUNT, 0, 0, NULL, 0)->value, sent + 1);
  couple_close(&couple);
}

// More data to a stopped process than what is between the two holds: what is cancelled, or whose peer is disconnected,
// ends, and nothing reads its memory from then on.
static void end_writes_to_a_stopped(void (*end)(struct couple *couple, struct transport_request *request)) {
  enum { COUNT = 16 };
  struct transport_request requests[COUNT];
  struct couple couple;
  couple_open(&couple);
  run_whole(&couple, WEFT_TRANSFER_WRITE, false, 0); // they are connected
  assert_int_equal(kill(couple.process.pid, SIGSTOP), 0);
  for (int i = 0; i < COUNT; i++) {
    request_init(&requests[i], couple.peer, WEFT_TRANSFER_WRITE, &couple.piece, 1);
    assert_works(suite.transport->prepare(&requests[i]));
    assert_works(suite.transport->post(&requests[i]));
  }
  pair_drive_on(&couple.pair, 2000);
  for (int i = 0; i < COUNT; i++)
    end(&couple, &requests[i]);
  for (int i = 0; i < COUNT; i++) {
    pair_wait(&couple.pair, request_ended, &requests[i], "the end of a write to a process that is stopped");
    assert_true(requests[i].state == 0 || requests[i].state == WEFT_ERR_CANCELED);
    suite.transport->unprepare(&requests[i]);
  }
  place_forget(&couple.local);
  munmap(couple.local.mapping, couple.local.mapping_size);
  memset(&couple.local, 0, sizeof couple.local);
  assert_int_equal(kill(couple.process.pid, SIGCONT), 0);
  pair_drive_on(&couple.pair, 2000);
  couple_close(&couple);
}

static void cancel_one(struct couple *couple, struct transport_request *request) {
  (void)couple;
  suite.transport->cancel(request);
}

static void disconnect_once(struct couple *couple, struct transport_request *request) {
  (void)request;
  if (couple->peer)
    suite.transport->disconnect(couple->peer);
  couple->peer = NULL;
}

static void test_writes_to_a_stopped_process_end(void **state) {
  (void)state;
  end_writes_to_a_stopped(cancel_one);
  end_writes_to_a_stopped(disconnect_once);
}

// Messages that lie there when their sender ends, unseen, are heard before its end is.
static void hear_last_of(void (*end)(struct couple *couple)) {
  enum { COUNT = 5 };
  struct couple couple;
  unsigned char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  couple_open(&couple);
  assert_works(suite.transport->pack(couple.local.region, key, &size));
  process_ask(&couple.process, ORDER_IMPORT, 0, 0, key, size);
  couple.process.driven = NULL;
  for (int i = 0; i < COUNT; i++) {
    process_ask(&couple.process, ORDER_POST, WEFT_TRANSFER_WRITE, true, NULL, 0);
    assert_int_equal(process_ask(&couple.process, ORDER_WAIT, 0, 0, NULL, 0)->value, 0);
  }
  if (suite.transport->arm)
    suite.transport->arm(couple.pair.a->worker); // as who sleeps: the news of an end may be looked at first then
  end(&couple);
  assert_int_equal(couple.pair.a->messages, 0);
  pair_wait(&couple.pair, was_told, couple.pair.a, "the news of a peer's end");
  assert_int_equal(couple.pair.a->told[0].messages, COUNT);
  couple_close(&couple);
}

static void be_killed(struct couple *couple) {
  process_kill(&couple->process);
}

static void close_worker(struct couple *couple) {
  process_ask(&couple->process, ORDER_CLOSE, 0, 0, NULL, 0);
}

static void test_the_last_messages_come_before_the_end(void **state) {
  (void)state;
  NEEDS(HAS(MESSAGES) && HAS(REPORTS_DEATH), "it carries no messages, or does not report deaths");
  NEEDS(HAS(ONE_SIDED), "what is on its way over a network may be lost with its sender");
  hear_last_of(be_killed);
  hear_last_of(close_worker);
}

static void test_the_peer_closes(void **state) {
  (void)state;
  struct couple couple;
  couple_open(&couple);
  run_whole(&couple, WEFT_TRANSFER_WRITE, true, 0);
  process_ask(&couple.process, ORDER_CLOSE, 0, 0, NULL, 0);
  prepare_whole(&couple, WEFT_TRANSFER_WRITE, true);
  post_in_vain(&couple, "the end of a post to a worker that has closed");
  if (HAS(REPORTS_DEATH))
    pair_wait(&couple.pair, was_told, couple.pair.a, "the news that a peer has closed");
  couple_close(&couple);
}

const struct CMUnitTest process_cases[] = {
    CASE(test_another_process),
    CASE(test_another_process_as_initiator),
    CASE(test_one_sided_needs_no_help),
    CASE(test_killed_while_idle),
    CASE(test_a_zombie_is_dead),
    CASE(test_killed_under_writes),
    CASE(test_initiator_killed_under_writes),
    CASE(test_stopped),
    CASE(test_writes_to_a_stopped_process_end),
    CASE(test_the_last_messages_come_before_the_end),
    CASE(test_the_peer_closes),
};
const size_t num_process_cases = sizeof process_cases / sizeof *process_cases;
