// Finds out which addresses of this process are mapped.
#ifndef AGENT_MEMORY_MAPPED_H
#define AGENT_MEMORY_MAPPED_H

#include <stdint.h>

// Of the `length` bytes from `address` on, the number of mapped bytes before the first unmapped one. [any]
uint64_t mapped_bytes(uint64_t address, uint64_t length);

#endif
