// Counts requests of the library's code to the system. Linked into a test program, the functions of allocations.c take
// the place of libc's in the program and in every library that it loads. They count nothing in a build with a
// sanitizer, and under valgrind, which have such functions of their own.
#ifndef SUPPORT_ALLOCATIONS_H
#define SUPPORT_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

struct allocations {
  uint64_t own;    // malloc, free and their relatives, called by this program: the library and the test
  uint64_t others; // the same calls by shared libraries
  uint64_t maps;   // mmap
  uint64_t locks;  // pthread_mutex_lock
  uint64_t getenvs;
};

// Whether they count here.
bool allocations_counted(void);

// Begins to count the calling thread's requests. Pairs may be nested; only the outermost one counts.
void allocations_begin(void);
// Ends the count, and adds it to `*sum`.
void allocations_end(struct allocations *sum);

// Counts the requests of all threads.
void allocations_begin_all(void);
void allocations_end_all(struct allocations *sum);

// Makes the n-th allocation of this process from now on fail (the first is 1), and no other; 0: none.
void allocations_fail(uint64_t n);
// The same for the allocations of the calling thread.
void allocations_fail_here(uint64_t n);
// Whether the allocation that had to fail has failed.
bool allocations_failed(void);

// Allocations of this process that have not been freed.
int64_t allocations_live(void);

#endif
