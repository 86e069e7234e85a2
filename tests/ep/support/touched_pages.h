// Finds the pages of private memory that were touched since it was mapped, or given back to the kernel.
#ifndef TESTS_EP_PAGES_H
#define TESTS_EP_PAGES_H

#include <stddef.h>

// The number of present pages of [memory, memory + size); `memory` is the start of a page. -1: the kernel does not
// report it.
int pages_present(const void *memory, size_t size);

#endif
