// Whether this program runs under a sanitizer or valgrind, where it is several times slower: long tests then do less.
#ifndef SUPPORT_SANITIZED_H
#define SUPPORT_SANITIZED_H

#include <stdbool.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SUPPORT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SUPPORT_SANITIZED 1
#endif
#endif
#ifndef SUPPORT_SANITIZED
#define SUPPORT_SANITIZED 0
#endif

// CMake sets WEFT_TEST_SLOWED for tests under either, which scripts read, too.
static inline bool support_slowed(void) {
  return SUPPORT_SANITIZED || getenv("WEFT_TEST_SLOWED") != NULL;
}

#endif
