// What the suite itself does with objects: how it fills them and looks at them.
#ifndef CONFORMANCE_OBJECTS_H
#define CONFORMANCE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether the environment names a server, as tests/transport/support/s3_swift.py does.
bool objects_can(void);

// A path that no other object has.
void objects_name(char *path, size_t size);

// Each fails the test where the server does not do it.
void objects_put(const char *path, const void *bytes, size_t size);
void objects_get(const char *path, uint64_t offset, void *bytes, size_t size);
uint64_t objects_size(const char *path);

#endif
