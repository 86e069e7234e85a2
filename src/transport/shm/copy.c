// Copies memory. Large copies go past the caches, and prefetch what they read.
#include <stdint.h>
#include <string.h>

#include "transport/shm/shm.h"

#ifdef __x86_64__
#include <emmintrin.h>

enum { LINE = 64, PAGE = 4096, BURST = 2048 };

// Into the second-level cache: the first has few line-fill buffers, which would bound the rate.
static inline void ask(const unsigned char *line) {
  _mm_prefetch((const char *)line, _MM_HINT_T1);
}

// A line of each page, so that its translation is in the TLB.
static void ask_pages(const unsigned char *at, size_t size) {
  for (size_t i = 0; i < size; i += PAGE)
    ask(at + i);
}

static void ask_lines(const struct shm_run *run, size_t from, size_t to) {
  for (size_t i = from; i < to && i < run->size; i += LINE)
    ask(run->from + i);
}

// Data larger than the caches would be read into them only to be overwritten.
static void store(unsigned char *to, const unsigned char *from, size_t size) {
  for (size_t at = 0; at < size; at += LINE)
    for (size_t i = at; i < at + LINE; i += 16)
      _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
}

void shm_stream(const struct shm_run *now, const struct shm_run *next, const struct shm_run *later) {
  unsigned char *to = now->to;
  const unsigned char *from = now->from;
  size_t size = now->size, before = -(uintptr_t)to & (LINE - 1), asked = 0;
  if (before > size)
    before = size;
  ask_pages(next->to, next->size);
  ask_pages(later->from, later->size);
  memcpy(to, from, before);
  for (to += before, from += before, size -= before; size >= LINE; asked += BURST) {
    size_t burst = size < BURST ? size & ~(size_t)(LINE - 1) : BURST;
    ask_lines(next, asked, asked + BURST);
    store(to, from, burst);
    to += burst, from += burst, size -= burst;
  }
  ask_lines(next, asked, next->size);
  memcpy(to, from, size);
}

void shm_stream_end(void) {
  _mm_sfence(); // streaming stores are not ordered with other stores
}

#else

void shm_stream(const struct shm_run *now, const struct shm_run *next, const struct shm_run *later) {
  (void)next, (void)later;
  memcpy(now->to, now->from, now->size);
}

void shm_stream_end(void) {}

#endif
