// Workers of this host in separate processes.
#ifndef BENCH_COMMON_CHILDREN_H
#define BENCH_COMMON_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { BENCH_MAX_CHILDREN = 1024 };

// The function of a child. `socket`: connection to its parent; it becomes readable at end of file when the parent has
// ended, which also kills the child. Returns 0 or an error, which the function has already reported; the exit status of
// the process is the tool's status for this error.
typedef int (*bench_child_fn)(void *arg, uint32_t index, int socket);

struct bench_child {
  pid_t pid;  // 0: no process, or its end has been reported
  int socket; // to it
  int status; // from waitpid(), when it has ended
  bool ended;
};

struct bench_children {
  uint32_t count;
  struct bench_child *list;
};

// Forks `count` children. To be called before this process has a thread. Children die with this process.
int bench_children_start(struct bench_children *children, uint32_t count, bench_child_fn fn, void *arg);
// Sends `size` bytes to all children, which receive them with bench_child_receive().
int bench_children_send(const struct bench_children *children, const void *bytes, size_t size);
int bench_child_receive(int socket, void *bytes, size_t size, uint32_t timeout_ms);
// Reports a child that has ended and was not reported before: its number in *index, and how it ended in how[cap], e.g.
// "was ended by signal 9 (Killed)", "exited with status 2". False: no such child. Does not wait.
bool bench_children_ended(struct bench_children *children, uint32_t *index, bool *well, char *how, size_t cap);
// Waits until all have ended. PEER_LOST: a child ended by a signal or with a status other than 0 (the sentence says
// which and how); TIMEOUT names the children that have not ended; CANCELED: a second signal came, and the wait was
// ended.
int bench_children_wait(struct bench_children *children, uint32_t timeout_ms);
// Kills the children that have not ended yet, and frees the list.
void bench_children_end(struct bench_children *children);

#endif
