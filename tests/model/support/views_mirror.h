// Holds the store of the model against the core of the real one.
#ifndef TESTS_MODEL_VIEWS_MIRROR_H
#define TESTS_MODEL_VIEWS_MIRROR_H

#include <stddef.h>
#include <stdint.h>

// Carries `steps` drawn requests out on both, and compares every answer, every key and every event. 0: they are equal;
// else `why` says what is not.
int views_mirror(uint64_t seed, int steps, char *why, size_t size);

#endif
