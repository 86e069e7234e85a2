// Replaces the GPU part of bench_ep_ht in a build without CUDA.
#include <stdio.h>

#include "base/fail.h"
#include "ep_ht.h"
#include "support/gpu.h"

int bench_count_gpus(void) {
  return 0;
}

int ht_prepare_cuda(struct ht_board *board, int rank) {
  (void)board, (void)rank;
  return fail(WEFT_ERR_UNSUPPORTED, "this build has no CUDA");
}

void ht_measure_cuda(struct ht_board *board, weft_store_t *store, int rank, uint32_t point) {
  (void)store;
  snprintf(board->found[rank][point].refused, HT_WHY, "this build has no CUDA");
}
