// The arithmetic of the host engine, in variants that give the same bits: portable C, AVX2, AVX-512.
// No kernel allocates or fails. Rows may be unaligned; in and out do not overlap.
#ifndef EP_KERNELS_H
#define EP_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ep_kernels {
  const char *name; // "portable", "avx2", "avx512"

  // Casts one row of bf16 to e4m3 (OCP FP8 E4M3, no infinities, saturating at 448, round to nearest even), one scale per
  // 128 values: amax = largest finite |x|, at least 1e-4; scale = amax / 448 in f32; q = e4m3(x * (448 / amax)), both f32.
  // pow2: scale = 2^ceil(log2(amax / 448)), q = e4m3(x * 2^-that). NaN becomes 0x7F with the sign; infinities saturate.
  void (*cast_fp8)(uint8_t *q, float *scales, const uint16_t *x, uint32_t hidden, bool pow2);

  // The way back: out = bf16(e4m3 value * scale), one rounding (to nearest even) after an f32 product.
  void (*uncast_fp8)(uint16_t *out, const uint8_t *q, const float *scales, uint32_t hidden);

  // out = bf16(factor * sum over i of weights[i] * rows[i]), f32, products and sums in the order of i, no fused
  // operation, one rounding to nearest even at the end. weights NULL = all 1 (no product then). count 0 gives 0.
  void (*reduce)(uint16_t *out, const uint16_t *const *rows, const float *weights, uint32_t count, float factor,
                 uint32_t hidden);

  // Copies `size` bytes to memory that another core reads next. Stores may be weakly ordered: ep_kernels_fence() before a
  // flag is raised.
  void (*copy)(void *to, const void *from, size_t size);
};

// Orders every store of a kernel before the stores that follow.
void ep_kernels_fence(void);

// The best variant of this machine, or the one that WEFT_EP_KERNELS names when the machine can run it. Decided once.
const struct ep_kernels *ep_kernels_best(void);

// A variant by name, NULL when there is none or the machine cannot run it.
const struct ep_kernels *ep_kernels_named(const char *name);

// Every variant that the machine can run, portable first; NULL-terminated.
const struct ep_kernels *const *ep_kernels_all(void);

#endif
