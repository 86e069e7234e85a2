// Counts requests of the library's code to the system, or makes an allocation fail.
#include "support/allocations.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support/sanitized.h"

static _Thread_local struct allocations counted;
static _Thread_local unsigned depth;
static atomic_bool for_all;
static _Atomic uint64_t all_own, all_others, all_maps, all_locks, all_getenvs;
static _Atomic int64_t until_failure; // 0: none has to fail
static _Thread_local int64_t until_failure_here;
static atomic_bool failed;
static _Atomic int64_t live;

void allocations_begin(void) {
  if (depth++ == 0)
    counted = (struct allocations){0};
}

void allocations_end(struct allocations *sum) {
  if (--depth > 0)
    return;
  sum->own += counted.own;
  sum->others += counted.others;
  sum->maps += counted.maps;
  sum->locks += counted.locks;
  sum->getenvs += counted.getenvs;
}

void allocations_begin_all(void) {
  all_own = all_others = all_maps = all_locks = all_getenvs = 0;
  for_all = true;
}

void allocations_end_all(struct allocations *sum) {
  for_all = false;
  sum->own += all_own;
  sum->others += all_others;
  sum->maps += all_maps;
  sum->locks += all_locks;
  sum->getenvs += all_getenvs;
}

void allocations_fail(uint64_t n) {
  failed = false;
  until_failure = (int64_t)n;
}

void allocations_fail_here(uint64_t n) {
  failed = false;
  until_failure_here = (int64_t)n;
}

bool allocations_failed(void) {
  return failed;
}

int64_t allocations_live(void) {
  return live;
}

#if SUPPORT_SANITIZED

bool allocations_counted(void) {
  return false;
}

#else

bool allocations_counted(void) {
  struct allocations sum = {0};
  void *(*volatile call)(size_t) = malloc; // by its name the compiler assumes that it changes no number here
  allocations_begin();
  free(call(1));
  allocations_end(&sum);
  return sum.own > 0;
}

// glibc's own functions, under the names that it keeps for programs that replace the others.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

extern char __executable_start, etext;

static void count(const void *caller) {
  bool own = (const char *)caller >= &__executable_start && (const char *)caller < &etext;
  if (depth > 0)
    own ? counted.own++ : counted.others++;
  if (for_all)
    own ? all_own++ : all_others++;
}

// Whether this allocation has to fail.
static bool fails(void) {
  bool here = until_failure_here > 0 && --until_failure_here == 0;
  if (!here && (until_failure <= 0 || atomic_fetch_sub(&until_failure, 1) != 1))
    return false;
  failed = true;
  errno = ENOMEM;
  return true;
}

// Shared libraries use the following functions, too.
#pragma GCC visibility push(default)

static void *allocated(void *memory) {
  live += memory != NULL;
  return memory;
}

void *malloc(size_t size) {
  count(__builtin_return_address(0));
  return fails() ? NULL : allocated(__libc_malloc(size));
}

void *calloc(size_t number, size_t size) {
  count(__builtin_return_address(0));
  return fails() ? NULL : allocated(__libc_calloc(number, size));
}

void *realloc(void *memory, size_t size) {
  count(__builtin_return_address(0));
  void *moved = fails() ? NULL : __libc_realloc(memory, size);
  live += memory ? -(size == 0) : moved != NULL;
  return moved;
}

void *aligned_alloc(size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  return fails() ? NULL : allocated(__libc_memalign(alignment, size));
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  void *aligned = fails() ? NULL : allocated(__libc_memalign(alignment, size));
  if (!aligned)
    return ENOMEM;
  *memory = aligned;
  return 0;
}

void free(void *memory) {
  if (memory)
    count(__builtin_return_address(0));
  live -= memory != NULL;
  __libc_free(memory);
}

// Allocations of libcrypto do not fail: it leaks memory when they do.
static void *crypto_malloc(size_t size, const char *file, int line) {
  (void)file, (void)line;
  return size > 0 ? allocated(__libc_malloc(size)) : NULL;
}

static void *crypto_realloc(void *memory, size_t size, const char *file, int line) {
  (void)file, (void)line;
  void *moved = __libc_realloc(memory, size);
  live += memory ? -(size == 0) : moved != NULL;
  return moved;
}

static void crypto_free(void *memory, const char *file, int line) {
  (void)file, (void)line;
  live -= memory != NULL;
  __libc_free(memory);
}

typedef int (*set_crypto)(void *(*)(size_t, const char *, int), void *(*)(void *, size_t, const char *, int),
                          void (*)(void *, const char *, int));

__attribute__((constructor)) static void find_crypto(void) {
  set_crypto set;
  *(void **)&set = dlsym(RTLD_DEFAULT, "CRYPTO_set_mem_functions");
  if (set)
    set(crypto_malloc, crypto_realloc, crypto_free);
}

// In libc these functions call malloc by a name that this file cannot replace. Here their caller counts as the caller
// of malloc.
char *strndup(const char *text, size_t size) {
  size_t length = strnlen(text, size);
  count(__builtin_return_address(0));
  char *copy = fails() ? NULL : allocated(__libc_malloc(length + 1));
  if (copy) {
    memcpy(copy, text, length);
    copy[length] = '\0';
  }
  return copy;
}

char *strdup(const char *text) {
  size_t size = strlen(text) + 1;
  count(__builtin_return_address(0));
  char *copy = fails() ? NULL : allocated(__libc_malloc(size));
  return copy ? memcpy(copy, text, size) : NULL;
}

static void *(*real_mmap)(void *, size_t, int, int, int, off_t);
static int (*real_lock)(pthread_mutex_t *);
static char *(*real_getenv)(const char *);

__attribute__((constructor)) static void find_real(void) {
  *(void **)&real_mmap = dlsym(RTLD_NEXT, "mmap");
  *(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
  *(void **)&real_getenv = dlsym(RTLD_NEXT, "getenv");
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
  counted.maps += depth > 0;
  all_maps += for_all;
  if (!real_mmap)
    find_real();
  return real_mmap(address, size, protection, flags, fd, offset);
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
  counted.locks += depth > 0;
  all_locks += for_all;
  if (!real_lock)
    find_real();
  return real_lock(mutex);
}

char *getenv(const char *name) {
  counted.getenvs += depth > 0;
  all_getenvs += for_all;
  if (!real_getenv)
    find_real();
  return real_getenv(name);
}

#pragma GCC visibility pop

#endif
