// Posts with their own notifications, deadlines and completions. The agent reports completions in the order in which
// the posts ended. The arguments name the transport, as in transfers.c.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"
#include "support/loop.h"
#include "support/wait.h"

enum { MANY = 40 };

static const char *names = "";
static const struct transport *more[2] = {&transport_loop, NULL};
static enum weft_agent_progress progress;
static struct pair pair;

static int set_up(void **state) {
  (void)state;
  loop_reset();
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = progress;
  options.heartbeat_ms = 3600000;
  pair_open(&pair, names, more[0] ? more : NULL, &options);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  loop_reset();
  pair_close(&pair);
  return 0;
}

struct awaited {
  struct weft_completion *done;
  uint32_t wanted, got;
};

static bool have_come(void *arg) {
  struct awaited *awaited = arg;
  uint32_t count = 99;
  assert_int_equal(
      weft_agent_completions(pair.a.agent, awaited->done + awaited->got, awaited->wanted - awaited->got, &count), 0);
  awaited->got += count;
  return awaited->got == awaited->wanted;
}

static void take(struct weft_completion *done, uint32_t count) {
  struct awaited awaited = {.done = done, .wanted = count};
  assert_true(pair_until(&pair, have_come, &awaited));
}

static void expect_none(void) {
  struct weft_completion done;
  uint32_t count = 99;
  assert_int_equal(weft_agent_completions(pair.a.agent, &done, 1, &count), 0);
  assert_int_equal(count, 0);
}

static struct weft_post with_tag(uint64_t tag) {
  struct weft_post post = WEFT_POST_INIT;
  post.flags = WEFT_POST_COMPLETION;
  post.tag = tag;
  return post;
}

static struct weft_transfer_options with_room(uint32_t room, const char *note) {
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.max_notification = room;
  options.notification = note;
  options.notification_size = note ? (uint32_t)strlen(note) : 0;
  return options;
}

static void each_end_is_reported_once(void **state) {
  (void)state;
  weft_transfer_t *transfers[MANY];
  struct weft_completion done[MANY];
  bool seen[MANY] = {false};
  for (uint32_t i = 0; i < MANY; i++)
    transfers[i] = pair_transfer(&pair, WEFT_TRANSFER_WRITE, i * 64, i * 64, 64, NULL);
  expect_none();
  for (uint32_t round = 0; round < 3; round++) {
    memset(pair.a.memory, (int)round + 1, MANY * 64);
    for (uint32_t i = 0; i < MANY; i++) {
      struct weft_post post = with_tag(round * 1000 + i);
      assert_int_equal(weft_transfer_post_with(transfers[i], &post), 0);
    }
    take(done, MANY);
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < MANY; i++) {
      uint32_t which = (uint32_t)(done[i].tag - round * 1000);
      assert_true(which < MANY && !seen[which] && done[i].transfer == transfers[which]);
      assert_int_equal(done[i].err, 0);
      assert_int_equal(weft_transfer_poll(transfers[which]), 0); // its memory is the caller's again
      seen[which] = true;
    }
    expect_none();
    assert_memory_equal(pair.a.memory, pair.b.memory, MANY * 64);
  }
  assert_int_equal(weft_transfer_post(transfers[0]), 0); // a plain one tells nobody
  assert_int_equal(weft_transfer_wait(transfers[0], SUPPORT_DEADLINE_MS), 0);
  expect_none();
  for (uint32_t i = 0; i < MANY; i++)
    pair_free(transfers[i]);
}

