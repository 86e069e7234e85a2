// Processes of this pid namespace.
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

// The start time of the process, in clock ticks since the host's start; 0: the system does not show it.
uint64_t process_start(int32_t pid);

// Whether the process with that pid and start time still runs; `start_ticks` 0: any process with that pid. Also true if
// the system does not show it.
bool process_lives(int32_t pid, uint64_t start_ticks);

// Waits for the end of a child of this process. False: the deadline has passed, and the child still exists. A child
// that the kernel holds, for instance in a driver, does not end even by SIGKILL. `*status` is that of waitpid(); 0:
// there is none.
bool process_reap(int32_t pid, int *status, uint64_t deadline_ns);

// Ends a child by SIGKILL, and waits for its end, but only as long as a child needs that the kernel does not hold.
void process_end(int32_t pid);

#endif
