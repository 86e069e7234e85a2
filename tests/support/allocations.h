// Counts requests of the library's code to the system. Linked into a test program, the functions of allocations.c take
// the place of libc's in the program and in every library that it loads. They count nothing in a build with a
// sanitizer, which has such functions of its own.
#ifndef SUPPORT_ALLOCATIONS_H
#define SUPPORT_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

struct allocations {
  uint64_t own;    // calls of malloc and its relatives, free too, by this program: the library and the test
  uint64_t others; // likewise, by shared libraries
  uint64_t maps;   // mmap
  uint64_t locks;  // pthread_mutex_lock
  uint64_t getenvs;
};

// Whether this build counts.
bool allocations_counted(void);

// Begins to count what the calling thread does; pairs may be nested, and the outermost counts.
void allocations_begin(void);
// Ends it, and adds what was counted to `*sum`.
void allocations_end(struct allocations *sum);

// Counts what all threads do.
void allocations_begin_all(void);
void allocations_end_all(struct allocations *sum);

// The n-th allocation of this process from now on, from 1, fails, and no other; 0: none.
void allocations_fail(uint64_t n);
// Whether it has come to that.
bool allocations_failed(void);

// Allocations of this process that have not been freed.
int64_t allocations_live(void);

#endif
