// A simulated host: a folder with the files of /sys, /proc and /dev that a test puts there.
#ifndef SUPPORT_ROOT_H
#define SUPPORT_ROOT_H

enum { ROOT_PATH = 256 };

extern char root[ROOT_PATH]; // its path

// Makes the folder, named after the test. -1, with errno: it could not be made.
int root_make_named(const char *name);
// Removes the folder with everything in it; a teardown function for cmocka.
int root_remove(void **state);
// Writes a file and the folders above it; `path` begins at the root.
void root_put(const char *path, const char *text);

#endif
