// Signals that request the node to stop. They are blocked in all threads, and read from a descriptor.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/signal/stop.h"
#include "run/node/node.h"

int node_open_signals(struct node *node) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (!stop_hangup_is_ignored())
    sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGUSR1);
  // No thread exists yet, so all threads will have these signals blocked.
  if (pthread_sigmask(SIG_BLOCK, &set, NULL) || (node->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
    return fail_errno(errno, "cannot receive signals through a file descriptor");
  return 0;
}

int node_pause(struct node *node, int ms) {
  struct pollfd fd = {.fd = node->signal_fd, .events = POLLIN};
  struct signalfd_siginfo info;
  if (poll(&fd, 1, ms) <= 0 || read(node->signal_fd, &info, sizeof info) != sizeof info)
    return 0;
  node->signal_number = (int)info.ssi_signo;
  return node_interrupted(node);
}

// The first SIGTERM asks an agent to leave, if agents may leave. The second one ends it at once, like any other signal.
static bool asks_to_leave(const struct node *node, int signal_number) {
  return signal_number == SIGTERM && !node->leads && node->config.agents == RUN_AGENTS_ELASTIC && !node->leave.asked;
}

// All nodes of a job receive SIGUSR1. The lead ends the run, and sends the others its reason.
void node_take_signal(struct node *node) {
  struct signalfd_siginfo info;
  if (read(node->signal_fd, &info, sizeof info) != sizeof info || (info.ssi_signo == SIGUSR1 && !node->leads))
    return;
  if (asks_to_leave(node, (int)info.ssi_signo))
    node->leave.asked = true;
  else
    node->signal_number = (int)info.ssi_signo;
}

void node_add_phase(const struct node *node, struct text *text) {
  if (node->phase.begun && node->phase.current < node->plan->num_phases)
    text_add(text, ": ended in phase %u (%u of %u), with the results until then", node->phase.current,
             node->phase.current + 1, node->plan->num_phases);
}

// A follower may be between phases and has no measurements, so its lead adds the phase to the error.
int node_interrupted(const struct node *node) {
  struct text phase = {0};
  if (node->leads)
    node_add_phase(node, &phase);
  const char *in_phase = phase.data ? phase.data : "";
  int err = node->signal_number == SIGUSR1
                ? fail(WEFT_ERR_CANCELED, "the time limit is near (SIGUSR1)%s",
                       *in_phase ? in_phase : ", and no phase is running")
                : fail(WEFT_ERR_CANCELED, "interrupted by SIG%s%s", sigabbrev_np(node->signal_number), in_phase);
  text_free(&phase);
  return err;
}
