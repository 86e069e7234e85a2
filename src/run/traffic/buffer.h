// The memory of operations: host memory, or GPU memory, of which the experts and the judge see copies. One owner
// thread.
#ifndef RUN_TRAFFIC_BUFFER_H
#define RUN_TRAFFIC_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

// The place of buffers. Zeroed: host memory.
struct buffer_home {
  const struct device_api *api; // NULL: the host
  struct device *device;
  void *stream;  // stream that orders all copies here and the operations themselves
  bool is_stuck; // work in the stream did not end in time: freeing would wait for it, so nothing is freed
};

// `gpu`: index in this process; -1: host memory. Makes the process' context on that GPU.
int buffer_home_open(struct buffer_home *home, int32_t gpu);
void buffer_home_close(struct buffer_home *home); // all buffers must have been released; a zeroed home is legal

// Zeroed memory into *(void **)out. On the host, pages appear when they are touched.
int buffer_allocate(const struct buffer_home *home, size_t size, void *out);
void buffer_release(const struct buffer_home *home, void *at, size_t size); // NULL is legal

// For large buffers in host memory: returns the pages to the system; later reads give 0. Does nothing for other memory.
void buffer_forget(const struct buffer_home *home, void *at, size_t size);

int buffer_fill(const struct buffer_home *home, void *at, uint8_t byte, size_t size);

// Copies from host memory into a buffer, and back; complete on return. Does nothing if both addresses are the same.
int buffer_put(const struct buffer_home *home, void *to, const void *from, size_t size);
int buffer_get(const struct buffer_home *home, void *to, const void *from, size_t size);

#endif
