// Finds which variants this machine can run, and chooses one.
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "ep/kernels/variants.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct ep_kernels *usable[5]; // ascending by speed, then NULL
static const struct ep_kernels *best;

void ep_kernels_copy(void *to, const void *from, size_t size) {
  memcpy(to, from, size);
}

void ep_kernels_fence(void) {
#if defined(__x86_64__)
  __asm__ volatile("sfence" ::: "memory"); // ordinary stores become visible in order, those of `stream` do not
#else
  __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

static const struct ep_kernels *find(const char *name) {
  for (int i = 0; usable[i]; i++)
    if (strcmp(usable[i]->name, name) == 0)
      return usable[i];
  return NULL;
}

static void decide(void) {
  int count = 0;
  usable[count++] = &ep_kernels_portable;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    usable[count++] = &ep_kernels_avx2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    usable[count++] = &ep_kernels_avx512;
    if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bf16"))
      usable[count++] = &ep_kernels_avx512_bf16;
  }
#elif defined(__aarch64__)
  usable[count++] = &ep_kernels_neon;
#endif
  best = usable[count - 1];
  const char *wanted = getenv("WEFT_EP_KERNELS");
  if (!wanted || !*wanted)
    return;
  const struct ep_kernels *found = find(wanted);
  if (found)
    best = found;
  else
    log_warn("WEFT_EP_KERNELS=%s: this machine cannot run such kernels (portable, avx2, avx512, avx512-bf16, neon); "
             "using %s",
             wanted, best->name);
}

const struct ep_kernels *ep_kernels_best(void) {
  pthread_once(&once, decide);
  return best;
}

const struct ep_kernels *ep_kernels_named(const char *name) {
  pthread_once(&once, decide);
  return find(name);
}

const struct ep_kernels *const *ep_kernels_all(void) {
  pthread_once(&once, decide);
  return usable;
}
