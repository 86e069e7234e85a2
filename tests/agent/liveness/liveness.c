// An agent notices by itself that a peer has died, fallen silent or left. It reports no peer as lost for a time in
// which the agent itself did not run.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/support/crowd.h"
#include "base/time/clock.h"
#include "cmocka_all.h"
#include "support/wait.h"

// An agent in a process of its own: takes a blob, gives its own, with one region, and idles until its input ends.
static int idle(void *arg, int in, int out) {
  static struct crowd_member member;
  const char *name = arg;
  char byte;
  struct weft_agent_options options = crowd_options(name);
  crowd_open(&member, &options);
  weft_region_t region;
  void *address;
  assert_int_equal(weft_agent_allocate(member.agent, WEFT_MEMORY_HOST, 4096, 0, &region, &address), 0);
  weft_peer_t peer = crowd_take_blob(in, member.agent);
  crowd_send_blob(out, member.agent);
  while (read(in, &byte, 1) > 0)
    assert_int_equal(weft_agent_notify(member.agent, peer, "here", 4), 0);
  crowd_close(&member);
  return 0;
}

static bool has_notification(void *arg) {
  struct weft_notification notification;
  uint32_t count = 1;
  return weft_agent_notifications(arg, &notification, count, &count) == 0 && count == 1;
}

// Has the process say something, and waits for it: from now on its silence counts.
static void hear(struct crowd_process *process, struct crowd_member *member) {
  crowd_write(process->to, "?", 1);
  assert_true(support_wait(has_notification, member->agent, SUPPORT_DEADLINE_MS));
}

static weft_peer_t exchange(struct crowd_process *process, struct crowd_member *member) {
  crowd_send_blob(process->to, member->agent);
  return crowd_take_blob(process->from, member->agent);
}

// A transfer to the peer's only region.
static weft_transfer_t *make_transfer(weft_agent_t *agent, weft_peer_t peer) {
  static char bytes[64];
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  memory.address = bytes;
  memory.length = sizeof bytes;
  weft_region_t region;
  struct weft_region_info info;
  uint32_t count = 1;
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  assert_int_equal(weft_agent_register(agent, &memory, &region), 0);
  assert_int_equal(weft_agent_regions(agent, peer, &info, sizeof info, count, &count), 0);
  struct weft_descriptor from = {.address = (uintptr_t)bytes, .length = 8, .region = region};
  struct weft_descriptor to = {.address = info.address, .length = 8, .region = info.region};
  assert_int_equal(weft_dlist_create(agent, WEFT_PEER_SELF, &from, 1, &local), 0);
  assert_int_equal(weft_dlist_create(agent, peer, &to, 1, &remote), 0);
  assert_int_equal(weft_transfer_create(agent, WEFT_TRANSFER_WRITE, local, remote, &options, &transfer), 0);
  return transfer;
}

static void test_idle_peer_killed(void **state) {
  (void)state;
  struct crowd_process process;
  crowd_start(&process, idle, (void *)"idler");
  static struct crowd_member member;
  struct weft_agent_options options = crowd_options("watcher");
  crowd_open(&member, &options);
  weft_peer_t peer = exchange(&process, &member), found;
  weft_transfer_t *transfer = make_transfer(member.agent, peer);
  assert_int_equal(weft_transfer_post(transfer), 0);
  assert_int_equal(weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS), 0);
  assert_int_equal(weft_agent_check(member.agent, peer), 0);
  crowd_kill(&process);
  struct crowd_event event = crowd_await(&member, LOST, "idler", 1);
  assert_true(event.peer == peer);
  printf("  %s\n", event.detail);
  assert_int_equal(weft_agent_check(member.agent, peer), WEFT_ERR_PEER_LOST);
  assert_true(*weft_last_error());
  assert_int_equal(weft_transfer_post(transfer), WEFT_ERR_PEER_LOST); // at once
  assert_int_equal(weft_agent_notify(member.agent, peer, "x", 1), WEFT_ERR_PEER_LOST);
  assert_int_equal(weft_agent_find(member.agent, "idler", &found), WEFT_ERR_NOT_FOUND);
  crowd_close(&member);
}

