// Compares the store of the model with the core of the real store.
#ifndef TESTS_MODEL_VIEWS_MIRROR_H
#define TESTS_MODEL_VIEWS_MIRROR_H

#include <stddef.h>
#include <stdint.h>

// Carries out `steps` random requests on both, and compares every answer, key and event. 0: all are equal; otherwise
// `why` describes the difference.
int views_mirror(uint64_t seed, int steps, char *why, size_t size);

#endif
