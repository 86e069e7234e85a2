// Counts entries of folders before and after a test, to find what it left behind.
#ifndef SUPPORT_ENTRIES_H
#define SUPPORT_ENTRIES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Counts the entries of a folder whose names begin with `begin`. If the folder cannot be read, the program ends.
static inline int support_entries(const char *path, const char *begin) {
  DIR *folder = opendir(path);
  int count = 0;
  if (!folder) {
    perror(path);
    exit(1);
  }
  for (const struct dirent *entry; (entry = readdir(folder));)
    count += strncmp(entry->d_name, begin, strlen(begin)) == 0;
  closedir(folder);
  return count;
}

// Counts the descriptors of this process, and a few entries that are always there.
static inline int support_descriptors(void) {
  return support_entries("/proc/self/fd", "");
}

#endif
