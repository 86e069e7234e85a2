// Reads lines of sysfs files below a root.
#ifndef LIMITS_HARDWARE_SYSFS_H
#define LIMITS_HARDWARE_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

enum { SYSFS_LINE = 128, SYSFS_PATH = 4096 };

// The first line of the file, or NULL and "".
const char *sysfs_line(char out[SYSFS_LINE], const char *format, ...) __attribute__((format(printf, 2, 3)));

// The number at the beginning of the first line; 0: there is no number, or no file.
double sysfs_number(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
