// Agents that record their events, and agents in separate processes.
#include "agent/support/crowd.h"
#include "agent/support/owned.h"

#include <errno.h>
#include <fcntl.h>
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
#include "support/wait.h"

struct weft_agent_options crowd_options(const char *name) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = name;
  options.transports = "shm";
  options.heartbeat_ms = 50;
  options.peer_timeout_ms = 30000; // tests of lost peers use a shorter time
  return options;
}

// Takes the agent's events.
static void listen(struct crowd_member *member) {
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  while (member->agent && weft_agent_next_event(member->agent, &event) == 1) {
    if (member->count == CROWD_EVENTS)
      continue;
    struct crowd_event *kept = &member->events[member->count++];
    kept->kind = event.kind;
    kept->peer = event.peer;
    snprintf(kept->name, sizeof kept->name, "%s", event.name);
    snprintf(kept->detail, sizeof kept->detail, "%s", event.detail);
  }
}

void crowd_open(struct crowd_member *member, const struct weft_agent_options *options) {
  memset(member, 0, sizeof *member);
  int err = weft_agent_open(&member->agent, options);
  if (err)
    fail_msg("agent %s: %s: %s", options->name, weft_err_name(err), weft_last_error());
}

void crowd_close(struct crowd_member *member) {
  if (!member->agent)
    return;
  listen(member);
  owned_close(member->agent);
  member->agent = NULL;
}

// The n-th such event; NULL: it has not arrived.
static const struct crowd_event *find(const struct crowd_member *member, enum weft_agent_event_kind kind,
                                      const char *name, size_t n, size_t *count) {
  *count = 0;
  for (size_t i = 0; i < member->count; i++) {
    const struct crowd_event *event = &member->events[i];
    if (event->kind == kind && (!name || strcmp(event->name, name) == 0) && ++*count == n)
      return event;
  }
  return NULL;
}

struct crowd_event crowd_await(struct crowd_member *member, enum weft_agent_event_kind kind, const char *name,
                               size_t n) {
  uint64_t until = clock_deadline_ms(SUPPORT_DEADLINE_MS);
  struct pollfd ready = {.fd = -1, .events = POLLIN};
  size_t count;
  const struct crowd_event *event;
  if (member->agent)
    assert_int_equal(weft_agent_fd(member->agent, &ready.fd), 0);
  for (;;) {
    listen(member);
    event = find(member, kind, name, n, &count);
    if (event || clock_passed(until))
      break;
    poll(&ready, 1, clock_left_ms(until));
  }
  for (size_t i = 0; !event && i < member->count; i++)
    printf("  event %d of %s: %s\n", (int)member->events[i].kind, member->events[i].name, member->events[i].detail);
  if (!event)
    fail_msg("no event %d of %s came for the %zu. time", (int)kind, name, n);
  return *event;
}

size_t crowd_count(struct crowd_member *member, enum weft_agent_event_kind kind, const char *name) {
  size_t count;
  listen(member);
  find(member, kind, name, SIZE_MAX, &count);
  return count;
}

void *crowd_blob(weft_agent_t *agent, size_t *size) {
  *size = 0;
  assert_int_equal(weft_agent_metadata(agent, NULL, NULL, 0, size), 0);
  void *blob = malloc(*size);
  assert_non_null(blob);
  assert_int_equal(weft_agent_metadata(agent, NULL, blob, *size, size), 0);
  return blob;
}

weft_peer_t crowd_load(weft_agent_t *to, weft_agent_t *from) {
  size_t size;
  void *blob = crowd_blob(from, &size);
  weft_peer_t peer = 0;
  int err = weft_agent_load(to, blob, size, &peer);
  if (err)
    fail_msg("load: %s: %s", weft_err_name(err), weft_last_error());
  free(blob);
  return peer;
}

// --- processes ---

void crowd_start(struct crowd_process *process, int (*run)(void *arg, int in, int out), void *arg) {
  int to[2], from[2];
  assert_int_equal(pipe2(to, O_CLOEXEC), 0);
  assert_int_equal(pipe2(from, O_CLOEXEC), 0);
  fflush(NULL);
  process->pid = fork();
  assert_true(process->pid >= 0);
  if (process->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // if a test fails, no process is left behind
    close(to[1]);
    close(from[0]);
    int status = run(arg, to[0], from[1]);
    fflush(NULL);
    _exit(status);
  }
  close(to[0]);
  close(from[1]);
  process->to = to[1];
  process->from = from[0];
}

void crowd_read(int fd, void *bytes, size_t size) {
  for (size_t at = 0; at < size;) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, SUPPORT_DEADLINE_MS) != 1)
      fail_msg("nothing came from the other process");
    ssize_t got = read(fd, (char *)bytes + at, size - at);
    if (got <= 0)
      fail_msg("the other process has ended");
    at += (size_t)got;
  }
}

void crowd_write(int fd, const void *bytes, size_t size) {
  if (write(fd, bytes, size) != (ssize_t)size)
    fail_msg("cannot write to the other process");
}

void crowd_send_blob(int fd, weft_agent_t *agent) {
  size_t size;
  void *blob = crowd_blob(agent, &size);
  crowd_write(fd, &size, sizeof size);
  crowd_write(fd, blob, size);
  free(blob);
}

weft_peer_t crowd_take_blob(int fd, weft_agent_t *to) {
  size_t size;
  crowd_read(fd, &size, sizeof size);
  void *blob = malloc(size);
  assert_non_null(blob);
  crowd_read(fd, blob, size);
  weft_peer_t peer = 0;
  int err = weft_agent_load(to, blob, size, &peer);
  if (err)
    fail_msg("load: %s: %s", weft_err_name(err), weft_last_error());
  free(blob);
  return peer;
}

static int reap(struct crowd_process *process) {
  int status = 0;
  uint64_t deadline = clock_deadline_ms(SUPPORT_DEADLINE_MS);
  while (waitpid(process->pid, &status, WNOHANG) == 0) {
    if (clock_passed(deadline)) {
      kill(process->pid, SIGKILL);
      fail_msg("process %d does not end", (int)process->pid);
    }
    poll(NULL, 0, 1);
  }
  close(process->to);
  close(process->from);
  process->pid = 0;
  return status;
}

int crowd_kill(struct crowd_process *process) {
  kill(process->pid, SIGKILL);
  return reap(process);
}

void crowd_end(struct crowd_process *process) {
  close(process->to);
  process->to = -1;
  int status = reap(process);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
