// Runs one of Slurm's commands.
#include "slurm/job/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/time/clock.h"
#include "slurm/job/environment.h"

enum { OUT, ERR, STREAMS };

struct running {
  const char *name;
  pid_t pid;
  int fds[STREAMS]; // read ends of pipes; -1: closed
  struct text said; // standard error
};

static void close_ends(int (*pipes)[2], int which) {
  for (int i = 0; i < STREAMS; i++)
    if (pipes[i][which] >= 0)
      close(pipes[i][which]);
}

static int spawn(struct running *running, const char *const *argv, char **environment, int (*pipes)[2]) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  int error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (int i = 0; !error && i < STREAMS; i++)
    error = posix_spawn_file_actions_adddup2(&files, pipes[i][1], STDOUT_FILENO + i);
  if (!error)
    error = posix_spawnp(&running->pid, argv[0], &files, &attributes, (char *const *)argv, environment);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error == ENOENT)
    return fail(WEFT_ERR_SYSTEM,
                "there is no %s on PATH: run this where Slurm's commands are installed, such as on a login node",
                argv[0]);
  return error ? fail_errno(error, "cannot start %s", argv[0]) : 0;
}

static int start(struct running *running, const char *const *argv, const char *script) {
  int pipes[STREAMS][2] = {{-1, -1}, {-1, -1}};
  char **environment = slurm_environment(script);
  int err = environment ? 0 : fail(WEFT_ERR_NOMEM, "no memory to start %s", argv[0]);
  for (int i = 0; !err && i < STREAMS; i++)
    if (pipe2(pipes[i], O_CLOEXEC) != 0)
      err = fail_errno(errno, "cannot make a pipe for %s", argv[0]);
  if (!err)
    err = spawn(running, argv, environment, pipes);
  free(environment);
  close_ends(pipes, 1);
  if (err)
    close_ends(pipes, 0);
  for (int i = 0; i < STREAMS; i++)
    running->fds[i] = err ? -1 : pipes[i][0];
  return err;
}

// Reads both streams to their ends. False: the deadline came first.
static bool read_all(struct running *running, struct text *out, uint64_t deadline) {
  struct text *to[STREAMS] = {out, &running->said};
  while (running->fds[OUT] >= 0 || running->fds[ERR] >= 0) {
    struct pollfd fds[STREAMS];
    char bytes[4096];
    for (int i = 0; i < STREAMS; i++)
      fds[i] = (struct pollfd){.fd = running->fds[i], .events = POLLIN};
    int ready = poll(fds, STREAMS, clock_left_ms(deadline));
    if (ready == 0 && clock_passed(deadline))
      return false;
    for (int i = 0; ready > 0 && i < STREAMS; i++) {
      ssize_t size = fds[i].revents ? read(fds[i].fd, bytes, sizeof bytes) : -1;
      if (size > 0)
        text_add_bytes(to[i], bytes, (size_t)size);
      if (fds[i].revents && (size == 0 || (size < 0 && errno != EINTR))) {
        close(fds[i].fd);
        running->fds[i] = -1;
      }
    }
  }
  return true;
}

// The last line of the command's standard error, without a leading "sbatch: error: ".
static const char *last_words(struct text *said) {
  while (said->size > 0 && strchr(" \n\r", said->data[said->size - 1]))
    said->data[--said->size] = '\0';
  if (said->size == 0)
    return "it printed nothing";
  printable_text(said->data);
  char *line = strrchr(said->data, '\n');
  line = line ? line + 1 : said->data;
  char *error = strstr(line, "error: ");
  return error ? error + strlen("error: ") : line;
}

static int judge(struct running *running, int status, bool in_time, uint32_t timeout_ms) {
  if (!in_time)
    return fail(WEFT_ERR_TIMEOUT, "%s has not answered for %u s: is slurmctld up? ('scontrol ping' says)",
                running->name, timeout_ms / 1000);
  if (WIFSIGNALED(status))
    return fail(WEFT_ERR_SYSTEM, "%s was ended by signal %d", running->name, WTERMSIG(status));
  if (WEXITSTATUS(status) != 0)
    return fail(WEFT_ERR_SYSTEM, "%s: %s", running->name, last_words(&running->said));
  return 0;
}

int slurm_command(struct text *out, uint32_t timeout_ms, const char *const *argv, const char *script) {
  struct running running = {.name = argv[0], .fds = {-1, -1}};
  int status = 0, err = start(&running, argv, script);
  if (err)
    return err;
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  bool in_time = read_all(&running, out, deadline) && process_reap(running.pid, &status, deadline);
  if (!in_time)
    process_end(running.pid);
  for (int i = 0; i < STREAMS; i++)
    if (running.fds[i] >= 0)
      close(running.fds[i]);
  err = judge(&running, status, in_time, timeout_ms);
  text_free(&running.said);
  if (!err && out->failed)
    err = fail(WEFT_ERR_NOMEM, "no memory for what %s prints", argv[0]);
  return err;
}
