// A target in another process is killed or stopped, idle and during reads and writes. Every post ends, no post succeeds
// whose data did not arrive, nothing touches this side's memory afterwards, and the next incarnation is a new peer. The
// test uses shared memory, or the transport that the argument names.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "base/random.h"
#include "base/time/clock.h"
#include "support/emulated.h"
#include "support/sanitized.h"
#include "support/wait.h"

#include <weft/weft.h>

enum { BYTES = 8 << 20, KILLS = SUPPORT_SANITIZED ? 4 : 12, FAR_KILLS = 4, BLOB = 1 << 16 };

static const char *transport = "shm";

struct target {
  pid_t pid;
  int to, from; // pipes
};

static weft_agent_t *open_agent(const char *name, weft_region_t *region, void **memory) {
  weft_agent_t *agent;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = name;
  options.transports = transport;
  options.heartbeat_ms = 50;
  options.peer_timeout_ms = 3000;
  if (weft_agent_open(&agent, &options) != 0 ||
      weft_agent_allocate(agent, WEFT_MEMORY_HOST, BYTES, -1, region, memory) != 0)
    return NULL;
  return agent;
}

static bool send_blob(weft_agent_t *agent, int fd) {
  static uint8_t blob[BLOB];
  size_t size = sizeof blob;
  uint32_t number;
  if (weft_agent_metadata(agent, NULL, blob, size, &size) != 0)
    return false;
  number = (uint32_t)size;
  return write(fd, &number, sizeof number) == sizeof number && write(fd, blob, size) == (ssize_t)size;
}

static bool load_blob(weft_agent_t *agent, int fd, weft_peer_t *peer) {
  static uint8_t blob[BLOB];
  uint32_t number;
  if (read(fd, &number, sizeof number) != sizeof number || number > sizeof blob)
    return false;
  for (uint32_t got = 0; got < number;) {
    ssize_t some = read(fd, blob + got, number - got);
    if (some <= 0)
      return false;
    got += (uint32_t)some;
  }
  return weft_agent_load(agent, blob, number, peer) == 0;
}

// The other process: tells of itself, loads its parent, and is there until the pipe ends.
static void be_target(int to, int from) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  weft_region_t region;
  void *memory;
  weft_peer_t parent;
  weft_agent_t *agent = open_agent("target", &region, &memory);
  if (!agent || !send_blob(agent, from) || !load_blob(agent, to, &parent) ||
      weft_agent_notify(agent, parent, "hello", 5) != 0)
    _exit(1);
  for (char byte; read(to, &byte, 1) == 1;)
    ;
  weft_agent_close(agent);
  _exit(0);
}

static struct target start_target(void) {
  int to[2], from[2];
  assert_int_equal(pipe(to), 0);
  assert_int_equal(pipe(from), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    close(to[1]);
    close(from[0]);
    char reads[16], writes[16]; // a program of its own: this one has threads
    snprintf(reads, sizeof reads, "%d", to[0]);
    snprintf(writes, sizeof writes, "%d", from[1]);
    execl("/proc/self/exe", "target", reads, writes, transport, (char *)NULL);
    _exit(1);
  }
  close(to[0]);
  close(from[1]);
  return (struct target){pid, to[1], from[0]};
}

static void end_target(struct target *target, int signal) {
  if (signal)
    kill(target->pid, signal);
  close(target->to);
  close(target->from);
  waitpid(target->pid, NULL, 0);
}

struct side {
  weft_agent_t *agent;
  weft_peer_t peer;
  weft_dlist_t *local, *remote;
  weft_transfer_t *write, *read;
  uint8_t *memory;
  struct target target;
};

static void side_open(struct side *side) {
  weft_region_t region;
  void *memory;
  memset(side, 0, sizeof *side);
  side->agent = open_agent("source", &region, &memory);
  assert_non_null(side->agent);
  side->memory = memory;
}

