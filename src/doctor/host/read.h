// Reads one-line files of kernel attributes.
#ifndef DOCTOR_HOST_READ_H
#define DOCTOR_HOST_READ_H

#include <stddef.h>

// Reads the first line of the file at root + path into out[cap]. NULL: the file cannot be read.
const char *doctor_read_line(const char *root, const char *path, char *out, size_t cap);

#endif
