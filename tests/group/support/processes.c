// 64 processes claim 64 ranks at once, on the server of the test.
#include "group/support/processes.h"

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "group/group.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// Closes every descriptor except these two and the standard ones. The others include copies of the pipes of earlier
// children: an earlier child would not see the end of its pipe as long as this process has a copy of it.
static void keep_only(int *hear, int *say) {
  int first = fcntl(*hear, F_DUPFD, 100), second = fcntl(*say, F_DUPFD, 100);
  *hear = dup2(first, 3);
  *say = dup2(second, 4);
  close_range(5, ~0u, 0);
}

struct child processes_start(void (*body)(int hear, int say, const void *arg), const void *arg) {
  int down[2], up[2];
  assert_int_equal(pipe(down), 0);
  assert_int_equal(pipe(up), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    keep_only(&down[0], &up[1]);
    body(down[0], up[1], arg);
    _exit(0);
  }
  close(down[0]);
  close(up[1]);
  return (struct child){.pid = pid, .say = down[1], .hear = up[0]};
}

void processes_hear(const struct child *child, void *out, size_t size, uint64_t deadline_ns, const char *what) {
  for (size_t got = 0; got < size;) {
    struct pollfd fd = {.fd = child->hear, .events = POLLIN};
    if (poll(&fd, 1, clock_left_ms(deadline_ns)) <= 0)
      fail_msg("%s: nothing heard by the deadline", what);
    ssize_t more = read(child->hear, (char *)out + got, size - got);
    if (more <= 0)
      fail_msg("%s: the process has ended", what);
    got += (size_t)more;
  }
}

void processes_await_end(int hear) {
  char byte;
  while (read(hear, &byte, 1) > 0) {
  }
}

void processes_end(struct child *child) {
  int status;
  waitpid(child->pid, &status, 0);
  close(child->hear);
  assert_int_equal(status, 0);
}

// The body of a child: claims a rank, reports it to the parent, and keeps it until the parent closes the pipe.
static void claim(int hear_fd, int say, const void *url) {
  struct weft_store_options store_options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store;
  struct group *group;
  store_options.endpoints = url;
  store_options.request_timeout_ms = PROCESSES_DEADLINE_MS / 3;
  int32_t rank = -1;
  if (weft_store_open(&store, &store_options) != 0)
    _exit(1);
  const struct group_options options = {.store = store,
                                        .prefix = "/weft/processes/",
                                        .rank = -1,
                                        .capacity = 2 * PROCESSES,
                                        .lease_ttl_s = 60,
                                        .address = "here"};
  if (group_open(&group, &options, clock_deadline_ms(PROCESSES_DEADLINE_MS)) != 0) {
    fprintf(stderr, "claim: %s\n", weft_last_error());
    _exit(1);
  }
  rank = group_rank(group);
  if (write(say, &rank, sizeof rank) != sizeof rank)
    _exit(1);
  processes_await_end(hear_fd);
  group_close(group);
  weft_store_close(store);
}

void processes_claim_all(const char *url) {
  struct child children[PROCESSES];
  bool taken[PROCESSES] = {false};
  uint64_t deadline = clock_deadline_ms(PROCESSES_DEADLINE_MS);
  for (int i = 0; i < PROCESSES; i++)
    children[i] = processes_start(claim, url);
  for (int i = 0; i < PROCESSES; i++) {
    int32_t rank;
    processes_hear(&children[i], &rank, sizeof rank, deadline, "a claimer");
    assert_uint_in_range(rank, 0, PROCESSES - 1);
    assert_false(taken[rank]);
    taken[rank] = true;
  }
  for (int i = 0; i < PROCESSES; i++)
    close(children[i].say);
  for (int i = 0; i < PROCESSES; i++)
    processes_end(&children[i]);
}

void processes_expect_empty(const char *url) {
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  struct weft_store_list *list;
  weft_store_t *store;
  options.endpoints = url;
  assert_int_equal(weft_store_open(&store, &options), 0);
  assert_int_equal(weft_store_range(store, "/weft/processes/", true, 0, &list), 0);
  assert_int_equal(list->count, 0);
  weft_store_list_free(list);
  weft_store_close(store);
}
