// A child process: what it receives, what it reports, how it ends. This program is its own child: `PROGRAM rank`.
#include "cmocka_all.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/process/process.h"
#include "run/process/process_state.h"
#include "support/temporary.h"

enum { WAIT_MS = 60000, RANK_TALKS = 1, RANK_STAYS = 2, STATUS = 7 };

// Whether the file of /proc has this text. What cannot be read has it too.
static bool holds(const char *path, const char *wanted) {
  static char bytes[1 << 16];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = 0, more;
  while (fd >= 0 && (more = read(fd, bytes + size, sizeof bytes - (size_t)size)) > 0)
    size += more;
  bool found = fd < 0 || size == 0 || memmem(bytes, (size_t)size, wanted, strlen(wanted));
  if (fd >= 0)
    close(fd);
  return found;
}

// The child's side.
static int be_rank(void) {
  struct run_task task;
  json_t *owner = NULL;
  const char *number = getenv(RUN_TASK_VARIABLE);
  int fd = number ? atoi(number) : -1;
  if (holds("/proc/self/environ", "secret") || holds("/proc/self/cmdline", "secret") || fd <= STDERR_FILENO ||
      run_task_receive(&task, &owner))
    return 1;
  if (getenv(RUN_TASK_VARIABLE) || fcntl(fd, F_GETFD) >= 0) // what it starts finds neither
    return 1;
  if (task.rank == RANK_TALKS) {
    char byte;
    bool as_promised = task.agent_pid == getppid() && getpgrp() == getpid() && read(STDIN_FILENO, &byte, 1) == 0 &&
                       strcmp(task.token, "secret") == 0;
    run_message_line(task.message_fd, "promises %s", as_promised ? "kept" : "broken");
    for (int i = 0; i < 1000; i++) // far more than a pipe holds
      run_message_send(task.message_fd, json_pack("{s:s, s:i, s:s}", "kind", "count", "i", i, "text",
                                                  "a text that makes the message long enough to fill the pipe soon"));
    char huge[2 * RUN_MESSAGE_MAX];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    run_message_send(task.message_fd, json_string(huge)); // dropped
  } else {
    run_message_line(task.message_fd, "here");
    for (;;)
      pause(); // until it is killed, by its parent or with it
  }
  run_task_free(owner);
  return STATUS;
}

struct heard {
  int lines, counts;
  char line[64];
};

static void hear(void *arg, struct run_child *child, json_t *message) {
  struct heard *heard = arg;
  const char *kind = json_string_value(json_object_get(message, "kind"));
  (void)child;
  if (strcmp(kind, "line") == 0) {
    snprintf(heard->line, sizeof heard->line, "%s", json_string_value(json_object_get(message, "text")));
    heard->lines++;
  } else {
    assert_int_equal(json_integer_value(json_object_get(message, "i")), heard->counts);
    heard->counts++;
  }
}

static void start(struct run_child *child, int32_t rank, int log) {
  struct run_task task = {.endpoints = "e", .token = "secret", .job = "j", .run = "r", .rank = rank};
  assert_int_equal(run_child_start(child, &task, log), 0);
}

static void wait_on(int fd) {
  struct pollfd poller = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&poller, 1, WAIT_MS), 1);
}

static void it_gets_its_task_and_is_heard_to_the_last_message(void **state) {
  (void)state;
  char log[256], text[64] = "";
  support_temporary(log, sizeof log, "weft-test");
  int fd = mkstemp(log), status = 0;
  struct run_child child;
  struct heard heard = {0};
  start(&child, RANK_TALKS, fd);
  while (child.message_fd >= 0) {
    wait_on(child.message_fd);
    run_child_read(&child, hear, &heard);
  }
  wait_on(child.pid_fd);
  assert_true(run_child_has_ended(&child));
  assert_true(run_child_reap(&child, &status));
  assert_int_equal(WEXITSTATUS(status), STATUS);
  assert_int_equal(heard.counts, 1000);
  assert_string_equal(heard.line, "promises kept");
  assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
  assert_string_equal(text, "promises kept\n"); // its standard output is the log
  close(fd);
  remove(log);
}

static void a_signal_reaches_it(void **state) {
  (void)state;
  struct run_child child;
  struct heard heard = {0};
  int status = 0, null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  start(&child, RANK_STAYS, null_fd);
  close(null_fd);
  while (heard.lines == 0) {
    wait_on(child.message_fd);
    run_child_read(&child, hear, &heard);
  }
  assert_false(run_child_has_ended(&child));
  assert_false(run_child_reap(&child, &status));
  run_child_signal(&child, SIGTERM);
  wait_on(child.pid_fd);
  assert_true(run_child_reap(&child, &status));
  assert_int_equal(WTERMSIG(status), SIGTERM);
  run_child_signal(&child, SIGTERM); // nobody: no harm
}

// The middle process starts one and is killed; the pipe's end says that the innermost is gone too.
static void it_dies_with_its_parent(void **state) {
  (void)state;
  int pipe_fds[2];
  assert_int_equal(pipe(pipe_fds), 0);
  pid_t middle = fork();
  if (middle == 0) {
    struct run_child child;
    struct run_task task = {.endpoints = "e", .job = "j", .run = "r", .rank = RANK_STAYS};
    if (run_child_start(&child, &task, pipe_fds[1])) // its log is the pipe: held open by it and this process
      _exit(1);
    wait_on(child.message_fd);
    for (;;)
      pause();
  }
  char text[8] = "";
  close(pipe_fds[1]);
  assert_int_equal(read(pipe_fds[0], text, 4), 4);
  assert_string_equal(text, "here");
  kill(middle, SIGKILL);
  waitpid(middle, NULL, 0);
  do
    wait_on(pipe_fds[0]);
  while (read(pipe_fds[0], text, sizeof text) > 0);
  close(pipe_fds[0]);
}

static void its_state_is_read_whatever_its_name(void **state) {
  (void)state;
  struct process_state read;
  assert_true(process_state_parse(&read, "12 (a) T 0 () S) D 1 2 3 0 -1 4 5 6 7 8 30 12 0 0"));
  assert_int_equal(read.state, 'D');
  assert_int_equal(read.ticks, 42);
  assert_false(process_state_parse(&read, ""));
  assert_false(process_state_parse(&read, "12 (weft) S 1"));
  assert_true(process_state_read(&read, getpid()));
  assert_int_equal(read.state, 'R');
  assert_null(process_state_standstill('S'));
  assert_non_null(process_state_standstill('T'));
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "rank") == 0)
    return be_rank();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_gets_its_task_and_is_heard_to_the_last_message),
      cmocka_unit_test(a_signal_reaches_it),
      cmocka_unit_test(it_dies_with_its_parent),
      cmocka_unit_test(its_state_is_read_whatever_its_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
