// Reads single lines.
#include "limits/hardware/sysfs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "topology/read/line.h"

static const char *read_line(char out[SYSFS_LINE], const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static const char *read_line(char out[SYSFS_LINE], const char *format, va_list arguments) {
  char path[SYSFS_PATH];
  out[0] = '\0';
  int size = vsnprintf(path, sizeof path, format, arguments);
  return size < SYSFS_PATH ? topology_read_line(path, out, SYSFS_LINE) : NULL;
}

const char *sysfs_line(char out[SYSFS_LINE], const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const char *line = read_line(out, format, arguments);
  va_end(arguments);
  return line;
}

double sysfs_number(const char *format, ...) {
  char line[SYSFS_LINE];
  va_list arguments;
  va_start(arguments, format);
  double number = read_line(line, format, arguments) ? strtod(line, NULL) : 0;
  va_end(arguments);
  return number > 0 && number < 1e15 ? number : 0;
}
