// Kernels are compiled more than once: for launches without special options (CUDA_USUAL); for launches with only the
// options that callers of deep_ep use; and for all launches. Instructions that do not run cost time, too, since a
// kernel begins with an empty instruction cache. With the instructions for indices of int32_t, strides, a number of
// tokens in memory, notifications, and further combines of an operation, a pair of dispatch and combine took 0.4 us
// more for one token, and 0.7 us more for 128 (two H100s).
#ifndef CUDA_KERNELS_USUAL_CUH
#define CUDA_KERNELS_USUAL_CUH

#ifndef CUDA_USUAL
#define CUDA_USUAL false
#endif
#ifndef CUDA_STRIDED // usual, except for the strides of a dispatch's scales
#define CUDA_STRIDED false
#endif
#ifndef CUDA_LATE // usual, except that the weights follow with the combine
#define CUDA_LATE false
#endif

// An option of the caller. Kernels for usual launches are compiled without it.
#define CUDA_OPTION(what)  (!CUDA_USUAL && (what))
#define CUDA_STRIDES(what) (CUDA_USUAL ? CUDA_STRIDED : (what))
#define CUDA_LATES(what)   (CUDA_USUAL ? CUDA_LATE : (what))

#endif
