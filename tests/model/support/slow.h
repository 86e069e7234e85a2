// Whether a sanitizer makes the search ten times slower.
#ifndef TESTS_MODEL_SLOW_H
#define TESTS_MODEL_SLOW_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MODEL_SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MODEL_SLOW 1
#endif
#endif
#ifndef MODEL_SLOW
#define MODEL_SLOW 0
#endif

#endif
