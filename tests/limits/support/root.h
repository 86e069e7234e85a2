// A made-up host: files of sys/, proc/ and etc/ below a temporary folder.
#ifndef TESTS_LIMITS_ROOT_H
#define TESTS_LIMITS_ROOT_H

#include "limits/host.h"

enum { ROOT_PATH = 256 };
extern char root[ROOT_PATH];

// cmocka's functions around each test: the folder, and that nothing is kept but below it.
int root_make(void **state);
int root_remove(void **state);

// Writes a file, with the folders above it.
void root_put(const char *path, const char *text);
// A host of two processors with caches of 32 KiB, 256 KiB and 1 MiB, and 4 GiB of memory.
void root_put_small_host(void);

// Opens the made-up host's table; the caller's.
struct limits *root_open(void);
// GPU 2 is at 0000:02:00.0.
bool root_gpu_address(uint32_t gpu, char address[16]);

#endif
