// Kernels are compiled twice: for launches in which the caller says nothing of its own (CUDA_USUAL), and for all.
// Instructions that do not run cost time too, for a kernel begins with none of them at hand: with those for indices of
// int32_t, strides, a number of tokens in memory, what is told, and combines again, a pair of dispatch and combine took
// 0.4 us more for one token, and 0.7 us more for 128 (two H100s).
#ifndef CUDA_KERNELS_USUAL_CUH
#define CUDA_KERNELS_USUAL_CUH

#ifndef CUDA_USUAL
#define CUDA_USUAL false
#endif

// Whether the caller says this.
#define CUDA_SAYS(what) (!CUDA_USUAL && (what))

#endif
