// The kernel that makes many copies: pieces of any length and alignment, each byte to its place and no other byte
// written; and what its launch reports. Exits 77 without a GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda/kernels/copies.h"
#include "cuda/support/devices.cuh"

#include "base/random.h"

namespace {

enum { ROOM = 4096, PIECES = 700, MOST = ROOM - 64, BLOCKS = 13 };

// Pieces in device memory, each in room of its own, and the words that mark the end of a launch.
struct memory {
  char *from, *to;
  device_copy *pieces;
  uint32_t *words;

  memory() {
    OK(cudaMalloc(&from, (size_t)PIECES * ROOM));
    OK(cudaMalloc(&to, (size_t)PIECES * ROOM));
    OK(cudaMalloc(&pieces, PIECES * sizeof *pieces));
    OK(cudaHostAlloc(&words, BLOCKS * sizeof *words, cudaHostAllocMapped));
  }
  ~memory() {
    OK(cudaFree(from));
    OK(cudaFree(to));
    OK(cudaFree(pieces));
    OK(cudaFreeHost(words));
  }
};

bool has_all_words(const memory &device, uint32_t number) {
  for (uint32_t block = 0; block < BLOCKS; block++)
    if (*(const volatile uint32_t *)&device.words[block] != number)
      return false;
  return true;
}

bool copies_pieces_of_any_form(const memory &device) {
  uint64_t random = 7;
  std::vector<char> from((size_t)PIECES * ROOM), want((size_t)PIECES * ROOM, (char)0xA5), is(want);
  std::vector<device_copy> pieces(PIECES);
  for (char &byte : from)
    byte = (char)random_next(&random);
  for (uint32_t i = 0; i < PIECES; i++) {
    size_t begin = (size_t)i * ROOM, at = begin + random_next(&random) % 32, to = begin + random_next(&random) % 32;
    size_t size = random_next(&random) % (i % 3 == 0 ? 40 : (size_t)MOST);
    pieces[i] = {device.to + to, device.from + at, size};
    for (size_t b = 0; b < size; b++)
      want[to + b] = from[at + b];
  }
  OK(cudaMemcpy(device.from, from.data(), from.size(), cudaMemcpyHostToDevice));
  OK(cudaMemset(device.to, 0xA5, want.size()));
  OK(cudaMemcpy(device.pieces, pieces.data(), PIECES * sizeof pieces[0], cudaMemcpyHostToDevice));
  const cuda_copies_mark mark = {device.words, 5};
  OK(cuda_copies_launch(device.pieces, PIECES, BLOCKS, &mark, nullptr));
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpy(is.data(), device.to, is.size(), cudaMemcpyDeviceToHost));
  return has_all_words(device, 5) && is == want;
}

// Otherwise the caller would take its copies for not launched, and give their memory back while they run.
bool reports_no_error_of_an_earlier_call(const memory &device) {
  const cuda_copies_mark mark = {device.words, 6};
  if (cudaSetDevice(1 << 20) == cudaSuccess) // this error stays the last one of this thread
    return false;
  cudaError_t launched = cuda_copies_launch(device.pieces, PIECES, BLOCKS, &mark, nullptr);
  cudaGetLastError();
  OK(cudaDeviceSynchronize());
  return launched == cudaSuccess && has_all_words(device, 6);
}

bool reports_its_own_error(const memory &device) {
  const cuda_copies_mark mark = {device.words, 7};
  bool refused = cuda_copies_launch(device.pieces, PIECES, 0, &mark, nullptr) != cudaSuccess; // no blocks
  cudaGetLastError();
  return refused;
}

} // namespace

int main() {
  if (device_count() == 0) {
    printf("skipped: no GPU here\n");
    return 77;
  }
  memory device;
  struct {
    const char *name;
    bool ok;
  } tests[] = {{"pieces of any length and alignment", copies_pieces_of_any_form(device)},
               {"a launch reports no error of an earlier call", reports_no_error_of_an_earlier_call(device)},
               {"a launch reports its own error", reports_its_own_error(device)}};
  bool ok = true;
  for (const auto &test : tests) {
    printf("%-6s %s\n", test.ok ? "ok" : "FAILED", test.name);
    ok = ok && test.ok;
  }
  return ok ? 0 : 1;
}
