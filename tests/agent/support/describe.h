// Descriptions of agents for tests.
#ifndef TESTS_AGENT_DESCRIBE_H
#define TESTS_AGENT_DESCRIBE_H

#include "agent/metadata/description.h"

enum { DESCRIBE_REGIONS = 3 };

// A description of an agent with two transports and three regions, always the same. Static.
const struct agent_description *describe_fixed(void);

// Whether both descriptions are equal.
bool describe_equal(const struct agent_description *a, const struct agent_description *b);

// The blob of a description; `*size` is its size, free() frees it. Fails the test if it cannot be made.
void *describe_write(const struct agent_description *description, size_t *size);

// Corrects the checksum of the head after a change of the bytes.
void describe_seal(void *blob, size_t size);

#endif
