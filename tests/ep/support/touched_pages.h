// Finds the pages of private memory that were touched since it was mapped, or given back to the kernel.
#ifndef TESTS_EP_PAGES_H
#define TESTS_EP_PAGES_H

#include <stddef.h>

// Pages of [memory, memory + size), which begins with one, that are there. -1: the kernel does not tell.
int pages_present(const void *memory, size_t size);

#endif