static void one_completion_at_a_time(void **state) {
  (void)state;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 64, NULL);
  weft_transfer_t *other = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 64, 64, 64, NULL);
  struct weft_post post = with_tag(7), next = with_tag(8), plain = WEFT_POST_INIT;
  struct weft_completion done;
  assert_int_equal(weft_transfer_post_with(transfer, &post), 0);
  assert_int_equal(weft_transfer_post_with(other, &next), 0);
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(weft_transfer_wait(other, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(weft_transfer_post_with(transfer, &next), WEFT_ERR_BUSY);
  assert_non_null(strstr(weft_last_error(), "tag 7"));
  assert_int_equal(weft_transfer_post_with(transfer, &plain), 0); // asks for none
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  pair_free(transfer); // no completion follows
  take(&done, 1);
  assert_true(done.tag == 8 && done.transfer == other);
  expect_none();
  pair_free(other);
}

static void the_descriptor_shows_it(void **state) {
  (void)state;
  int fd;
  uint32_t timeout_ms = 0;
  assert_int_equal(weft_agent_fd(pair.a.agent, &fd), 0);
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 64, NULL);
  for (uint64_t tag = 1; tag <= 20; tag++) {
    struct weft_post post = with_tag(tag);
    struct weft_completion done;
    uint32_t count = 0;
    assert_int_equal(weft_transfer_post_with(transfer, &post), 0);
    while (count == 0) {
      int rc = weft_agent_arm(pair.a.agent, &timeout_ms);
      assert_in_range(rc, 0, 1);
      if (rc == 0)
        assert_true(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, SUPPORT_DEADLINE_MS) == 1 ||
                    timeout_ms < SUPPORT_DEADLINE_MS);
      assert_int_equal(weft_agent_completions(pair.a.agent, &done, 1, &count), 0);
    }
    assert_true(done.tag == tag);
  }
  pair_free(transfer);
}

static bool is_quiet(void *arg) {
  uint32_t timeout_ms;
  expect_none();
  return weft_agent_arm(pair.a.agent, &timeout_ms) == 0 && poll(arg, 1, 0) == 0;
}

// A transfer that is freed takes its completion with it: those before and after it are reported, and the descriptor
// does not show it any more.
static void a_freed_transfer_is_not_waited_for(void **state) {
  (void)state;
  struct pollfd shown = {.events = POLLIN};
  weft_transfer_t *transfers[3];
  struct weft_completion done[2];
  assert_int_equal(weft_agent_fd(pair.a.agent, &shown.fd), 0);
  for (uint32_t i = 0; i < 3; i++)
    transfers[i] = pair_transfer(&pair, WEFT_TRANSFER_WRITE, i * 64, i * 64, 64, NULL);
  for (uint32_t i = 0; i < 3; i++) {
    struct weft_post post = with_tag(i);
    assert_int_equal(weft_transfer_post_with(transfers[i], &post), 0);
    assert_int_equal(weft_transfer_wait(transfers[i], SUPPORT_DEADLINE_MS), 0);
    if (i == 1)
      pair_free(transfers[i]); // the last one of those that have ended
  }
  take(done, 2);
  assert_int_equal(done[0].tag + done[1].tag, 0 + 2);
  assert_true(pair_until(&pair, is_quiet, &shown));
  pair_free(transfers[0]);
  pair_free(transfers[2]);
}

static void expect_note(const char *text) {
  char got[64];
  uint32_t size = pair_hear(&pair, &pair.b, got, sizeof got);
  assert_int_equal(size, strlen(text));
  assert_memory_equal(got, text, size);
}

static void send(weft_transfer_t *transfer, const char *note) {
  struct weft_post post = WEFT_POST_INIT;
  post.notification = note;
  post.notification_size = note ? (uint32_t)strlen(note) : 0;
  assert_int_equal(weft_transfer_post_with(transfer, &post), 0);
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
}

static void each_post_has_its_notification(void **state) {
  (void)state;
  // Of a transfer with a notification, and of one without.
  struct weft_transfer_options options[] = {with_room(40, "as made"), with_room(40, NULL)};
  for (int i = 0; i < 2; i++) {
    weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 4096, &options[i]);
    send(transfer, "first");
    expect_note("first");
    send(transfer, "a longer second one");
    expect_note("a longer second one");
    send(transfer, "");
    expect_note("");
    send(transfer, NULL);
    if (i == 0)
      expect_note("as made");
    assert_int_equal(weft_transfer_post(transfer), 0);
    assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
    if (i == 0)
      expect_note("as made");
    send(transfer, "last"); // what came without one did not come
    expect_note("last");
    pair_free(transfer);
  }
}

