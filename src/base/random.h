// Random numbers: from the kernel for identities; counter-based (splitmix64) for sequences that a seed must reproduce.
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

// Fills `out` from the kernel's generator. Aborts only if the kernel has none.
void random_bytes(void *out, size_t size);

// A random number other than 0.
uint64_t random_id(void);

// A random UUID (version 4), lower case, 36 characters and a NUL.
void random_uuid(char out[37]);

// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a well-mixed function of its argument.
static inline uint64_t random_mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A hash of a string's bytes; `hash` is a seed, or the hash of what precedes the string.
static inline uint64_t random_mix_text(uint64_t hash, const char *text) {
  for (; *text; text++)
    hash = random_mix(hash ^ (unsigned char)*text);
  return hash;
}

// The next number of a stream; `*state` is the position in the stream.
static inline uint64_t random_next(uint64_t *state) {
  uint64_t x = *state;
  *state = x + 0x9E3779B97F4A7C15u;
  return random_mix(x);
}

#endif
