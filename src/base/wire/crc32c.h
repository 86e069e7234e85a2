// CRC-32C (Castagnoli; RFC 3720, B.4), the checksum of data that is stored and sent.
#ifndef BASE_WIRE_CRC32C_H
#define BASE_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

// Continues the checksum `crc` with `size` more bytes; `crc` is 0 at the beginning.
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size);

#endif