static void test_successor(void **state) {
  (void)state;
  struct crowd_process first, second;
  crowd_start(&first, idle, (void *)"twin");
  crowd_start(&second, idle, (void *)"twin"); // as after a restart
  static struct crowd_member member;
  struct weft_agent_options options = crowd_options("watcher");
  crowd_open(&member, &options);
  weft_peer_t old = exchange(&first, &member), other = 0;
  size_t size;
  crowd_send_blob(second.to, member.agent);
  crowd_read(second.from, &size, sizeof size);
  void *blob = malloc(size);
  crowd_read(second.from, blob, size);
  assert_int_equal(weft_agent_load(member.agent, blob, size, &other), WEFT_ERR_EXISTS); // two agents of one name
  assert_int_equal(other, 0);
  assert_int_equal(weft_agent_check(member.agent, old), 0);
  crowd_kill(&first);
  crowd_await(&member, LOST, "twin", 1);
  assert_int_equal(weft_agent_load(member.agent, blob, size, &other), 0);
  assert_true(other != old);
  assert_int_equal(weft_agent_check(member.agent, other), 0);
  assert_int_equal(weft_agent_check(member.agent, old), WEFT_ERR_PEER_LOST); // it does not mean its successor
  free(blob);
  crowd_end(&second);
  crowd_await(&member, LEFT, "twin", 1);
  crowd_close(&member);
}

static void test_close_is_no_death(void **state) {
  (void)state;
  struct crowd_process process;
  crowd_start(&process, idle, (void *)"leaver");
  static struct crowd_member member;
  struct weft_agent_options options = crowd_options("watcher");
  crowd_open(&member, &options);
  weft_peer_t peer = exchange(&process, &member);
  crowd_end(&process);
  crowd_await(&member, LEFT, "leaver", 1);
  assert_int_equal(crowd_count(&member, LOST, NULL), 0);
  assert_int_equal(weft_agent_check(member.agent, peer), WEFT_ERR_PEER_LOST);
  crowd_close(&member);
}

static void test_stopped_peer(void **state) {
  (void)state;
  struct crowd_process process;
  crowd_start(&process, idle, (void *)"sleeper");
  static struct crowd_member member;
  struct weft_agent_options options = crowd_options("watcher");
  options.peer_timeout_ms = 2000;
  crowd_open(&member, &options);
  weft_peer_t peer = exchange(&process, &member);
  assert_int_equal(weft_agent_check(member.agent, peer), 0);
  hear(&process, &member);
  kill(process.pid, SIGSTOP);
  struct crowd_event event = crowd_await(&member, LOST, "sleeper", 1);
  assert_non_null(strstr(event.detail, "nothing was received from it"));
  assert_int_equal(weft_agent_check(member.agent, peer), WEFT_ERR_PEER_LOST);
  kill(process.pid, SIGCONT);
  crowd_end(&process);
  crowd_close(&member);
}

// Watches a peer; says how many it lost, or for "n" how many notifications have come.
static int watch(void *arg, int in, int out) {
  static struct crowd_member member;
  char byte;
  size_t heard = 0;
  struct weft_agent_options options = crowd_options("watched");
  options.peer_timeout_ms = *(const uint32_t *)arg;
  crowd_open(&member, &options);
  crowd_send_blob(out, member.agent);
  crowd_take_blob(in, member.agent);
  while (read(in, &byte, 1) > 0) {
    heard += has_notification(member.agent);
    size_t answer = byte == 'n' ? heard : crowd_count(&member, LOST, NULL);
    crowd_write(out, &answer, sizeof answer);
  }
  crowd_close(&member);
  return 0;
}

static void pass_time(uint32_t ms) {
  uint64_t until = clock_deadline_ms(ms);
  while (!clock_passed(until))
    usleep(5000);
}

// The watcher's blob goes to the other, and the other's back.
static void pass_one(int from, int to) {
  size_t size;
  crowd_read(from, &size, sizeof size);
  char *blob = malloc(size);
  assert_non_null(blob);
  crowd_read(from, blob, size);
  crowd_write(to, &size, sizeof size);
  crowd_write(to, blob, size);
  free(blob);
}

// Stopped for longer than its patience, again and again: each time its peer has sent nothing that it has read when it
// wakes, and lives all the same.
static void test_own_stop(void **state) {
  (void)state;
  struct crowd_process process;
  uint32_t patience_ms = 2000;
  crowd_start(&process, watch, &patience_ms);
  static struct crowd_member member;
  struct weft_agent_options options = crowd_options("steady");
  crowd_open(&member, &options);
  crowd_take_blob(process.from, member.agent);
  crowd_send_blob(process.to, member.agent);
  size_t lost = 0;
  for (int i = 0; i < 3; i++) {
    kill(process.pid, SIGSTOP);
    int status;
    assert_int_equal(waitpid(process.pid, &status, WUNTRACED), process.pid);
    pass_time(3000); // this time is what is tested
    kill(process.pid, SIGCONT);
    crowd_write(process.to, "?", 1);
    crowd_read(process.from, &lost, sizeof lost);
    assert_int_equal(lost, 0);
    pass_time(200); // and it goes on looking
  }
  crowd_write(process.to, "?", 1);
  crowd_read(process.from, &lost, sizeof lost);
  assert_int_equal(lost, 0);
  crowd_end(&process);
  crowd_close(&member);
}

