// The formats of cuda/format.cuh against the host's kernels, bit for bit: random rows, every bf16 value, special
// numbers. And rows of f32 that was not rounded, within the bound of logfmt10. Exits 77 without a GPU.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/cast.cuh"
#include "cuda/format.cuh"

extern "C" {
#include "base/random.h"
#include "ep/kernels/kernels.h"
}

namespace {

enum { HIDDEN = 7168, BLOCKS = HIDDEN / 128, THREADS = 224, ROWS = 64, ROW_BYTES = BLOCKS * 168 };
static_assert(HIDDEN / 8 % THREADS == 0 && THREADS % 32 == 0, "every thread has as many pieces");

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    cudaError_t error = (call);                                                                                        \
    if (error != cudaSuccess) {                                                                                        \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                                                   \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

// A row for each block of threads: encoded in shared memory, and copied out. In its upper half the two halves of a warp
// change places.
__global__ void encode(char *rows, const float *x) {
  __shared__ __align__(16) char row[ROW_BYTES];
  for (uint32_t piece = threadIdx.x; piece < HIDDEN / 8; piece += THREADS) {
    uint32_t at = piece ^ (piece >= HIDDEN / 16 ? 16 : 0);
    float v[8];
    for (int i = 0; i < 8; i++)
      v[i] = x[(size_t)blockIdx.x * HIDDEN + at * 8 + i];
    logfmt10_encode(row, HIDDEN, at, v);
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < ROW_BYTES; i += THREADS)
    rows[(size_t)blockIdx.x * ROW_BYTES + i] = row[i];
}

__global__ void decode(float *x, const char *rows) {
  for (uint32_t piece = threadIdx.x; piece < HIDDEN / 8; piece += THREADS) {
    float v[8];
    logfmt10_decode(v, logfmt10_load(rows + (size_t)blockIdx.x * ROW_BYTES, HIDDEN, piece));
    for (int i = 0; i < 8; i++)
      x[(size_t)blockIdx.x * HIDDEN + piece * 8 + i] = v[i];
  }
}

__global__ void scale(uint8_t *bytes, float *inverses) {
  uint32_t amax = blockIdx.x * blockDim.x + threadIdx.x;
  bytes[amax] = (uint8_t)ue8m0_of(block_scale(amax, true, &inverses[amax]));
}

__global__ void scale_exactly(float *scales, float *inverses) {
  uint32_t amax = blockIdx.x * blockDim.x + threadIdx.x;
  scales[amax] = block_scale(amax, false, &inverses[amax]);
}

float wide(uint16_t bits) {
  uint32_t word = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

// To nearest even; every NaN becomes one.
uint16_t narrow(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

struct device {
  float *x;
  char *rows;
};

// What the device makes of x, and of that again.
void code(const device &device, const std::vector<float> &x, std::vector<char> &rows, std::vector<float> &back) {
  OK(cudaMemcpy(device.x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
  OK(cudaMemset(device.rows, 0xA5, rows.size()));
  encode<<<ROWS, THREADS>>>(device.rows, device.x);
  OK(cudaGetLastError());
  OK(cudaMemcpy(rows.data(), device.rows, rows.size(), cudaMemcpyDeviceToHost));
  decode<<<ROWS, THREADS>>>(device.x, device.rows);
  OK(cudaGetLastError());
  OK(cudaMemcpy(back.data(), device.x, back.size() * sizeof(float), cudaMemcpyDeviceToHost));
}

// Blocks of several kinds: any bits; finite bits of any size; numbers of a model; few powers of two; zeros and denormal
// numbers among them; all equal; each value of bf16 with its next.
uint16_t draw(uint64_t *random, int round, size_t at) {
  uint64_t bits = random_next(random);
  switch (round < 10 ? 7 : at / 128 % 7) {
  case 0:
    return (uint16_t)bits;
  case 1:
    return (uint16_t)((bits & 0x807F) | (bits >> 16) % 255 << 7);
  case 2:
    return (uint16_t)((bits & 0x83FF) | 0x3C00);
  case 3:
    return (uint16_t)((bits & 0x80FF) | 0x4200);
  case 4:
    return (uint16_t)(bits >> 32 & 1 ? (bits & 0x81FF) | 0x3F00 : bits & 0x8000);
  case 5:
    return (uint16_t)(bits >> 32 & 3 ? (bits & 0x807F) | 0x80 * (1 + round % 4) : bits & 0x80FF);
  case 6:
    return (uint16_t)(0x3F80 + round * 257);
  default: {
    size_t block = (size_t)round * (ROWS * BLOCKS) + at / 128; // more of them than finite magnitudes
    return (uint16_t)((block + at % 2) % 0x7F80 | (bits & 0x8000));
  }
  }
}

bool same_as_the_host(const device &device) {
  const ep_kernels *host = ep_kernels_best();
  std::vector<uint16_t> x(ROWS * HIDDEN), out(HIDDEN);
  std::vector<float> values(x.size()), back(x.size());
  std::vector<char> rows(ROWS * ROW_BYTES), right(ROW_BYTES);
  uint64_t random = 11;
  for (int round = 0; round < 48; round++) {
    for (size_t i = 0; i < x.size(); i++)
      values[i] = wide(x[i] = draw(&random, round, i));
    code(device, values, rows, back);
    for (int r = 0; r < ROWS; r++) {
      const char *row = rows.data() + r * ROW_BYTES;
      float *heads = (float *)(right.data() + logfmt10_heads(HIDDEN));
      host->encode10((uint8_t *)right.data(), heads, x.data() + (size_t)r * HIDDEN, HIDDEN);
      for (int i = 0; i < ROW_BYTES; i++)
        if (row[i] != right[i]) {
          fprintf(stderr, "round %d, row %d: byte %d is 0x%02x, the host's 0x%02x\n", round, r, i, row[i] & 0xFF,
                  right[i] & 0xFF);
          return false;
        }
      host->decode10(out.data(), (const uint8_t *)right.data(), heads, HIDDEN);
      for (int i = 0; i < HIDDEN; i++)
        if (narrow(back[(size_t)r * HIDDEN + i]) != out[i]) {
          fprintf(stderr, "round %d, row %d: value %d comes back as %a, on the host as %a\n", round, r, i,
                  (double)back[(size_t)r * HIDDEN + i], (double)wide(out[i]));
          return false;
        }
    }
  }
  return true;
}

// The bound of device/logfmt10.h, for blocks of numbers whose range is not cut.
bool check_bound(const float *x, const float *back) {
  double most = 0, least = INFINITY;
  for (int i = 0; i < 128; i++) {
    most = fmax(most, fabs((double)x[i]));
    least = x[i] != 0 ? fmin(least, fabs((double)x[i])) : least;
  }
  double ratio = exp2(log2(most / least) / LOGFMT10_STEPS), share = (ratio - 1) / (ratio + 1) + (double)LOGFMT10_SLACK;
  for (int i = 0; i < 128; i++)
    if (!(fabs((double)back[i] - (double)x[i]) <= fabs((double)x[i]) * share)) {
      fprintf(stderr, "%a comes back as %a, in a block from %a to %a\n", (double)x[i], (double)back[i], least, most);
      return false;
    }
  return true;
}

bool f32_within_the_bound(const device &device) {
  std::vector<float> x(ROWS * HIDDEN), back(x.size());
  std::vector<char> rows(ROWS * ROW_BYTES);
  uint64_t random = 12;
  for (int round = 0; round < 16; round++) {
    for (size_t i = 0; i < x.size(); i++) {
      uint64_t bits = random_next(&random);
      double size = ldexp(1 + (double)(bits >> 32) * 0x1p-32, (int)(bits % (1 + (unsigned)round * 2)) - round);
      x[i] = bits >> 20 & 1 ? (float)-size : (float)size;
    }
    code(device, x, rows, back);
    for (size_t i = 0; i < x.size(); i += 128)
      if (!check_bound(&x[i], &back[i]))
        return false;
  }
  return true;
}

// For every largest magnitude. Word `amax` has the byte at place amax % 4, which is the last block.
bool scales_as_the_host(void) {
  enum { COUNT = 0x7F80 };
  uint8_t *bytes;
  float *inverses;
  OK(cudaMalloc(&bytes, COUNT));
  OK(cudaMalloc(&inverses, COUNT * sizeof(float)));
  OK(cudaMemset(bytes, 0xA5, COUNT));
  scale<<<COUNT / 32, 32>>>(bytes, inverses);
  OK(cudaGetLastError());
  std::vector<uint8_t> is(COUNT);
  std::vector<float> inverse(COUNT);
  OK(cudaMemcpy(is.data(), bytes, is.size(), cudaMemcpyDeviceToHost));
  OK(cudaMemcpy(inverse.data(), inverses, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
  OK(cudaFree(bytes));
  OK(cudaFree(inverses));
  for (uint32_t amax = 0; amax < COUNT; amax++) {
    uint16_t x[128] = {(uint16_t)amax};
    uint8_t q[128], right[4];
    float host;
    ep_kernels_best()->cast_fp8(q, &host, x, 128, true);
    ep_kernels_pack_scales(right, &host, 128);
    if (is[amax] != right[0] || inverse[amax] != 1 / host) {
      fprintf(stderr, "largest magnitude 0x%04x: byte 0x%02x, inverse %a; right are 0x%02x, %a\n", amax, is[amax],
              (double)inverse[amax], right[0], 1 / (double)host);
      return false;
    }
  }
  return true;
}

// Likewise: the kernels divide without a division.
bool quotients_as_the_host(void) {
  enum { COUNT = 0x7F80 };
  float *scales, *inverses;
  OK(cudaMalloc(&scales, COUNT * sizeof(float)));
  OK(cudaMalloc(&inverses, COUNT * sizeof(float)));
  scale_exactly<<<COUNT / 32, 32>>>(scales, inverses);
  OK(cudaGetLastError());
  std::vector<float> is(COUNT), inverse(COUNT);
  OK(cudaMemcpy(is.data(), scales, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
  OK(cudaMemcpy(inverse.data(), inverses, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
  OK(cudaFree(scales));
  OK(cudaFree(inverses));
  for (uint32_t amax = 0; amax < COUNT; amax++) {
    float value = wide((uint16_t)amax), most = value < 1e-4f ? 1e-4f : value;
    if (is[amax] != most / 448.0f || inverse[amax] != 448.0f / most) {
      fprintf(stderr, "largest magnitude 0x%04x: scale %a, inverse %a; right are %a, %a\n", amax, (double)is[amax],
              (double)inverse[amax], (double)(most / 448.0f), (double)(448.0f / most));
      return false;
    }
  }
  return true;
}

} // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    printf("skipped: no GPU here\n");
    return 77;
  }
  device device;
  OK(cudaMalloc(&device.x, (size_t)ROWS * HIDDEN * sizeof(float)));
  OK(cudaMalloc(&device.rows, (size_t)ROWS * ROW_BYTES));
  struct {
    const char *name;
    bool ok;
  } tests[] = {{"logfmt10 has the bits of the host's kernels", same_as_the_host(device)},
               {"f32 as logfmt10 is within the bound", f32_within_the_bound(device)},
               {"ue8m0 scales are those of the host's kernels", scales_as_the_host()},
               {"scales and their inverses are those of a division", quotients_as_the_host()}};
  bool ok = true;
  for (const auto &test : tests) {
    printf("%-6s %s\n", test.ok ? "ok" : "FAILED", test.name);
    ok = ok && test.ok;
  }
  OK(cudaFree(device.x));
  OK(cudaFree(device.rows));
  return ok ? 0 : 1;
}
