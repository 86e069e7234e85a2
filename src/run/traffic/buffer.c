// Memory for operations, on the host and on a GPU.
#include "run/traffic/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fail.h"

int buffer_home_open(struct buffer_home *home, int32_t gpu) {
  struct buffer_home opened = {0};
  char why[DEVICE_WHY] = "", what[32];
  snprintf(what, sizeof what, "GPU %d", gpu);
  int err = gpu < 0 ? 0 : device_load(&opened.api);
  if (!err && gpu >= 0 && (err = opened.api->open(gpu, &opened.device, why)))
    return device_fail(err, what, why);
  if (!err && gpu >= 0 && (err = opened.api->stream_open(opened.device, &opened.stream, why))) {
    opened.api->close(opened.device);
    return device_fail(err, what, why);
  }
  if (!err)
    *home = opened;
  return err;
}

void buffer_home_close(struct buffer_home *home) {
  if (home->api && !home->is_stuck) {
    home->api->stream_close(home->device, home->stream);
    home->api->close(home->device);
  }
  *home = (struct buffer_home){0};
}

// Maps memory without reserving it: receive buffers have room for the worst routing, and little of it is used.
static int map(size_t size, void **at) {
  *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return *at == MAP_FAILED ? fail_errno(errno, "no memory for a buffer of %zu bytes", size) : 0;
}

int buffer_allocate(const struct buffer_home *home, size_t size, void *out) {
  char why[DEVICE_WHY] = "";
  void *at = NULL;
  size = size ? size : 1;
  int err = home->api ? home->api->allocate(home->device, size, &at, why) : map(size, &at);
  if (err && home->api)
    return fail(err, "no GPU memory for a buffer of %zu bytes: %s", size, why);
  if (!err)
    memcpy(out, &at, sizeof at);
  return err;
}

void buffer_release(const struct buffer_home *home, void *at, size_t size) {
  if (!at || home->is_stuck)
    return;
  if (home->api)
    home->api->release(home->device, at);
  else
    munmap(at, size ? size : 1);
}

void buffer_forget(const struct buffer_home *home, void *at, size_t size) {
  if (at && !home->api)
    madvise(at, size, MADV_DONTNEED); // cannot fail on a mapping of buffer_allocate()
}

int buffer_fill(const struct buffer_home *home, void *at, uint8_t byte, size_t size) {
  char why[DEVICE_WHY] = "";
  if (!home->api) {
    memset(at, byte, size);
    return 0;
  }
  int err = size ? home->api->fill(home->device, at, byte, size, home->stream, why) : 0;
  return err ? device_fail(err, "cannot fill GPU memory", why) : 0;
}

static int copy(const struct buffer_home *home, void *to, const void *from, size_t size, const char *what) {
  char why[DEVICE_WHY] = "";
  if (to == from || size == 0)
    return 0;
  if (!home->api) {
    memcpy(to, from, size);
    return 0;
  }
  int err = home->api->copy(home->device, to, from, size, home->stream, true, why);
  return err ? device_fail(err, what, why) : 0;
}

int buffer_put(const struct buffer_home *home, void *to, const void *from, size_t size) {
  return copy(home, to, from, size, "cannot copy to the GPU");
}

int buffer_get(const struct buffer_home *home, void *to, const void *from, size_t size) {
  return copy(home, to, from, size, "cannot copy from the GPU");
}
