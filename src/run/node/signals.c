// Signals that ask the node to stop: blocked in all threads, and read from a descriptor.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "run/node/node.h"

int node_open_signals(struct node *node) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGUSR1);
  // Before any thread is there, so that all have them blocked.
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

// The first SIGTERM of an agent that may go asks it to leave; the second one ends it at once, like any other signal.
static bool asks_to_leave(const struct node *node, int signal_number) {
  return signal_number == SIGTERM && !node->leads && node->config.agents == RUN_AGENTS_ELASTIC && !node->leave.asked;
}

// SIGUSR1 goes to all nodes of a job. The lead ends the run, and tells the others with its reason.
void node_take_signal(struct node *node) {
  struct signalfd_siginfo info;
  if (read(node->signal_fd, &info, sizeof info) != sizeof info || (info.ssi_signo == SIGUSR1 && !node->leads))
    return;
  if (asks_to_leave(node, (int)info.ssi_signo))
    node->leave.asked = true;
  else
    node->signal_number = (int)info.ssi_signo;
}

int node_interrupted(const struct node *node) {
  const bool near_limit = node->signal_number == SIGUSR1;
  const char *signal_name = sigabbrev_np(node->signal_number);
  if (!node->phase.begun || node->phase.current >= node->plan->num_phases)
    return near_limit ? fail(WEFT_ERR_CANCELED, "the time limit is near (SIGUSR1), and no phase is under way")
                      : fail(WEFT_ERR_CANCELED, "interrupted by SIG%s", signal_name);
  return fail(WEFT_ERR_CANCELED, "%s%s: ended in phase %u (%u of %u), with what was measured until then",
              near_limit ? "the time limit is near (SIGUSR1)" : "interrupted by SIG", near_limit ? "" : signal_name,
              node->phase.current, node->phase.current + 1, node->plan->num_phases);
}
