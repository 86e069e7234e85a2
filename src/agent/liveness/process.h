// Processes of this pid namespace.
#ifndef AGENT_LIVENESS_PROCESS_H
#define AGENT_LIVENESS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

// Whether the process that started then still runs; `start_ticks` 0: whichever has that pid. True also where the system
// does not tell.
bool process_lives(int32_t pid, uint64_t start_ticks);

#endif
