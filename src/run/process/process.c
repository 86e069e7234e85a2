// Starts a rank process, reads its messages, and reaps it.
#include "run/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"

enum { CHILD_MESSAGE_FD = 3, CHILD_TASK_FD = 4, CHILD_COUNTERS_FD = 5, CHILD_FREE_FD = 6, EXEC_FAILED = 127 };

// Everything that exec needs. It is made before fork, since the child of a process with threads may not allocate.
struct image {
  char *argv[3];
  char **environment;
  char task[sizeof RUN_TASK_VARIABLE + 12]; // the environment variable
  int task_fd;
  int counters_fd; // the node's; -1: none
};

static void free_image(struct image *image) {
  free(image->environment);
  if (image->task_fd >= 0)
    close(image->task_fd);
}

static int make_image(struct image *image, const struct run_task *task) {
  extern char **environ;
  struct run_task own = *task;
  own.message_fd = CHILD_MESSAGE_FD;
  own.agent_pid = getpid();
  own.counters_fd = task->num_counters == 0 ? -1 : CHILD_COUNTERS_FD;
  image->counters_fd = task->num_counters == 0 ? -1 : task->counters_fd;
  size_t count = 0;
  while (environ[count])
    count++;
  image->environment = malloc((count + 2) * sizeof *image->environment);
  if (!image->environment)
    return fail(WEFT_ERR_NOMEM, "no memory to start rank %d", task->rank);
  memcpy(image->environment, environ, count * sizeof *environ);
  snprintf(image->task, sizeof image->task, "%s=%d", RUN_TASK_VARIABLE, CHILD_TASK_FD);
  image->environment[count] = image->task;
  image->environment[count + 1] = NULL;
  image->argv[0] = (char *)"weft";
  image->argv[1] = (char *)"rank";
  image->argv[2] = NULL;
  return run_task_to_descriptor(&own, &image->task_fd);
}

// In the child: async-signal-safe calls only.
static void become(const struct image *image, pid_t parent, int message_fd, int log_fd, int null_fd) {
  sigset_t none;
  sigemptyset(&none);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) // the parent died before the line above
    _exit(EXEC_FAILED);
  setpgid(0, 0);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGUSR1, SIG_IGN); // Slurm sends it to every process of a step; only the lead node ends the run
  dup2(null_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  // Moves both away from their final numbers, since each may have the other's.
  message_fd = fcntl(message_fd, F_DUPFD, CHILD_FREE_FD);
  int task_fd = fcntl(image->task_fd, F_DUPFD, CHILD_FREE_FD);
  int counters_fd = image->counters_fd < 0 ? -1 : fcntl(image->counters_fd, F_DUPFD, CHILD_FREE_FD);
  dup2(message_fd, CHILD_MESSAGE_FD);
  dup2(task_fd, CHILD_TASK_FD);
  close(CHILD_COUNTERS_FD);
  if (counters_fd >= 0)
    dup2(counters_fd, CHILD_COUNTERS_FD);
  // The rank must not inherit descriptors that a library opened without O_CLOEXEC (libcurl before 8 does so).
  syscall(SYS_close_range, CHILD_FREE_FD, ~0u, CLOSE_RANGE_CLOEXEC);
  execve("/proc/self/exe", image->argv, image->environment);
  static const char text[] = "weft: the rank's program cannot be started\n";
  ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
  (void)ignored;
  _exit(EXEC_FAILED);
}

static int start(struct run_child *child, const struct image *image, const int pipe_fds[2], int log_fd, int null_fd) {
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid == 0)
    become(image, parent, pipe_fds[1], log_fd, null_fd);
  if (pid < 0)
    return fail_errno(errno, "cannot start a process for rank %d", child->rank);
  child->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0); // only this process reaps it, so the pid cannot be reused yet
  if (child->pid_fd < 0) {
    int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return fail_errno(error, "cannot watch the process of rank %d", child->rank);
  }
  fcntl(child->pid_fd, F_SETFD, FD_CLOEXEC);
  child->pid = pid;
  child->message_fd = pipe_fds[0];
  return 0;
}

int run_child_start(struct run_child *child, const struct run_task *task, int log_fd) {
  struct image image = {.task_fd = -1};
  int pipe_fds[2] = {-1, -1}, null_fd = -1;
  *child = (struct run_child){.rank = task->rank, .slot = task->slot, .phase = task->phase};
  int err = make_image(&image, task);
  if (!err && (null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
    err = fail_errno(errno, "cannot open /dev/null");
  if (!err && pipe2(pipe_fds, O_CLOEXEC))
    err = fail_errno(errno, "cannot make a pipe for rank %d", task->rank);
  if (!err)
    err = start(child, &image, pipe_fds, log_fd, null_fd);
  if (err && pipe_fds[0] >= 0)
    close(pipe_fds[0]);
  if (pipe_fds[1] >= 0)
    close(pipe_fds[1]);
  if (null_fd >= 0)
    close(null_fd);
  free_image(&image);
  if (!err)
    fcntl(child->message_fd, F_SETFL, O_NONBLOCK); // only this end: writes of the rank block
  return err;
}

static void take_lines(struct run_child *child, run_child_message_fn fn, void *arg) {
  char *begin = child->line, *end;
  size_t left = child->line_size;
  while ((end = memchr(begin, '\n', left))) {
    json_t *json = json_loadb(begin, (size_t)(end - begin), 0, NULL);
    if (json)
      fn(arg, child, json);
    json_decref(json);
    left -= (size_t)(end + 1 - begin);
    begin = end + 1;
  }
  if (left == sizeof child->line)
    left = 0; // too long: no rank writes such a line
  memmove(child->line, begin, left);
  child->line_size = left;
}

void run_child_read(struct run_child *child, run_child_message_fn fn, void *arg) {
  while (child->message_fd >= 0) {
    ssize_t size = read(child->message_fd, child->line + child->line_size, sizeof child->line - child->line_size);
    if (size < 0 && errno == EINTR)
      continue;
    if (size < 0 && errno == EAGAIN)
      return;
    if (size <= 0) {
      close(child->message_fd);
      child->message_fd = -1;
      return;
    }
    child->line_size += (size_t)size;
    take_lines(child, fn, arg);
  }
}

bool run_child_has_ended(const struct run_child *child) {
  struct pollfd fd = {.fd = child->pid_fd, .events = POLLIN};
  return poll(&fd, 1, 0) == 1;
}

bool run_child_reap(struct run_child *child, int *status) {
  pid_t ended = waitpid(child->pid, status, WNOHANG);
  if (ended != child->pid)
    return false;
  close(child->pid_fd);
  if (child->message_fd >= 0)
    close(child->message_fd);
  child->pid = 0;
  return true;
}

void run_child_signal(const struct run_child *child, int signal_number) {
  if (child->pid > 0)
    syscall(SYS_pidfd_send_signal, child->pid_fd, signal_number, NULL, 0);
}
