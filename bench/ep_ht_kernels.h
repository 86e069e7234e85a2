// CUDA functions that bench_ep_ht uses besides operations. They return 0 or a cudaError_t.
#ifndef BENCH_EP_HT_KERNELS_H
#define BENCH_EP_HT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Copies `bytes` between two GPUs in both directions at once by the copy engines, `rounds` times. us[rounds] gets the
// us of the slower direction of each round. One process drives both GPUs.
int ht_cuda_links(size_t bytes, uint32_t rounds, double *us);

// A matrix product of bf16 with f32 sums, on at most `processors` processors: one block on each, which leaves no room
// for another block there. A launch has `times` products in sequence, so that it takes about `us`.
struct ht_product;
int ht_product_open(struct ht_product **product, uint32_t processors);
int ht_product_launch(struct ht_product *product, void *stream, uint32_t times);
void ht_product_close(struct ht_product *product);

#ifdef __cplusplus
}
#endif
#endif
