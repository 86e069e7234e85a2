// Finds out which calls this kernel, and a seccomp filter in front of it, allow. Each call is tried.
#include "doctor/host/host.h"

#include "doctor/host/read.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

enum { LINE_SIZE = 64, CHILD_MS = 5000 };

static const char witness[] = "weft"; // lies at one address in parent and child

static int read_witness(pid_t process) {
  char copy[sizeof witness] = "";
  struct iovec local = {copy, sizeof copy}, remote = {(void *)(uintptr_t)witness, sizeof witness};
  ssize_t size = process_vm_readv(process, &local, 1, &remote, 1, 0);
  if (size < 0)
    return errno;
  return size == (ssize_t)sizeof copy && strcmp(copy, witness) == 0 ? 0 : EIO;
}

// A parent may read its child even if unrelated processes, such as ranks, may not read each other. So the child also
// tries to read its parent. It ends when `hold` is closed.
static void be_read(int hold, int answer) {
  int result = read_witness(getppid());
  if (write(answer, &result, sizeof result) < 0)
    _exit(1);
  char byte;
  _exit(read(hold, &byte, 1) < 0);
}

static void try_reading(struct doctor_kernel_facts *facts) {
  int hold[2], answer[2];
  facts->read_child = facts->read_parent = EAGAIN;
  if (pipe2(hold, O_CLOEXEC) != 0)
    return;
  if (pipe2(answer, O_CLOEXEC) != 0) {
    close(hold[0]);
    close(hold[1]);
    return;
  }
  pid_t child = fork();
  if (child == 0) {
    close(hold[1]);
    be_read(hold[0], answer[1]);
  }
  close(hold[0]);
  close(answer[1]);
  if (child > 0) {
    struct pollfd ready = {.fd = answer[0], .events = POLLIN};
    if (poll(&ready, 1, CHILD_MS) != 1 ||
        read(answer[0], &facts->read_parent, sizeof facts->read_parent) != (ssize_t)sizeof facts->read_parent)
      facts->read_parent = ETIMEDOUT;
    facts->read_child = read_witness(child);
  }
  close(hold[1]);
  close(answer[0]);
  if (child > 0)
    waitpid(child, NULL, 0);
}

// Closes the descriptor that a call made. 0 or errno.
static int close_result(long fd) {
  if (fd < 0)
    return errno;
  close((int)fd);
  return 0;
}

void doctor_gather_kernel(struct doctor_kernel_facts *facts, const char *root) {
  char line[LINE_SIZE];
  facts->ptrace_scope =
      doctor_read_line(root, "/proc/sys/kernel/yama/ptrace_scope", line, sizeof line) ? atoi(line) : -1;
  facts->io_uring_disabled =
      doctor_read_line(root, "/proc/sys/kernel/io_uring_disabled", line, sizeof line) ? atoi(line) : 0;
  try_reading(facts);
  struct io_uring_params params = {0};
  facts->io_uring = close_result(syscall(SYS_io_uring_setup, 4, &params));
  facts->pidfd = close_result(syscall(SYS_pidfd_open, getpid(), 0));
  // A kernel that has the call refuses a list without futexes by EINVAL.
  facts->futex_waitv = syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno != EINVAL ? errno : 0;
}

void doctor_judge_cma(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_kernel_facts *kernel = &facts->kernel;
  if (kernel->read_child == 0 && kernel->read_parent == 0) {
    doctor_find(report, DOCTOR_OK, "processes of one user may read each other's memory (process_vm_readv)");
    return;
  }
  int error = kernel->read_parent ? kernel->read_parent : kernel->read_child;
  if (kernel->ptrace_scope > 0 && kernel->read_parent == EPERM)
    doctor_find(report, DOCTOR_NOTE, "kernel.yama.ptrace_scope is %d: a process may read %s", kernel->ptrace_scope,
                kernel->read_child ? "no other's memory" : "the memory of its children only");
  else
    doctor_find(report, DOCTOR_NOTE, "processes may not read each other's memory (process_vm_readv: %s)",
                strerror(error));
  doctor_means(report, "transfers between processes copy twice, unless the memory is one of Weft's windows");
  if (kernel->ptrace_scope > 0 && kernel->read_parent == EPERM)
    doctor_fix(report, "run 'sysctl kernel.yama.ptrace_scope=0'; a file in /etc/sysctl.d keeps it");
  else
    doctor_fix(report, "start the container with 'docker run --cap-add=SYS_PTRACE', or with a seccomp profile that "
                       "allows process_vm_readv");
}

void doctor_judge_io_uring(const struct doctor_facts *facts, struct doctor_report *report) {
  const struct doctor_kernel_facts *kernel = &facts->kernel;
  if (kernel->io_uring == 0) {
    doctor_find(report, DOCTOR_OK, "io_uring can be set up");
    return;
  }
  doctor_find(report, DOCTOR_NOTE, "io_uring cannot be set up: %s", strerror(kernel->io_uring));
  doctor_means(report, "threads read and write files by plain calls, which is slower");
  if (kernel->io_uring_disabled > 0)
    doctor_fix(report, "kernel.io_uring_disabled is %d: run 'sysctl kernel.io_uring_disabled=0'",
               kernel->io_uring_disabled);
  else if (kernel->io_uring == ENOSYS)
    doctor_fix(report, "use Linux 5.6 or newer, built with CONFIG_IO_URING");
  else if (kernel->io_uring == ENOMEM)
    doctor_fix(report, "raise the limit of locked memory (see memlock)");
  else
    doctor_fix(report, "use a seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register");
}

void doctor_judge_pidfd(const struct doctor_facts *facts, struct doctor_report *report) {
  if (facts->kernel.pidfd == 0) {
    doctor_find(report, DOCTOR_OK, "pidfd_open works");
    return;
  }
  doctor_find(report, DOCTOR_NOTE, "pidfd_open fails: %s", strerror(facts->kernel.pidfd));
  doctor_means(report, "the death of a process on this host is noticed later, by a lost connection or a deadline");
  doctor_fix(report, "use Linux 5.3 or newer, and a seccomp profile that allows pidfd_open");
}

void doctor_judge_futex(const struct doctor_facts *facts, struct doctor_report *report) {
  if (facts->kernel.futex_waitv == 0) {
    doctor_find(report, DOCTOR_OK, "futex_waitv works");
    return;
  }
  doctor_find(report, DOCTOR_NOTE, "futex_waitv fails: %s", strerror(facts->kernel.futex_waitv));
  doctor_means(report,
               "a rank learns of its peers' deaths when their sockets close, which is after their memory is freed");
  doctor_fix(report, "use Linux 5.16 or newer, and a seccomp profile that allows futex_waitv");
}
