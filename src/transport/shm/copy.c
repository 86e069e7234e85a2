#include <stdint.h>
#include <string.h>

#include "transport/shm/shm.h"

#ifdef __x86_64__
#include <emmintrin.h>

// Past the caches: what is more than they hold would be read into them only to be overwritten.
static void stream(unsigned char *to, const unsigned char *from, size_t size) {
  size_t before = (64 - ((uintptr_t)to & 63)) & 63;
  if (before > size)
    before = size;
  memcpy(to, from, before);
  to += before, from += before, size -= before;
  for (; size >= 64; to += 64, from += 64, size -= 64)
    for (int i = 0; i < 64; i += 16)
      _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
  memcpy(to, from, size);
}

void shm_copy(void *to, const void *from, size_t size, bool past_caches) {
  if (past_caches)
    stream(to, from, size);
  else
    memcpy(to, from, size);
}

void shm_copy_end(bool past_caches) {
  if (past_caches)
    _mm_sfence(); // such stores are not in order with the others
}

#else

void shm_copy(void *to, const void *from, size_t size, bool past_caches) {
  (void)past_caches;
  memcpy(to, from, size);
}

void shm_copy_end(bool past_caches) {
  (void)past_caches;
}

#endif
