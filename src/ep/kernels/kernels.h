// The arithmetic of the host engine, in variants that give the same bits: portable C, AVX2, AVX-512, AVX-512
// with VBMI and BF16, NEON.
//
// No kernel allocates or fails. Rows need only the alignment of their elements; input and output do not overlap;
// `hidden` is a multiple of 128. Every f32 operation is one of IEEE 754, rounded to nearest even, and none is fused
// except those of logfmt10. Denormals are not flushed, so the floating-point environment has to be the default one.
// [any] thread.
#ifndef EP_KERNELS_KERNELS_H
#define EP_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ep_kernels {
  const char *name; // "portable", "avx2", "avx512", "avx512-bf16", "neon"

  // Casts one row of bf16 to e4m3 (OCP FP8 E4M3: no infinities, 448 the largest value), one scale per block of 128
  // values. For each block, with every operation in f32:
  //   amax = the largest |x| of the block that is neither infinite nor NaN, or 1e-4 if that is larger
  //   pow2 false: scale = amax / 448, inverse = 448 / amax
  //   pow2 true:  scale = the lowest power of two that is at least amax / 448, inverse = 1 / scale
  //   q = e4m3(x * inverse): to nearest, ties to even; what is larger than 448 becomes 448, infinities too
  // The sign of q is the sign of x, that of zeros also. NaN becomes 0x7F with the sign of x.
  void (*cast_fp8)(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, bool pow2);

  // The way back: out = bf16(value of q * scale of its block): an f32 product, rounded to bf16, to nearest even. The
  // scales are finite and not negative. NaN becomes 0x7FC0 with the sign of q.
  void (*uncast_fp8)(uint16_t *out, const uint8_t *q, const float *scales, uint32_t hidden);

  // out = bf16(factor * (weights[0] * rows[0] + weights[1] * rows[1] + ...)): f32 products, f32 sums from left to
  // right, one rounding to bf16 at the end, to nearest even. weights NULL: the sum of the rows. count 0: +0. Every NaN
  // is 0x7FC0.
  void (*reduce)(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count, float factor,
                 uint32_t hidden);

  // out = bf16(factor * (rows[0] + rows[1] + ...) + biases[0] + biases[1] ...): f32 sums from left to right, one
  // rounding at the end, as in `reduce`. count 0: the sum of the biases. num_biases is 1 or more.
  void (*reduce_biased)(uint16_t *out, const uint16_t *const *rows, uint32_t count, float factor,
                        const uint16_t *const *biases, uint32_t num_biases, uint32_t hidden);

  // Encodes a row as logfmt10 (device/logfmt10.h): codes [H * 10 / 8], heads [H/128][2], low and step of each block.
  // And decodes it, rounding to bf16, to nearest even; every NaN becomes 0x7FC0. These use fused multiply-adds.
  void (*encode10)(uint8_t *codes, float *heads, const uint16_t *x, uint32_t hidden);
  void (*decode10)(uint16_t *out, const uint8_t *codes, const float *heads, uint32_t hidden);

  // Copies `size` bytes to memory that another core reads next.
  void (*copy)(void *to, const void *from, size_t size);

  // The same past the caches, if the variant can: the writer need not first fetch the lines from the cache of the core
  // that read them last. Weakly ordered: see ep_kernels_fence().
  void (*stream)(void *to, const void *from, size_t size);
};

// Converts scales that are powers of two from 2^-127 to 2^127 to bytes, exponent + 127 (ue8m0), and back: one byte for
// each 128 of `hidden`, then zeros up to a multiple of four bytes. Byte 255 becomes NaN. There are no variants, since a
// row has few scales.
void ep_kernels_pack_scales(uint8_t *packed, const float *scales, uint32_t hidden);
void ep_kernels_unpack_scales(float *scales, const uint8_t *packed, uint32_t hidden);

// Orders every store of a kernel before the stores that follow. To be called before a flag is raised.
void ep_kernels_fence(void);

// The best variant of this machine, or the one that WEFT_EP_KERNELS names; a name that this machine cannot run is
// logged as a warning and ignored. Decided at the first call.
const struct ep_kernels *ep_kernels_best(void);

// A variant by name, NULL when there is none or the machine cannot run it.
const struct ep_kernels *ep_kernels_named(const char *name);

// Every variant that the machine can run, portable first, the best last; NULL-terminated.
const struct ep_kernels *const *ep_kernels_all(void);

#endif
