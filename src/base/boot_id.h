// The boot id, by which processes find out whether they are on one host: the kernel makes a random one at each start,
// and all containers of a host have the same.
#ifndef BASE_BOOT_ID_H
#define BASE_BOOT_ID_H

enum { BOOT_ID_SIZE = 40 }; // a UUID of 36 characters, and its NUL

// Writes the boot id, without the newline. UNSUPPORTED, and "" in `out`: /proc cannot be read.
int boot_id_read(char out[BOOT_ID_SIZE]);

#endif
