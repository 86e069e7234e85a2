// The PTX that the kernels use, in one place.
#ifndef CUDA_KERNELS_PTX_CUH
#define CUDA_KERNELS_PTX_CUH

#include <cstdint>

namespace ptx {

__device__ __forceinline__ uint32_t load_acquire(const uint32_t *p) {
  uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

__device__ __forceinline__ uint64_t load_acquire(const uint64_t *p) {
  uint64_t v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}

__device__ __forceinline__ uint64_t load_volatile(const uint64_t *p) {
  uint64_t v;
  asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}

__device__ __forceinline__ uint32_t load_volatile(const uint32_t *p) {
  uint32_t v;
  asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

__device__ __forceinline__ void store_volatile(uint32_t *p, uint32_t v) {
  asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ void store_relaxed(uint64_t *p, uint64_t v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// Loads 16 bytes as a whole (PTX 8.3: one access of 128 bits, relaxed).
__device__ __forceinline__ uint4 load_unit(const void *p) {
  uint64_t low, high;
  asm volatile("{\n.reg .b128 t;\nld.relaxed.sys.global.b128 t, [%2];\nmov.b128 {%0, %1}, t;\n}"
               : "=l"(low), "=l"(high)
               : "l"(p)
               : "memory");
  return make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32));
}

__device__ __forceinline__ uint4 load_unit_acquire(const void *p) {
  uint64_t low, high;
  asm volatile("{\n.reg .b128 t;\nld.acquire.sys.global.b128 t, [%2];\nmov.b128 {%0, %1}, t;\n}"
               : "=l"(low), "=l"(high)
               : "l"(p)
               : "memory");
  return make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32));
}

__device__ __forceinline__ void store_unit(void *p, uint4 v) {
  uint64_t low = (uint64_t)v.y << 32 | v.x, high = (uint64_t)v.w << 32 | v.z;
  asm volatile("{\n.reg .b128 t;\nmov.b128 t, {%1, %2};\nst.relaxed.sys.global.b128 [%0], t;\n}" ::"l"(p), "l"(low),
               "l"(high)
               : "memory");
}

// A lane's part of a line, which 8 neighbouring lanes read or write together.
__device__ __forceinline__ uint4 load_line(const void *p) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

__device__ __forceinline__ void store_line(void *p, uint4 v) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

// Adds without waiting for the old value.
__device__ __forceinline__ void add(uint32_t *p, uint32_t v) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void add_release(uint32_t *p, uint32_t v) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void set_bits(uint64_t *p, uint64_t v) {
  asm volatile("red.relaxed.gpu.global.or.b64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// Loads 16 bytes that this kernel only reads, through the first-level cache, since neighbours share a sector.
__device__ __forceinline__ uint4 load_input16(const void *p) {
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}

__device__ __forceinline__ void store16(void *p, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// The same, only for lanes with `here`: a branch for each store would cost more than the store.
__device__ __forceinline__ void store16_if(bool here, void *p, uint4 v) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\n@p st.global.v4.u32 [%0], {%1, %2, %3, %4};\n}" ::"l"(p),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"((uint32_t)here)
               : "memory");
}
__device__ __forceinline__ void store4_if(bool here, void *p, uint32_t v) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p st.global.u32 [%0], %1;\n}" ::"l"(p), "r"(v),
               "r"((uint32_t)here)
               : "memory");
}

// Exact to one unit in the last place.
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// log2 |x|, with a relative error of at most 2^-22, or the same absolute error for x from 0.5 to 2; -infinity for
// denormal numbers (PTX, lg2).
__device__ __forceinline__ float log2_of(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fabsf(x)));
  return y;
}
// With a relative error of at most 2^-22 (PTX, ex2).
__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Copies 16 bytes that this kernel only reads to shared memory, for lanes with `here`. load_wait() waits for the copies
// of this thread.
__device__ __forceinline__ void load_shared16_if(bool here, void *to, const void *from) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p cp.async.cg.shared.global [%0], [%1], 16;\n}" ::"r"(
                   (uint32_t)__cvta_generic_to_shared(to)),
               "l"(from), "r"((uint32_t)here)
               : "memory");
}
__device__ __forceinline__ void load_shared_wait() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// --- shared memory by its 32-bit address, which a compiler otherwise makes anew at each access ---

__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ uint32_t shared_load(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address));
  return v;
}
__device__ __forceinline__ uint4 shared_load16(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  return v;
}
__device__ __forceinline__ void shared_or(uint32_t address, uint32_t bits) {
  asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(address), "r"(bits) : "memory");
}

// Makes the compiler compute the value here, and not where it is used.
__device__ __forceinline__ uint32_t here(uint32_t v) {
  asm volatile("" : "+r"(v));
  return v;
}

