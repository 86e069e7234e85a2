// Reads one line of a file of sysfs.
#include "topology/read/line.h"

#include <stdio.h>
#include <string.h>

char *topology_read_line(const char *path, char *out, size_t cap) {
  FILE *file = fopen(path, "re");
  if (!file)
    return NULL;
  char *line = fgets(out, (int)cap, file);
  fclose(file);
  if (line)
    line[strcspn(line, "\n")] = '\0';
  return line;
}
