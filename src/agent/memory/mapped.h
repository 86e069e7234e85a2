// Which of this process's addresses are mapped.
#ifndef AGENT_MEMORY_MAPPED_H
#define AGENT_MEMORY_MAPPED_H

#include <stdint.h>

// How many of the `length` bytes from `address` on are mapped before the first that is not. [any]
uint64_t mapped_bytes(uint64_t address, uint64_t length);

#endif
