// 64 processes claim 64 ranks at once, on the server of the test.
#ifndef TESTS_GROUP_PROCESSES_H
#define TESTS_GROUP_PROCESSES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCESSES = 64, PROCESSES_DEADLINE_MS = 90000 };

struct child {
  pid_t pid;
  int say;  // the child ends when this is closed
  int hear; // messages of the child
};

// Starts a process that runs `body` with its ends of both pipes; it dies with this process.
struct child processes_start(void (*body)(int hear, int say, const void *arg), const void *arg);

// In the child: waits until the parent closes `say`.
void processes_await_end(int hear);

// Reads exactly `size` bytes by the deadline. Fails the test with `what` otherwise.
void processes_hear(const struct child *child, void *out, size_t size, uint64_t deadline_ns, const char *what);

// Waits for the child's end, after its `say` was closed. The child must have ended successfully.
void processes_end(struct child *child);

// Each process claims any of 128 ranks. Fails the test unless they get 0 to 63.
void processes_claim_all(const char *url);

// After all have closed: fails the test if the store has anything left. Call it last, since a process with a client
// should not fork any more.
void processes_expect_empty(const char *url);

#endif