static void connect_to(struct side *side) {
  side->target = start_target();
  if (!load_blob(side->agent, side->target.from, &side->peer))
    fail_msg("the target is not loaded: %s", weft_last_error());
  assert_true(send_blob(side->agent, side->target.to));
  struct weft_region_info info;
  uint32_t count = 1;
  assert_int_equal(weft_agent_regions(side->agent, side->peer, &info, sizeof info, count, &count), 0);
  struct weft_descriptor here = {(uintptr_t)side->memory, BYTES, 0}, there = {info.address, BYTES, info.region};
  assert_int_equal(weft_dlist_create(side->agent, WEFT_PEER_SELF, &here, 1, &side->local), 0);
  assert_int_equal(weft_dlist_create(side->agent, side->peer, &there, 1, &side->remote), 0);
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  options.notification = "written";
  options.notification_size = 7;
  assert_int_equal(
      weft_transfer_create(side->agent, WEFT_TRANSFER_WRITE, side->local, side->remote, &options, &side->write), 0);
  assert_int_equal(weft_transfer_create(side->agent, WEFT_TRANSFER_READ, side->local, side->remote, NULL, &side->read),
                   0);
}

static void let_go(struct side *side) {
  weft_transfer_free(side->write);
  weft_transfer_free(side->read);
  assert_int_equal(weft_dlist_free(side->local), 0);
  assert_int_equal(weft_dlist_free(side->remote), 0);
}

// Posts both ways until the peer is known to be lost.
static void post_until_lost(struct side *side, uint64_t kill_ns) {
  uint64_t until = clock_deadline_ms(SUPPORT_DEADLINE_MS);
  bool killed = false;
  int rc = 0;
  for (uint32_t i = 0; rc == 0 || rc == WEFT_ERR_BUSY; i++) {
    if (clock_passed(until))
      fail_msg("the death is not noticed");
    weft_transfer_t *one = i % 2 ? side->write : side->read;
    rc = weft_transfer_post(one);
    if (!killed && clock_ns() >= kill_ns) {
      kill(side->target.pid, SIGKILL);
      killed = true;
    }
    if (rc == 0)
      rc = weft_transfer_wait(one, SUPPORT_DEADLINE_MS);
  }
  assert_int_equal(rc, WEFT_ERR_PEER_LOST);
}

static bool has_spoken(void *arg) {
  struct weft_notification hello;
  uint32_t count = 1;
  return weft_agent_notifications(arg, &hello, count, &count) == 0 && count == 1;
}

static bool is_lost(void *arg) {
  struct side *side = arg;
  return weft_agent_check(side->agent, side->peer) == WEFT_ERR_PEER_LOST;
}

static void expect_no_posts(struct side *side) {
  assert_int_equal(weft_transfer_post(side->write), WEFT_ERR_PEER_LOST);
  assert_int_equal(weft_transfer_post(side->read), WEFT_ERR_PEER_LOST);
}

static void killed_in_the_middle(void **state) {
  (void)state;
  struct side side;
  uint64_t seed = 1;
  side_open(&side);
  int kills = strcmp(transport, "shm") == 0 ? KILLS : FAR_KILLS;
  for (int i = 0; i < kills; i++) {
    connect_to(&side);
    post_until_lost(&side, clock_ns() + random_next(&seed) % 30000000);
    assert_true(support_wait(is_lost, &side, SUPPORT_DEADLINE_MS));
    expect_no_posts(&side);
    // All have ended, so that this page is nobody's: who touched it would end the test.
    assert_int_equal(mprotect(side.memory, BYTES, PROT_NONE), 0);
    end_target(&side.target, 0);
    assert_int_equal(mprotect(side.memory, BYTES, PROT_READ | PROT_WRITE), 0);
    let_go(&side);
  }
  weft_agent_close(side.agent);
}

