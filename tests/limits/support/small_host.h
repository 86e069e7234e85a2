// The simulated host of these tests.
#ifndef TESTS_LIMITS_SMALL_HOST_H
#define TESTS_LIMITS_SMALL_HOST_H

#include "limits/host.h"
#include "support/root.h"

// A setup function for cmocka: makes the folder, and keeps all files below it.
int root_make(void **state);

// Writes a host of two processors with caches of 32 KiB, 256 KiB and 1 MiB, and 4 GiB of memory.
void root_put_small_host(void);

// Opens the simulated host's table; the caller closes it.
struct limits *root_open(void);
// GPU 2 is at 0000:02:00.0.
bool root_gpu_address(uint32_t gpu, char address[16]);

#endif
