// Words in pinned host memory with which kernels report that they have ended. They are parts of larger pieces, and are
// used again.
#include "cuda/kernels/copies.h"
#include "cuda/plugin.h"

#include <string.h>

enum { MARK_BYTES = CUDA_COPIES_WORDS * sizeof(uint32_t) };

// A free one.
struct cuda_mark {
  struct cuda_mark *next;
};

// [device->lock]
static void put(struct device *device, void *words) {
  struct cuda_mark *mark = words;
  mark->next = device->marks;
  device->marks = mark;
}

int cuda_mark_take(struct device *device, uint32_t **words, char *why) {
  void *piece = NULL;
  pthread_mutex_lock(&device->lock);
  bool none = !device->marks;
  pthread_mutex_unlock(&device->lock);
  int rc = none ? cuda_pin(device, &piece, why) : 0; // cuda_pin() takes the lock
  if (rc != 0)
    return rc;
  pthread_mutex_lock(&device->lock);
  // backwards, so that the first one is on top: it has the piece's address
  for (size_t at = CUDA_PINNED; piece && at >= MARK_BYTES; at -= MARK_BYTES)
    put(device, (char *)piece + at - MARK_BYTES);
  struct cuda_mark *mark = device->marks;
  if (mark)
    device->marks = mark->next;
  pthread_mutex_unlock(&device->lock);
  if (!mark) // other threads took all of them meanwhile
    return cuda_mark_take(device, words, why);
  memset(mark, 0, MARK_BYTES);
  *words = (void *)mark;
  return 0;
}

void cuda_mark_give(struct device *device, uint32_t *words) {
  if (!words)
    return;
  pthread_mutex_lock(&device->lock);
  put(device, words);
  pthread_mutex_unlock(&device->lock);
}
