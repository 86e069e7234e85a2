// Reads a line of a file below a given root.
#include "doctor/host/read.h"

#include "topology/read/line.h"

#include <stdio.h>

enum { PATH_SIZE = 512 };

const char *doctor_read_line(const char *root, const char *path, char *out, size_t cap) {
  char full[PATH_SIZE];
  return snprintf(full, sizeof full, "%s%s", root, path) < PATH_SIZE ? topology_read_line(full, out, cap) : NULL;
}
