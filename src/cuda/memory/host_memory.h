// Pinned host memory for windows (host_window.c).
#ifndef CUDA_MEMORY_HOST_MEMORY_H
#define CUDA_MEMORY_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

// Memory that other processes of this host can map by `*fd`: pinned, mapped by all devices, for good. NULL: this host
// has none, or CUDA does not take it. Within a guard.
void *cuda_host_memory_shared(size_t size, int *fd);
// The same of this process alone. Within a guard.
int cuda_host_memory_own(size_t size, void **memory, char *why);
// Whether another process maps it by a descriptor with a shared lock (device.h), or is about to.
bool cuda_host_memory_is_read(int fd);

#endif
