// Pinned host memory for windows (host_window.c).
#ifndef CUDA_MEMORY_HOST_MEMORY_H
#define CUDA_MEMORY_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

// Returns memory that other processes of this host can map by `*fd`. It is pinned and mapped by all devices,
// permanently. NULL: this host does not support it, or CUDA cannot register it. Within a guard.
void *cuda_host_memory_shared(size_t size, int *fd);
// The same for memory of this process only. Within a guard.
int cuda_host_memory_own(size_t size, void **memory, char *why);
// Whether another process maps the memory by a descriptor with a shared lock (device.h), or is about to do so.
bool cuda_host_memory_is_read(int fd);

#endif
