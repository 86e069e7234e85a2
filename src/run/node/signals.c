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
  return fail(WEFT_ERR_CANCELED, "interrupted by SIG%s", sigabbrev_np(node->signal_number));
}

void node_take_signal(struct node *node) {
  struct signalfd_siginfo info;
  if (read(node->signal_fd, &info, sizeof info) == sizeof info)
    node->signal_number = (int)info.ssi_signo;
}
