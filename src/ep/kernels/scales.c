// Scales as bytes: the byte is the exponent of the f32, except at the two ends.
#include "ep/kernels/variants.h"

enum { LOWEST = 1 << 22 }; // 2^-127, a denormal f32

void ep_kernels_pack_scales(uint8_t *packed, const float *scales, uint32_t hidden) {
  uint32_t blocks = hidden / KERNEL_BLOCK;
  for (uint32_t b = 0; b < blocks; b++)
    packed[b] = (uint8_t)(bits_of(scales[b]) >> F32_FRACTION_BITS);
  for (uint32_t b = blocks; b % sizeof(uint32_t) != 0; b++)
    packed[b] = 0;
}

void ep_kernels_unpack_scales(float *scales, const uint8_t *packed, uint32_t hidden) {
  for (uint32_t b = 0; b < hidden / KERNEL_BLOCK; b++) {
    uint32_t bits = (uint32_t)packed[b] << F32_FRACTION_BITS;
    scales[b] = float_of(bits == 0 ? LOWEST : bits == F32_EXPONENT ? BF16_NAN << 16 : bits);
  }
}