// The lanes that have the same value as this lane; values have `bits` bits. `match.any` takes 60 cycles or more for
// each different value if all warps of a processor execute it at the same time. [warp]
__device__ __forceinline__ uint32_t lanes_like(uint32_t value, uint32_t bits) {
  uint32_t lanes = ~0u;
#pragma unroll 4
  for (uint32_t bit = 0; bit < bits; bit++) {
    bool mine = value >> bit & 1;
    uint32_t set = __ballot_sync(~0u, mine);
    lanes &= mine ? set : ~set;
  }
  return lanes;
}
// Bits of the numbers below `count`.
__device__ __forceinline__ uint32_t bits_of(uint32_t count) {
  return 32 - __clz((int)(count - 1));
}

// The compiler moves no memory access across this call.
__device__ __forceinline__ void in_order() {
  asm volatile("" ::: "memory");
}

__device__ __forceinline__ uint64_t time_ns() {
  uint64_t v;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(v));
  return v;
}

// A kernel that was launched early waits here until the previous kernel of the stream has ended.
__device__ __forceinline__ void await_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the next kernel of the stream be launched early.
__device__ __forceinline__ void let_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void kernel_wait() {
  await_previous();
  let_next();
}

// A barrier of `threads` threads of the block; ids 1 to 15 (0 is __syncthreads).
__device__ __forceinline__ void barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// The same, for a thread that does not wait for the others.
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// The same; returns whether any thread passed true.
__device__ __forceinline__ bool barrier_or(int id, int threads, bool value) {
  uint32_t any;
  asm volatile("{\n.reg .pred p, q;\nsetp.ne.u32 p, %3, 0;\nbarrier.cta.red.or.pred q, %1, %2, p;\n"
               "selp.u32 %0, 1, 0, q;\n}"
               : "=r"(any)
               : "r"(id), "r"(threads), "r"((uint32_t)value)
               : "memory");
  return any != 0;
}

__device__ __forceinline__ void fence_system() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}

// --- bulk copies between shared and global memory (Hopper and later): a thread waits for the copies to global memory
// that it has issued itself; any thread can wait for copies to shared memory, at their barrier ---

#if __CUDA_ARCH__ >= 900
// Orders this thread's stores to shared memory before bulk copies that are issued after a barrier.
__device__ __forceinline__ void bulk_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Orders what this thread has acquired in global memory before bulk copies from there.
__device__ __forceinline__ void bulk_fence_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// `size`: a multiple of 16, as are the addresses.
__device__ __forceinline__ void bulk_store(void *to, const void *from, uint32_t size) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"((uint32_t)__cvta_generic_to_shared(from)), "r"(size)
               : "memory");
}

__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until the sources of all copies so far have been read, and may be written again.
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Waits until all copies so far have arrived.
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// Waits until the copies committed before the newest group have arrived.
__device__ __forceinline__ void bulk_wait_older() {
  asm volatile("cp.async.bulk.wait_group 1;" ::: "memory");
}

// Begins to prefetch memory for a later load. `size`: as above.
__device__ __forceinline__ void prefetch_bulk(const void *from, uint32_t size) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(size) : "memory");
}

// A barrier that completes with the bulk copies whose bytes expect_bulk() announces; its phases are 0, 1, 0 ...
__device__ __forceinline__ void init_bulk(uint64_t *barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(
                   (uint32_t)__cvta_generic_to_shared(barrier))
               : "memory");
}
__device__ __forceinline__ void expect_bulk(uint64_t *barrier, uint32_t size) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"((uint32_t)__cvta_generic_to_shared(barrier)),
      "r"(size)
      : "memory");
}
__device__ __forceinline__ void bulk_load(void *to, const void *from, uint32_t size, uint64_t *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   (uint32_t)__cvta_generic_to_shared(to)),
               "l"(from), "r"(size), "r"((uint32_t)__cvta_generic_to_shared(barrier))
               : "memory");
}
__device__ __forceinline__ void await_bulk(uint64_t *barrier, uint32_t phase) {
  uint32_t done, at = (uint32_t)__cvta_generic_to_shared(barrier);
  do
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(at), "r"(phase)
                 : "memory");
  while (!done);
}
#endif

__device__ __forceinline__ void store_release(uint64_t *p, uint64_t v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// Like load_line and load_input16 for lanes with `here`; 0 for the others. All lanes get a value, since the compiler
// would keep a variable that is only sometimes written in registers over all surrounding loops.
__device__ __forceinline__ uint4 load_line_if(bool here, const void *p) {
  uint4 v;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\nmov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
      "@p ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
      : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
      : "l"(p), "r"((uint32_t)here)
      : "memory");
  return v;
}
// Loads 16 bytes that are not written while the kernel runs, and not read again: the second-level cache evicts them
// first.
__device__ __forceinline__ uint4 load_once16_if(bool here, const void *p) {
  uint64_t policy;
  uint4 v;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\nmov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
      "@p ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %6;\n}"
      : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
      : "l"(p), "r"((uint32_t)here), "l"(policy));
  return v;
}

// Loads 8 bytes that another processor has written, after an acquire.
__device__ __forceinline__ uint2 load_pair(const void *p) {
  uint2 v;
  asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
  return v;
}

} // namespace ptx

#endif
