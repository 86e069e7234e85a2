// CRC-32C (Castagnoli; RFC 3720, B.4), the checksum of what is stored and sent.
#ifndef BASE_WIRE_CRC32C_H
#define BASE_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

// Of `size` bytes behind those that gave `crc`; 0 to begin with.
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size);

#endif
