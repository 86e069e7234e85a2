// The boot id, by which processes know whether they are on one host: the kernel draws it at each start, and containers
// of one host share it.
#ifndef BASE_BOOT_ID_H
#define BASE_BOOT_ID_H

enum { BOOT_ID_SIZE = 40 }; // a UUID of 36 characters, and its NUL

// Writes the boot id, without the newline. UNSUPPORTED, and "" in `out`: /proc cannot be read.
int boot_id_read(char out[BOOT_ID_SIZE]);

#endif
