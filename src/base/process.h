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

#endif
