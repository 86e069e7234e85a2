// Base64 (RFC 4648, section 4, with padding), the encoding of bytes in the gateway's JSON.
#ifndef STORE_BASE64_H
#define STORE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#define BASE64_SIZE(size) (((size) + 2) / 3 * 4)

// Writes BASE64_SIZE(size) digits, without a NUL.
void base64_encode(char *out, const void *bytes, size_t size);

// Decodes into `out`, which has room for size / 4 * 3 bytes. False: not base64; `*out_size` is then the index of the
// first bad digit.
bool base64_decode(void *out, size_t *out_size, const char *digits, size_t size);

#endif
