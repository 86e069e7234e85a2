// Memory that operations work on: the host's, or that of a GPU, whose contents the experts and the judge see in copies.
// One owner thread.
#ifndef RUN_TRAFFIC_BUFFER_H
#define RUN_TRAFFIC_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

// Where buffers lie. Zeroed: in host memory.
struct buffer_home {
  const struct device_api *api; // NULL: the host
  struct device *device;
  void *stream;  // in which everything here and the operations themselves are ordered
  bool is_stuck; // work in the stream did not end in time: freeing would wait for it, so nothing is freed
};

// `gpu` as this process counts them, -1: the host. Makes the process' context on that GPU.
int buffer_home_open(struct buffer_home *home, int32_t gpu);
void buffer_home_close(struct buffer_home *home); // with no buffer left; a zeroed one is legal

// Zeroed memory into *(void **)out. On the host, pages appear when they are touched.
int buffer_allocate(const struct buffer_home *home, size_t size, void *out);
void buffer_release(const struct buffer_home *home, void *at, size_t size); // NULL is legal

// Of large buffers on the host: gives the pages back; what is read next is 0. Elsewhere nothing is done.
void buffer_forget(const struct buffer_home *home, void *at, size_t size);

int buffer_fill(const struct buffer_home *home, void *at, uint8_t byte, size_t size);

// From the host's memory into a buffer, and back; done on return. Nothing is to be done where both are one.
int buffer_put(const struct buffer_home *home, void *to, const void *from, size_t size);
int buffer_get(const struct buffer_home *home, void *to, const void *from, size_t size);

#endif
