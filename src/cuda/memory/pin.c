// Host memory that callers pin. Their ranges may overlap, but CUDA pins a page only once. So this file counts the users
// of what it has pinned, and unpins it when the last of them has gone.
#include <stdlib.h>
#include <unistd.h>

#include "cuda/plugin.h"

// Pages that one call of CUDA has pinned.
struct piece {
  struct piece *next;
  uintptr_t begin, end;
  uint32_t users; // ranges that have pages of it
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *pieces; // they do not overlap

// The pages of some memory.
struct range {
  uintptr_t begin, end;
};

static struct range pages_of(const void *memory, uint64_t size) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)memory;
  return (struct range){at / page * page, (at + size + page - 1) / page * page};
}

static struct piece *find_piece(uintptr_t at) {
  struct piece *piece = pieces;
  while (piece && (at < piece->begin || at >= piece->end))
    piece = piece->next;
  return piece;
}

// The first address from `at` on that is in a piece, at most `end`.
static uintptr_t gap_end(uintptr_t at, uintptr_t end) {
  for (const struct piece *piece = pieces; piece; piece = piece->next)
    if (piece->begin >= at && piece->begin < end)
      end = piece->begin;
  return end;
}

static int add_piece(uintptr_t begin, uintptr_t end, struct piece **out, char *why) {
  struct piece *piece = calloc(1, sizeof *piece);
  if (!piece)
    return cuda_why(why, WEFT_ERR_NOMEM, "no memory for a record of pinned memory");
  cudaError_t error = cudaHostRegister((void *)begin, end - begin, cudaHostRegisterPortable);
  if (error != cudaSuccess) {
    free(piece);
    int rc = cuda_check(why, error, "cannot pin host memory");
    return error == cudaErrorHostMemoryAlreadyRegistered ? WEFT_ERR_EXISTS : rc;
  }
  *piece = (struct piece){.next = pieces, .begin = begin, .end = end};
  pieces = *out = piece;
  return 0;
}

static void release(uintptr_t begin, uintptr_t end) {
  for (struct piece **at = &pieces; *at;) {
    struct piece *piece = *at;
    if (piece->begin >= end || piece->end <= begin || --piece->users > 0) {
      at = &piece->next;
      continue;
    }
    *at = piece->next;
    cudaHostUnregister((void *)piece->begin);
    cudaGetLastError();
    free(piece);
  }
}

// Pins what is not pinned yet. EXISTS: other code has pinned a part.
static int pin(struct range range, char *why) {
  int rc = 0;
  uintptr_t at = range.begin;
  while (at < range.end) {
    struct piece *piece = find_piece(at);
    if (!piece)
      rc = add_piece(at, gap_end(at, range.end), &piece, why);
    if (rc != 0)
      break;
    piece->users++;
    at = piece->end;
  }
  if (rc != 0)
    release(range.begin, at);
  return rc;
}

static bool is_pinned(const void *memory) {
  struct cudaPointerAttributes is = {.type = cudaMemoryTypeUnregistered};
  if (cudaPointerGetAttributes(&is, memory) != cudaSuccess)
    cudaGetLastError();
  return is.type == cudaMemoryTypeHost;
}

// Other code has pinned the memory, or a part of it, which a kernel must not take for all of it.
static int pinned_by_others(const char *memory, uint64_t size, char *why) {
  if (gap_end((uintptr_t)memory, (uintptr_t)memory + size) == (uintptr_t)memory + size &&
      !find_piece((uintptr_t)memory) && is_pinned(memory) && is_pinned(memory + size - 1))
    return cuda_why(why, WEFT_ERR_EXISTS, "%p is pinned already", memory);
  return cuda_why(why, WEFT_ERR_INVALID,
                  "a part of the %llu bytes at %p has been pinned by other code: pin all of them there, or none",
                  (unsigned long long)size, memory);
}

int cuda_pin_caller(void *memory, uint64_t size, char *why) {
  struct cuda_guard guard;
  bool entered = cuda_enter_any(&guard) == 0;
  pthread_mutex_lock(&lock);
  int rc = pin(pages_of(memory, size), why);
  if (rc == WEFT_ERR_EXISTS)
    rc = pinned_by_others(memory, size, why);
  pthread_mutex_unlock(&lock);
  if (entered)
    cuda_leave(&guard);
  return rc;
}

void cuda_unpin_caller(void *memory, uint64_t size) {
  struct range range = pages_of(memory, size);
  struct cuda_guard guard;
  bool entered = cuda_enter_any(&guard) == 0;
  pthread_mutex_lock(&lock);
  release(range.begin, range.end);
  pthread_mutex_unlock(&lock);
  if (entered)
    cuda_leave(&guard);
}
