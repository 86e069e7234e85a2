// Local mode: starts the target in a separate process, and runs the initiator in this one.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/process.h"
#include "base/signal/stop.h"
#include "base/time/clock.h"
#include "p2p/buffer.h"
#include "p2p/gpus.h"
#include "p2p/report.h"
#include "secure/secret.h"

// The body of the target's process; it does not return.
static void be_target(const struct p2p_config *config, int port_out, pid_t parent) {
  stop_ignore(); // the initiator ends it
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  int rc = p2p_target(config, port_out);
  if (rc != 0 && rc != WEFT_ERR_PEER_LOST) // an initiator that has disconnected prints its own reason
    fprintf(stderr, "weft p2p: the target: %s\n", weft_last_error());
  _exit(weft_err_exit_status(rc));
}

enum { START_MS = 5000 }; // a target may take so long to start, even if --timeout-ms is shorter

// 1: there is something to read, or the writer has closed its end; 0: the deadline has passed.
static int await_port(int in, uint32_t timeout_ms) {
  uint64_t deadline_ns = clock_deadline_ms(timeout_ms);
  struct pollfd ready = {.fd = in, .events = POLLIN};
  int count;
  stop_at_once(true); // this also ends the target
  do
    count = poll(&ready, 1, clock_left_ms(deadline_ns));
  while (count < 0 && errno == EINTR);
  stop_at_once(false);
  return count;
}

// Reads the port that target `pid` writes; the port comes completely or not at all.
static int hear_port(int in, pid_t pid, uint32_t timeout_ms, uint16_t *port) {
  timeout_ms = timeout_ms > START_MS ? timeout_ms : START_MS;
  int ready = await_port(in, timeout_ms);
  if (ready == 0)
    return fail(WEFT_ERR_TIMEOUT, "the target, process %d, did not print its port within %.1f s", (int)pid,
                timeout_ms / 1e3);
  if (ready < 0)
    return fail_errno(errno, "cannot wait for the target, process %d", (int)pid);
  if (read(in, port, sizeof *port) == sizeof *port)
    return 0;
  return fail(WEFT_ERR_SYSTEM, "the target, process %d, ended before it listened", (int)pid);
}

// Waits for the end of the target, which ends by itself after the initiator's "bye" or disconnection; else kills it.
static void end_target(pid_t pid, uint32_t timeout_ms) {
  int status;
  if (!process_reap(pid, &status, clock_deadline_ms(timeout_ms)))
    process_end(pid);
}

// Starts the target's process and gets the port at which it listens. The caller ends `*pid`, also if this fails.
static int start_target(const struct p2p_config *config, uint16_t *port, pid_t *pid) {
  int ends[2];
  if (pipe(ends) != 0)
    return fail_errno(errno, "cannot make a pipe");
  fflush(NULL);
  pid_t parent = getpid();
  *pid = fork();
  if (*pid == 0) {
    close(ends[0]);
    be_target(config, ends[1], parent);
  }
  close(ends[1]);
  int rc = *pid > 0 ? hear_port(ends[0], *pid, config->timeout_ms, port) : fail_errno(errno, "cannot start the target");
  close(ends[0]);
  return rc;
}

// The report of a run that has not begun. Returns `err` with its sentence.
static int report_failure(const struct p2p_config *config, const struct p2p_sizes *sizes, int err) {
  struct p2p_report report;
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", weft_last_error());
  if (p2p_report_begin(&report, stdout, config, sizes) == 0) {
    fail(err, "%s", why);
    p2p_report_end(&report, err);
  }
  return fail(err, "%s", why);
}

static int run_local(const struct p2p_config *given, const struct p2p_sizes *sizes, uint32_t target_gpu) {
  struct p2p_config here = *given, there = *given;
  char token[SECRET_DIGITS + 1]; // only the child inherits it
  pid_t pid = -1;
  int rc = p2p_buffer_room(given->memory, p2p_buffer_bytes(given, sizes), 2);
  if (rc != 0)
    return report_failure(given, sizes, rc);
  secret_make(token);
  here.token = there.token = token;
  here.host = there.listen = "127.0.0.1";
  there.lend = NULL;
  there.port = 0;
  there.gpu = target_gpu;
  // both sides are on this host, so libfabric's TCP listens where no other host can connect
  setenv("FI_TCP_IFACE", "lo", 0);
  rc = start_target(&there, &here.port, &pid);
  rc = rc == 0 ? p2p_initiator(&here, sizes) : report_failure(&here, sizes, rc);
  if (pid > 0)
    end_target(pid, rc >= 0 ? here.timeout_ms : 0);
  return rc;
}

// Refuses sizes of which none can be measured, before the initiator takes its turn at a target.
static int check_sizes(const struct p2p_config *config, const struct p2p_sizes *sizes) {
  for (uint32_t i = 0; i < sizes->count; i++)
    if (config->op != P2P_OP_NOTIFY || sizes->bytes[i] <= WEFT_AGENT_MAX_NOTIFICATION)
      return 0;
  return fail(WEFT_ERR_INVALID, "a notification has at most %d bytes, but every size is larger",
              WEFT_AGENT_MAX_NOTIFICATION);
}

int p2p_run(const struct p2p_config *config) {
  struct p2p_sizes sizes;
  uint32_t target_gpu = 0;
  stop_watch("weft p2p");
  int rc = p2p_sizes_parse(config->sizes, &sizes);
  if (rc != 0)
    return fail_context(rc, "--buffer-sizes");
  rc = p2p_check(config);
  if (rc == 0 && config->mode != P2P_TARGET)
    rc = check_sizes(config, &sizes);
  if (rc != 0)
    return rc;
  if (config->memory == P2P_MEMORY_CUDA)
    rc = p2p_gpus_choose(config, &target_gpu);
  if (rc != 0)
    return config->mode == P2P_TARGET ? rc : report_failure(config, &sizes, rc);
  if (p2p_is_storage(config->memory))
    return p2p_storage(config, &sizes);
  switch (config->mode) {
  case P2P_TARGET:
    return p2p_target(config, -1);
  case P2P_INITIATOR:
    return p2p_initiator(config, &sizes);
  default:
    return run_local(config, &sizes, target_gpu);
  }
}
