// Files of one line, as sysfs has them.
#ifndef TOPOLOGY_READ_LINE_H
#define TOPOLOGY_READ_LINE_H

#include <stddef.h>

// Reads the first line of a file, such as one of sysfs, into out[cap], without its line end. Returns out, or NULL.
char *topology_read_line(const char *path, char *out, size_t cap);

#endif
