// Worker processes of this host: they are forked before there is a thread, and watched until they have ended.
#include "bench/common/children.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/process.h"
#include "base/text/text.h"
#include "base/time/clock.h"

static void be_child(const struct bench_children *children, int socket, pid_t parent, uint32_t index, bench_child_fn fn,
                     void *arg) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  // A copy of another child's socket would hide from that child that the parent has ended.
  for (uint32_t i = 0; i < index; i++)
    close(children->list[i].socket);
  int err = fn(arg, index, socket);
  fflush(NULL);
  _exit(weft_err_exit_status(err));
}

static int start(struct bench_children *children, uint32_t index, bench_child_fn fn, void *arg) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno(errno, "cannot make a socket for worker process %u", index);
  fflush(NULL);
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) {
    close(ends[0]);
    be_child(children, ends[1], parent, index, fn, arg);
  }
  int error = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return fail_errno(error, "cannot start worker process %u", index);
  }
  children->list[index] = (struct bench_child){.pid = pid, .socket = ends[0]};
  return 0;
}

int bench_children_start(struct bench_children *children, uint32_t count, bench_child_fn fn, void *arg) {
  *children = (struct bench_children){0};
  if (count > BENCH_MAX_CHILDREN)
    return fail(WEFT_ERR_INVALID, "%u worker processes of one host: want at most %d", count, BENCH_MAX_CHILDREN);
  children->list = calloc(count ? count : 1, sizeof *children->list);
  if (!children->list)
    return fail(WEFT_ERR_NOMEM, "no memory for %u worker processes", count);
  int err = 0;
  for (uint32_t i = 0; i < count && !err; i++) {
    err = start(children, i, fn, arg);
    children->count += !err;
  }
  if (err)
    bench_children_end(children);
  return err;
}

int bench_children_send(const struct bench_children *children, const void *bytes, size_t size) {
  for (uint32_t i = 0; i < children->count; i++)
    for (size_t sent = 0; sent < size;) {
      ssize_t more = send(children->list[i].socket, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL);
      if (more < 0 && errno == EINTR)
        continue;
      if (more < 0)
        return fail(WEFT_ERR_PEER_LOST, "worker process %u of this host has ended before it began", i);
      sent += (size_t)more;
    }
  return 0;
}

int bench_child_receive(int socket, void *bytes, size_t size, uint32_t timeout_ms) {
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  for (size_t got = 0; got < size;) {
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    int count = poll(&ready, 1, clock_left_ms(deadline));
    if (count == 0)
      return fail(WEFT_ERR_TIMEOUT, "the process that started this worker sent nothing within %u ms", timeout_ms);
    ssize_t more = count < 0 ? -1 : recv(socket, (char *)bytes + got, size - got, 0);
    if (more < 0 && errno == EINTR)
      continue;
    if (more <= 0)
      return fail(WEFT_ERR_PEER_LOST, "the process that started this worker is gone");
    got += (size_t)more;
  }
  return 0;
}

static void describe(const struct bench_child *child, char *how, size_t cap) {
  if (WIFSIGNALED(child->status))
    snprintf(how, cap, "was ended by signal %d (%s)", WTERMSIG(child->status), strsignal(WTERMSIG(child->status)));
  else
    snprintf(how, cap, "exited with status %d", WEXITSTATUS(child->status));
}

static bool ended_well(const struct bench_child *child) {
  return WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0;
}

static bool look(struct bench_child *child) {
  if (child->ended || waitpid(child->pid, &child->status, WNOHANG) != child->pid)
    return false;
  child->ended = true;
  return true;
}

bool bench_children_ended(struct bench_children *children, uint32_t *index, bool *well, char *how, size_t cap) {
  for (uint32_t i = 0; i < children->count; i++) {
    struct bench_child *child = &children->list[i];
    if (!look(child))
      continue;
    *index = i;
    *well = ended_well(child);
    describe(child, how, cap);
    return true;
  }
  return false;
}

// A child that ends closes its socket. This wait ignores whatever the child may still send.
static void sleep_until_one_ends(const struct bench_children *children, struct pollfd *sockets, uint64_t deadline_ns) {
  nfds_t count = 0;
  for (uint32_t i = 0; i < children->count; i++)
    if (!children->list[i].ended)
      sockets[count++] = (struct pollfd){.fd = children->list[i].socket, .events = POLLRDHUP};
  if (poll(sockets, count, clock_left_ms(deadline_ns)) > 0)
    usleep(1000); // a process ends a moment after its sockets are closed
}

static int not_ended(const struct bench_children *children, uint32_t timeout_ms) {
  struct text who = {0};
  for (uint32_t i = 0; i < children->count; i++)
    if (!children->list[i].ended)
      text_add(&who, "%s%u (process %d)", who.size ? ", " : "", i, (int)children->list[i].pid);
  int err = fail(WEFT_ERR_TIMEOUT, "worker processes of this host have not ended within %u ms: %.400s", timeout_ms,
                 who.data ? who.data : "?");
  text_free(&who);
  return err;
}

int bench_children_wait(struct bench_children *children, uint32_t timeout_ms) {
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  struct pollfd *sockets = calloc(children->count ? children->count : 1, sizeof *sockets);
  if (!sockets)
    return fail(WEFT_ERR_NOMEM, "no memory to wait for worker processes");
  for (;;) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < children->count; i++) {
      look(&children->list[i]);
      left += !children->list[i].ended;
    }
    if (left == 0)
      break;
    if (clock_passed(deadline)) {
      free(sockets);
      return not_ended(children, timeout_ms);
    }
    sleep_until_one_ends(children, sockets, deadline);
  }
  free(sockets);
  for (uint32_t i = 0; i < children->count; i++) {
    char how[128];
    describe(&children->list[i], how, sizeof how);
    if (!ended_well(&children->list[i]))
      return fail(WEFT_ERR_PEER_LOST, "worker process %u of this host (process %d) %s", i, (int)children->list[i].pid,
                  how);
  }
  return 0;
}

void bench_children_end(struct bench_children *children) {
  for (uint32_t i = 0; i < children->count; i++) {
    struct bench_child *child = &children->list[i];
    if (!child->ended)
      process_end(child->pid);
    close(child->socket);
  }
  free(children->list);
  *children = (struct bench_children){0};
}
