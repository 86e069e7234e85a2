// Processes of this pid namespace.
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

// When the process started, in clock ticks since the host did; 0: the system does not show it.
uint64_t process_start(int32_t pid);

// Whether the process that started then still runs; `start_ticks` 0: whichever has that pid. True also where the system
// does not show it.
bool process_lives(int32_t pid, uint64_t start_ticks);

// Waits for the end of a child of this process. False: the deadline came first, and the child is still there: one that
// the kernel holds, as a driver may, does not end by SIGKILL either. `*status` is as of waitpid(), 0 where there is
// none.
bool process_reap(int32_t pid, int *status, uint64_t deadline_ns);

// Ends a child by SIGKILL, and waits for that as long as it takes where nothing holds the child.
void process_end(int32_t pid);

#endif
