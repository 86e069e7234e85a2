// Base64, as etcd's JSON has its keys and values.
#include "store/base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(char *out, const void *bytes, size_t size) {
  const unsigned char *in = bytes;
  for (; size > 0; in += 3, size -= size < 3 ? size : 3) {
    uint32_t bits = (uint32_t)in[0] << 16 | (size > 1 ? (uint32_t)in[1] << 8 : 0) | (size > 2 ? in[2] : 0);
    *out++ = alphabet[bits >> 18];
    *out++ = alphabet[bits >> 12 & 63];
    *out++ = size > 1 ? alphabet[bits >> 6 & 63] : '=';
    *out++ = size > 2 ? alphabet[bits & 63] : '=';
  }
}

// Value of a digit, -1 for anything else.
static int value_of(char digit) {
  if (digit >= 'A' && digit <= 'Z')
    return digit - 'A';
  if (digit >= 'a' && digit <= 'z')
    return digit - 'a' + 26;
  if (digit >= '0' && digit <= '9')
    return digit - '0' + 52;
  return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

bool base64_decode(void *out, size_t *out_size, const char *digits, size_t size) {
  size_t padding = 0; // only the last group may have some
  while (padding < 2 && padding < size && digits[size - 1 - padding] == '=')
    padding++;
  unsigned char *place = out;
  uint32_t bits = 0;
  for (size_t i = 0; i < size - padding; i++) {
    int value = value_of(digits[i]);
    if (value < 0) {
      *out_size = i;
      return false;
    }
    bits = bits << 6 | (uint32_t)value;
    if (i % 4 == 3) {
      *place++ = (unsigned char)(bits >> 16);
      *place++ = (unsigned char)(bits >> 8);
      *place++ = (unsigned char)bits;
    }
  }
  if (size % 4 != 0) {
    *out_size = size - padding;
    return false;
  }
  if (padding == 2) {
    *place++ = (unsigned char)(bits >> 4);
  } else if (padding == 1) {
    *place++ = (unsigned char)(bits >> 10);
    *place++ = (unsigned char)(bits >> 2);
  }
  *out_size = (size_t)(place - (unsigned char *)out);
  return true;
}
