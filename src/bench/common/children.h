// Workers of this host in processes of their own.
#ifndef BENCH_COMMON_CHILDREN_H
#define BENCH_COMMON_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { BENCH_MAX_CHILDREN = 1024 };

// What a child does. `socket`: from its parent; it becomes readable without a byte when the parent has gone, with which
// the child is killed, too. Returns 0 or an error, of which it has said what is to be said: the exit status of the
// process is that of the tool for it.
typedef int (*bench_child_fn)(void *arg, uint32_t index, int socket);

struct bench_child {
  pid_t pid;  // 0: none, or it has ended and was looked at
  int socket; // to it
  int status; // as waitpid() gave it, once it has ended
  bool ended;
};

struct bench_children {
  uint32_t count;
  struct bench_child *list;
};

// Forks `count` of them. To be called before this process has a thread. Children die with this process.
int bench_children_start(struct bench_children *children, uint32_t count, bench_child_fn fn, void *arg);
// Sends `size` bytes to all; a child takes them with bench_child_receive().
int bench_children_send(const struct bench_children *children, const void *bytes, size_t size);
int bench_child_receive(int socket, void *bytes, size_t size, uint32_t timeout_ms);
// A child that has ended, and was not told of yet, however it ended: into *index, and into how[cap], e.g. "was ended by
// signal 9 (Killed)", "exited with status 2". False: none. Does not wait.
bool bench_children_ended(struct bench_children *children, uint32_t *index, bool *well, char *how, size_t cap);
// Waits until all have ended. PEER_LOST: one ended by a signal or with a status other than 0 (the sentence says which
// and how); TIMEOUT names those that have not ended; CANCELED: a second signal is not waited for.
int bench_children_wait(struct bench_children *children, uint32_t timeout_ms);
// Kills what has not ended yet, and frees the list.
void bench_children_end(struct bench_children *children);

#endif
