// Both sides: a target in a process of its own, or one of the two alone.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "p2p/buffer.h"
#include "secure/secret.h"

const char *const p2p_mode_names[] = {
    [P2P_LOCAL] = "local", [P2P_TARGET] = "target", [P2P_INITIATOR] = "initiator", NULL};
const char *const p2p_memory_names[] = {
    [P2P_MEMORY_HOST] = "host", [P2P_MEMORY_USER] = "user", [P2P_MEMORY_CUDA] = "cuda", NULL};
const char *const p2p_op_names[] = {
    [P2P_OP_ALL] = "all", [P2P_OP_WRITE] = "write", [P2P_OP_READ] = "read", [P2P_OP_NOTIFY] = "notify", NULL};

// What the target's process ends with.
static void be_target(const struct p2p_config *config, int port_out, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  int rc = p2p_target(config, port_out);
  if (rc != 0)
    fprintf(stderr, "weft p2p: the target: %s\n", weft_last_error());
  _exit(weft_err_exit_status(rc));
}

static int hear_port(int in, uint16_t *port) {
  ssize_t got;
  do
    got = read(in, port, sizeof *port);
  while (got < 0 && errno == EINTR);
  return got == sizeof *port ? 0 : fail(WEFT_ERR_SYSTEM, "the target did not start");
}

// It ends by itself when the initiator has said good-bye, or has gone.
static void end_target(pid_t pid, uint32_t timeout_ms) {
  uint64_t deadline_ns = clock_deadline_ms(timeout_ms);
  while (waitpid(pid, NULL, WNOHANG) == 0) {
    if (clock_passed(deadline_ns))
      kill(pid, SIGKILL);
    usleep(1000);
  }
}

static int run_local(const struct p2p_config *given, const struct p2p_sizes *sizes) {
  struct p2p_config config = *given;
  char token[SECRET_DIGITS + 1]; // only the child inherits it
  int pipe_fds[2];
  int rc = p2p_buffer_room(config.memory, p2p_buffer_bytes(&config, sizes), 2);
  if (rc != 0)
    return rc;
  secret_make(token);
  config.token = token;
  config.lend = NULL;
  config.listen = config.host = "127.0.0.1";
  config.port = 0;
  if (pipe(pipe_fds) != 0)
    return fail_errno(errno, "cannot make a pipe");
  fflush(NULL);
  pid_t parent = getpid(), pid = fork();
  if (pid < 0)
    return fail_errno(errno, "cannot start the target");
  if (pid == 0) {
    close(pipe_fds[0]);
    be_target(&config, pipe_fds[1], parent);
  }
  close(pipe_fds[1]);
  rc = hear_port(pipe_fds[0], &config.port);
  close(pipe_fds[0]);
  if (rc == 0)
    rc = p2p_initiator(&config, sizes);
  end_target(pid, rc == 0 ? config.timeout_ms : 0);
  return rc;
}

// Those of storage have no peer. (That others exist is seen in the processes that open them: a network's library does
// not like to be loaded before a fork.)
static int check_transports(const char *names) {
  while (names && *names) {
    size_t length = strcspn(names, ",");
    if ((length == 4 && strncmp(names, "file", 4) == 0) || (length == 6 && strncmp(names, "object", 6) == 0))
      return fail(WEFT_ERR_INVALID, "--transport: %.*s cannot reach another process: want shm, cuda, ucx or ofi",
                  (int)length, names);
    names += length + (names[length] == ',');
  }
  return 0;
}

int p2p_run(const struct p2p_config *config) {
  struct p2p_sizes sizes;
  int rc = p2p_sizes_parse(config->sizes, &sizes);
  if (rc == 0)
    rc = check_transports(config->transport);
  if (rc != 0)
    return rc;
  switch (config->mode) {
  case P2P_TARGET:
    return p2p_target(config, -1);
  case P2P_INITIATOR:
    return p2p_initiator(config, &sizes);
  default:
    return run_local(config, &sizes);
  }
}