// A peer that forgets this agent falls silent, and lives; one that takes its regions back says so.
static void test_forgotten(void **state) {
  (void)state;
  static struct crowd_member target, initiator;
  struct weft_agent_options options = crowd_options("target");
  crowd_open(&target, &options);
  options = crowd_options("initiator");
  options.peer_timeout_ms = 2000;
  crowd_open(&initiator, &options);
  weft_region_t kept, regions[600];
  void *address;
  for (int i = 0; i < 600; i++) // more than one message tells
    assert_int_equal(weft_agent_allocate(target.agent, WEFT_MEMORY_HOST, 4096, 0, &regions[i], &address), 0);
  assert_int_equal(weft_agent_allocate(target.agent, WEFT_MEMORY_HOST, 4096, 0, &kept, &address), 0);
  weft_peer_t peer = crowd_load(initiator.agent, target.agent), back = crowd_load(target.agent, initiator.agent);
  assert_int_equal(weft_agent_notify(target.agent, back, "here", 4), 0);
  assert_true(support_wait(has_notification, initiator.agent, SUPPORT_DEADLINE_MS));
  struct weft_region_info info[2];
  for (int i = 0; i < 600; i++)
    assert_int_equal(weft_agent_deregister(target.agent, regions[i]), 0);
  for (size_t n = 1;; n++) {
    uint32_t count = 2;
    crowd_await(&initiator, UPDATED, "target", n);
    if (weft_agent_regions(initiator.agent, peer, info, sizeof *info, count, &count) == 0 && count == 1)
      break;
  }
  assert_true(info[0].region == kept);
  assert_int_equal(weft_agent_invalidate(target.agent, back), 0);
  uint64_t until = clock_deadline_ms(3000); // this time is what is tested
  while (!clock_passed(until)) {
    assert_int_equal(weft_agent_check(initiator.agent, peer), 0);
    usleep(10000);
  }
  assert_int_equal(crowd_count(&initiator, LOST, NULL) + crowd_count(&initiator, LEFT, NULL), 0);
  crowd_close(&initiator);
  crowd_close(&target);
}

// Both were stopped, as when a host sleeps: the one that wakes first finds nothing from the other in all that time, and
// waits for it all the same. Its patience is 4,000 ms, of which the gap may count for 500.
static void test_both_stopped(void **state) {
  (void)state;
  struct crowd_process watcher, other;
  uint32_t patience_ms = 4000;
  crowd_start(&watcher, watch, &patience_ms);
  crowd_start(&other, idle, (void *)"other");
  pass_one(watcher.from, other.to);
  pass_one(other.from, watcher.to);
  size_t lost = 1;
  uint64_t deadline_ns = clock_deadline_ms(SUPPORT_DEADLINE_MS);
  do { // so that it was heard: what comes before the watcher has loaded it is dropped
    assert_false(clock_passed(deadline_ns));
    crowd_write(other.to, "?", 1);
    crowd_write(watcher.to, "n", 1);
    crowd_read(watcher.from, &lost, sizeof lost);
  } while (lost == 0);
  kill(watcher.pid, SIGSTOP);
  kill(other.pid, SIGSTOP);
  pass_time(5000);
  kill(watcher.pid, SIGCONT);
  pass_time(300);
  kill(other.pid, SIGCONT);
  for (int i = 0; i < 20; i++) {
    crowd_write(watcher.to, "?", 1);
    crowd_read(watcher.from, &lost, sizeof lost);
    assert_int_equal(lost, 0);
    pass_time(10);
  }
  crowd_end(&other);
  crowd_end(&watcher);
}

// A peer that was loaded by hand and does not know this agent sends nothing, and is not lost for it.
static void test_one_way(void **state) {
  (void)state;
  static struct crowd_member target, initiator;
  struct weft_agent_options options = crowd_options("target");
  crowd_open(&target, &options);
  options = crowd_options("initiator");
  options.peer_timeout_ms = 200;
  crowd_open(&initiator, &options);
  weft_peer_t peer = crowd_load(initiator.agent, target.agent);
  uint64_t until = clock_deadline_ms(1000);
  while (!clock_passed(until)) {
    assert_int_equal(weft_agent_check(initiator.agent, peer), 0);
    usleep(10000);
  }
  assert_int_equal(weft_agent_invalidate(initiator.agent, peer), 0);
  assert_int_equal(weft_agent_check(initiator.agent, peer), WEFT_ERR_PEER_LOST);
  crowd_close(&initiator);
  crowd_close(&target);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_idle_peer_killed),  cmocka_unit_test(test_successor),
      cmocka_unit_test(test_close_is_no_death), cmocka_unit_test(test_stopped_peer),
      cmocka_unit_test(test_own_stop),          cmocka_unit_test(test_both_stopped),
      cmocka_unit_test(test_forgotten),         cmocka_unit_test(test_one_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