// Killed with a post behind it that nobody waits for.
static void killed_after_a_post(void **state) {
  (void)state;
  struct side side;
  side_open(&side);
  connect_to(&side);
  assert_int_equal(weft_transfer_post(side.write), 0);
  end_target(&side.target, SIGKILL);
  assert_true(support_wait(is_lost, &side, SUPPORT_DEADLINE_MS));
  int rc = weft_transfer_wait(side.write, SUPPORT_DEADLINE_MS);
  assert_true(rc == 0 || rc == WEFT_ERR_PEER_LOST);
  let_go(&side);
  weft_agent_close(side.agent);
}

static void killed_idle(void **state) {
  (void)state;
  struct side side;
  side_open(&side);
  connect_to(&side);
  assert_true(support_wait(has_spoken, side.agent, SUPPORT_DEADLINE_MS));
  end_target(&side.target, SIGKILL);
  assert_true(support_wait(is_lost, &side, SUPPORT_DEADLINE_MS)); // nobody asks anything of it
  expect_no_posts(&side);
  let_go(&side);
  weft_agent_close(side.agent);
}

// Stopped with a post under way, taken for lost, and woken when its writer's memory is nobody's any more.
// Not by UCX over TCP under an emulator, which is slow enough for a fault of UCX's, in one of three runs: a connection
// that is freed twice.
static void stopped_in_the_middle(void **state) {
  (void)state;
  if (strcmp(transport, "ucx") == 0 && support_emulated()) {
    print_message("skipped: a peer that is stopped in the middle: under an emulator UCX ends the process\n");
    return;
  }
  struct side side;
  side_open(&side);
  for (int i = 0; i < 2; i++) {
    connect_to(&side);
    assert_true(support_wait(has_spoken, side.agent, SUPPORT_DEADLINE_MS));
    weft_transfer_t *one = i ? side.read : side.write;
    assert_int_equal(weft_transfer_post(one), 0);
    kill(side.target.pid, SIGSTOP);
    int rc = weft_transfer_wait(one, SUPPORT_DEADLINE_MS);
    assert_true(rc == 0 || rc == WEFT_ERR_PEER_LOST);
    assert_true(support_wait(is_lost, &side, SUPPORT_DEADLINE_MS));
    assert_int_equal(mprotect(side.memory, BYTES, PROT_NONE), 0);
    kill(side.target.pid, SIGCONT);
    end_target(&side.target, 0); // it goes on, and closes
    assert_int_equal(mprotect(side.memory, BYTES, PROT_READ | PROT_WRITE), 0);
    let_go(&side);
  }
  weft_agent_close(side.agent);
}

// One that is stopped is not needed for what is mapped; with its heartbeats gone it is lost all the same.
static void stopped(void **state) {
  (void)state;
  struct side side;
  side_open(&side);
  connect_to(&side);
  assert_true(support_wait(has_spoken, side.agent, SUPPORT_DEADLINE_MS)); // who never spoke may be silent
  kill(side.target.pid, SIGSTOP);
  memset(side.memory, 7, BYTES);
  int rc = weft_transfer_post(side.read);
  assert_true(rc == 0 || rc == WEFT_ERR_PEER_LOST);
  if (rc == 0)
    rc = weft_transfer_wait(side.read, SUPPORT_DEADLINE_MS);
  assert_true(rc == 0 || rc == WEFT_ERR_PEER_LOST);
  if (rc == 0)
    assert_int_equal(side.memory[BYTES - 1], 0);
  assert_true(support_wait(is_lost, &side, SUPPORT_DEADLINE_MS));
  assert_int_equal(weft_transfer_post(side.read), WEFT_ERR_PEER_LOST);
  end_target(&side.target, SIGKILL);
  let_go(&side);
  weft_agent_close(side.agent);
}

int main(int argc, char **argv) {
  if (argc > 1)
    transport = argv[argc - 1];
  if (argc == 4)
    be_target(atoi(argv[1]), atoi(argv[2]));
  signal(SIGPIPE, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_in_the_middle),  cmocka_unit_test(killed_after_a_post),
      cmocka_unit_test(killed_idle),           cmocka_unit_test(stopped),
      cmocka_unit_test(stopped_in_the_middle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
