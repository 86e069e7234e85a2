// Preloaded into the tool: lets it create only as many threads as WEFT_FEW_THREADS says.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*start)(void *), void *arg) {
  static atomic_int made;
  const char *few = getenv("WEFT_FEW_THREADS");
  void *next = dlsym(RTLD_NEXT, "pthread_create");
  create_fn *create;
  *(void **)&create = next;
  return few && atomic_fetch_add(&made, 1) >= atoi(few) ? EAGAIN : create(thread, attributes, start, arg);
}