static void bad_posts_are_refused(void **state) {
  (void)state;
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 64, NULL);
  struct weft_transfer_options options = with_room(5, NULL);
  weft_transfer_t *roomy = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 64, &options);
  struct weft_post post = WEFT_POST_INIT;
  post.notification = "123456";
  post.notification_size = 5;
  assert_int_equal(weft_transfer_post_with(transfer, &post), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "max_notification"));
  post.notification_size = 6;
  assert_int_equal(weft_transfer_post_with(roomy, &post), WEFT_ERR_INVALID);
  post.notification = NULL;
  assert_int_equal(weft_transfer_post_with(roomy, &post), WEFT_ERR_INVALID);
  post = (struct weft_post)WEFT_POST_INIT;
  post.flags = 6;
  assert_int_equal(weft_transfer_post_with(transfer, &post), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "0x6"));
  post.flags = 0;
  post.reserved = 1;
  assert_int_equal(weft_transfer_post_with(transfer, &post), WEFT_ERR_INVALID);
  assert_int_equal(weft_transfer_post_with(transfer, NULL), WEFT_ERR_INVALID);
  assert_int_equal(weft_transfer_post_with(NULL, &post), WEFT_ERR_INVALID);
  assert_int_equal(weft_transfer_poll(transfer), WEFT_ERR_INVALID); // it was never posted
  // A program with a newer header, whose field is not set, and is.
  struct {
    struct weft_post known;
    uint64_t later;
  } newer = {.known = WEFT_POST_INIT};
  newer.known.size = sizeof newer;
  assert_int_equal(weft_transfer_post_with(transfer, &newer.known), 0);
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  newer.later = 1;
  assert_int_equal(weft_transfer_post_with(transfer, &newer.known), WEFT_ERR_VERSION);
  pair_free(transfer);
  pair_free(roomy);
}

// A transfer that fails is reported too, with its code: by a deadline of this post's own, by a cancellation.
static void failures_are_reported(void **state) {
  (void)state;
  if (more[0] != &transport_loop && more[0] != &transport_loop_free)
    skip();
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 64, NULL);
  struct weft_completion done;
  struct weft_post post = with_tag(1);
  post.timeout_ms = 20;
  atomic_store(&loop.hold, true);
  assert_int_equal(weft_transfer_post_with(transfer, &post), 0);
  assert_int_equal(weft_transfer_post_with(transfer, &post), WEFT_ERR_BUSY);
  take(&done, 1);
  assert_true(done.tag == 1 && done.err == WEFT_ERR_TIMEOUT);
  post = with_tag(2);
  assert_int_equal(weft_transfer_post_with(transfer, &post), 0); // with the transfer's own deadline again
  assert_int_equal(weft_transfer_wait(transfer, 60), 1);
  assert_int_equal(weft_transfer_cancel(transfer, SUPPORT_DEADLINE_MS), 0);
  take(&done, 1);
  assert_true(done.tag == 2 && done.err == WEFT_ERR_CANCELED);
  atomic_store(&loop.hold, false);
  atomic_store(&loop.refuse, WEFT_ERR_SYSTEM);
  post = with_tag(3);
  assert_int_equal(weft_transfer_post_with(transfer, &post), 0);
  take(&done, 1);
  assert_true(done.tag == 3 && done.err == WEFT_ERR_SYSTEM);
  assert_int_equal(weft_agent_invalidate(pair.a.agent, pair.a.peer), 0);
  post = with_tag(4);
  assert_int_equal(weft_transfer_post_with(transfer, &post),
                   WEFT_ERR_PEER_LOST); // was not started: nothing is reported
  expect_none();
  assert_int_equal(weft_transfer_post_with(transfer, &post), WEFT_ERR_PEER_LOST);
  pair_free(transfer);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "none") == 0) {
      progress = WEFT_AGENT_PROGRESS_NONE;
    } else if (strcmp(argv[i], "free") == 0) {
      more[0] = &transport_loop_free;
    } else {
      more[0] = NULL;
      names = argv[i];
    }
  }
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(each_end_is_reported_once),      CASE(one_completion_at_a_time),
      CASE(the_descriptor_shows_it),        CASE(a_freed_transfer_is_not_waited_for),
      CASE(each_post_has_its_notification), CASE(bad_posts_are_refused),
      CASE(failures_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
