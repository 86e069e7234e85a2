// The formats of the kernels: packets of logfmt10 against its definition and the host's kernels, for random values,
// every bf16 value and special numbers; scales against the host's, and sums of two values against those in f32, bit for
// bit. Exits 77 without a GPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/combine/coded.cuh"
#include "cuda/support/devices.cuh"

extern "C" {
#include "base/random.h"
#include "ep/kernels/kernels.h"
}

namespace {

enum { PACKETS = 448, VALUES = CUDA_BF16_CHUNKS * CUDA_LINE / 2, BLOCK = LOGFMT10_BLOCK };

// A packet for each warp; one that travels has CODED_ROOM bytes.
__global__ void encode(char *coded, const uint4 *x, uint32_t chunks) {
  __shared__ __align__(16) char room[CODED_ROOM];
  answer_packet p;
  seat_in_packet at;
  for (int i = 0; i < answer_packet::ITERATIONS; i++)
    p.v[i] = x[blockIdx.x * (VALUES / 8) + i * WARP + threadIdx.x];
  encode_packet(p, chunks, room);
  for (int i = 0; i < answer_packet::ITERATIONS; i++)
    if (at.line(i) < cuda_coded_lines(chunks))
      *(uint4 *)(coded + blockIdx.x * CODED_ROOM + at.offset(i)) = p.v[i];
}

__global__ void decode(uint4 *x, const char *coded, uint32_t chunks) {
  __shared__ __align__(16) char room[CODED_ROOM];
  answer_packet p;
  seat_in_packet at;
  for (int i = 0; i < answer_packet::ITERATIONS; i++)
    if (at.line(i) < cuda_coded_lines(chunks))
      p.v[i] = *(const uint4 *)(coded + blockIdx.x * CODED_ROOM + at.offset(i));
  open_packet(p, chunks, room);
  for (int i = 0; i < answer_packet::ITERATIONS; i++) {
    float values[8] = {};
    add_decoded(values, room, chunks, i);
    x[blockIdx.x * (VALUES / 8) + i * WARP + threadIdx.x] = pack8(values);
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

// One value of blockIdx.x with each that there is. *wrong: 1 + the first pair found whose sum has other bits than the
// one in f32 has; 0: none.
__global__ void add_to_all(unsigned long long *wrong) {
  uint32_t one = blockIdx.x;
  for (uint32_t other = 2 * threadIdx.x; other < 0x10000; other += 2 * blockDim.x) {
    uint32_t a = one << 16 | one, b = (other + 1) << 16 | other;
    float sums[8] = {};
    add8(sums, make_uint4(a, 0, 0, 0), 1.0f);
    add8(sums, make_uint4(b, 0, 0, 0), 1.0f);
    uint32_t differs = add_pair(a, b) ^ pack8(sums).x;
    if (differs)
      atomicCAS(wrong, 0ull, 1ull + ((unsigned long long)one << 16 | (differs & 0xFFFF ? other : other + 1)));
  }
}

float wide(uint16_t bits) {
  uint32_t word = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

bool is_nan(uint16_t bits) {
  return (bits & 0x7FFF) > 0x7F80;
}

struct buffers {
  uint16_t *x;
  char *coded;
};

// Blocks of several kinds: any bits; finite bits of any size; numbers of a model; few powers of two; zeros and denormal
// numbers among them; of two sizes, each second one negative, of whose code no word of signs can travel as it is; each
// value of bf16 with its next.
uint16_t draw(uint64_t *random, int round, size_t at) {
  uint64_t bits = random_next(random);
  switch (round < 10 ? 7 : at / BLOCK % 7) {
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
    return (uint16_t)((bits % 97 == 0 ? 0x3F00 : 0x3F80 + round) | at % 2 << 15);
  default: {
    size_t block = (size_t)round * (PACKETS * VALUES / BLOCK) + at / BLOCK; // more of them than finite magnitudes
    return (uint16_t)((block + at % 2) % 0x7F80 | (bits & 0x8000));
  }
  }
}

// Of a packet of the device: the code as the host has it, all codes and then all heads. False: some word was empty.
bool take_marks_off(const char *coded, uint32_t chunks, std::vector<uint32_t> &code) {
  const uint32_t words = cuda_coded_words(chunks), lines = cuda_coded_lines(chunks);
  std::vector<uint32_t> came((const uint32_t *)coded, (const uint32_t *)coded + lines * CUDA_LINE / 4);
  for (uint32_t word : came)
    if (word == CUDA_EMPTY)
      return false;
  for (uint32_t &word : came)
    word ^= CODED_INVERTED;
  code.assign(came.begin(), came.begin() + words);
  for (uint32_t i = 0; i < words; i++)
    if (came[words + i / CUDA_WORD_MARKS] >> i % CUDA_WORD_MARKS & 1)
      code[i] = CODED_EMPTY;
  return true;
}

void put_marks_on(const std::vector<uint32_t> &code, char *coded) {
  std::vector<uint32_t> marks((code.size() + CUDA_WORD_MARKS - 1) / CUDA_WORD_MARKS);
  uint32_t *out = (uint32_t *)coded;
  for (size_t i = 0; i < code.size(); i++) {
    bool empty = code[i] == CODED_EMPTY;
    out[i] = (empty ? 0 : code[i]) ^ CODED_INVERTED;
    marks[i / CUDA_WORD_MARKS] |= (uint32_t)empty << i % CUDA_WORD_MARKS;
  }
  for (size_t i = 0; i < marks.size(); i++)
    out[code.size() + i] = marks[i] ^ CODED_INVERTED;
}

// Whether a block came back as device/logfmt10.h says; `back` is bf16 again.
bool check_block(const uint16_t *x, const uint16_t *back, float low, float step) {
  uint16_t most = 0, least = 0x7F80;
  for (int i = 0; i < BLOCK; i++) {
    uint16_t magnitude = x[i] & 0x7FFF;
    most = std::max(most, magnitude);
    least = magnitude >= 0x80 ? std::min(least, magnitude) : least;
  }
  double ratio = exp2((double)step), share = (ratio - 1) / (ratio + 1) + (double)LOGFMT10_SLACK;
  for (int i = 0; i < BLOCK; i++) {
    uint16_t magnitude = x[i] & 0x7FFF, came = back[i] & 0x7FFF;
    double value = wide(magnitude), error = fabs((double)wide(came) - value), half = value * 0x1p-8; // rounded to bf16
    bool ok = most >= 0x7F80               ? is_nan(back[i])
              : magnitude < 0x80           ? came == 0
              : magnitude == most          ? came == most
              : value >= exp2((double)low) ? error <= value * share + half
                                           : error <= exp2((double)low) * (1 + 0x1p-8);
    ok = ok && (most >= 0x7F80 || came == 0 || (x[i] ^ back[i]) < 0x8000); // signs
    // The least one comes back as it was, if its block has no larger range than codes have.
    ok = ok && (most >= 0x7F80 || magnitude != least || wide(most) > wide(least) * 0x1p31f || came == least);
    if (!ok) {
      fprintf(stderr, "%04x comes back as %04x, in a block from %04x to %04x: low %a, step %a\n", x[i], back[i], least,
              most, (double)low, (double)step);
      return false;
    }
  }
  return true;
}

// What the device encodes, by the host's decoding and by its own, which may be one unit in the last place apart.
bool encodes_as_defined(const buffers &device, uint32_t chunks) {
  const ep_kernels *host = ep_kernels_best();
  const uint32_t hidden = chunks * CUDA_LINE / 2;
  std::vector<uint16_t> x(PACKETS * VALUES), back(x.size()), by_host(hidden);
  std::vector<char> coded(PACKETS * CODED_ROOM);
  std::vector<uint32_t> code;
  uint64_t random = 11;
  for (int round = 0; round < 48; round++) {
    for (size_t i = 0; i < x.size(); i++)
      x[i] = draw(&random, round, i);
    OK(cudaMemcpy(device.x, x.data(), x.size() * 2, cudaMemcpyHostToDevice));
    encode<<<PACKETS, WARP>>>(device.coded, (const uint4 *)device.x, chunks);
    decode<<<PACKETS, WARP>>>((uint4 *)device.x, device.coded, chunks);
    OK(cudaGetLastError());
    OK(cudaMemcpy(coded.data(), device.coded, coded.size(), cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(back.data(), device.x, back.size() * 2, cudaMemcpyDeviceToHost));
    for (int packet = 0; packet < PACKETS; packet++) {
      if (!take_marks_off(coded.data() + packet * CODED_ROOM, chunks, code)) {
        fprintf(stderr, "round %d, packet %d: a word is empty\n", round, packet);
        return false;
      }
      const float *heads = (const float *)((const char *)code.data() + logfmt10_heads(hidden));
      host->decode10(by_host.data(), (const uint8_t *)code.data(), heads, hidden);
      for (uint32_t i = 0; i < hidden; i++) {
        uint16_t mine = back[packet * VALUES + i], right = by_host[i];
        bool same = (is_nan(mine) && is_nan(right)) || abs((mine & 0x7FFF) - (right & 0x7FFF)) <= 1;
        if (!same) {
          fprintf(stderr, "round %d, packet %d: value %u is decoded to %04x, by the host to %04x\n", round, packet, i,
                  mine, right);
          return false;
        }
        if (i % BLOCK == 0 &&
            !check_block(&x[packet * VALUES + i], &by_host[i], heads[i / BLOCK * 2], heads[i / BLOCK * 2 + 1]))
          return false;
      }
    }
  }
  return true;
}

bool encodes_packets_of_any_length(const buffers &device) {
  for (uint32_t chunks = 2; chunks <= CUDA_BF16_CHUNKS; chunks += 2)
    if (!encodes_as_defined(device, chunks))
      return false;
  return true;
}

// What the host encodes, by the device's decoding.
bool decodes_what_the_host_encodes(const buffers &device) {
  const ep_kernels *host = ep_kernels_best();
  std::vector<uint16_t> x(PACKETS * VALUES), back(x.size());
  std::vector<char> coded(PACKETS * CODED_ROOM);
  std::vector<uint32_t> code(cuda_coded_words(CUDA_BF16_CHUNKS));
  float *heads = (float *)((char *)code.data() + logfmt10_heads(VALUES));
  uint64_t random = 12;
  for (int round = 0; round < 48; round++) {
    for (size_t i = 0; i < x.size(); i++)
      x[i] = draw(&random, round, i);
    for (int packet = 0; packet < PACKETS; packet++) {
      host->encode10((uint8_t *)code.data(), heads, &x[packet * VALUES], VALUES);
      put_marks_on(code, &coded[packet * CODED_ROOM]);
      host->decode10(&x[packet * VALUES], (const uint8_t *)code.data(), heads, VALUES);
    }
    OK(cudaMemcpy(device.coded, coded.data(), coded.size(), cudaMemcpyHostToDevice));
    decode<<<PACKETS, WARP>>>((uint4 *)device.x, device.coded, CUDA_BF16_CHUNKS);
    OK(cudaGetLastError());
    OK(cudaMemcpy(back.data(), device.x, back.size() * 2, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < x.size(); i++)
      if (!(is_nan(x[i]) && is_nan(back[i])) && abs((x[i] & 0x7FFF) - (back[i] & 0x7FFF)) > 1) {
        fprintf(stderr, "round %d: value %zu is decoded to %04x, by the host to %04x\n", round, i, back[i], x[i]);
        return false;
      }
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

// The kernels divide without a division, and get the same quotients.
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

// All 2^32 of them, NaN and infinities among them.
bool pairs_as_in_f32(void) {
  unsigned long long *wrong, found = 0;
  OK(cudaMalloc(&wrong, sizeof *wrong));
  OK(cudaMemset(wrong, 0, sizeof *wrong));
  add_to_all<<<0x10000, 256>>>(wrong);
  OK(cudaGetLastError());
  OK(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
  OK(cudaFree(wrong));
  if (found)
    fprintf(stderr, "the bf16 values 0x%04llx and 0x%04llx have another sum than in f32, rounded\n", (found - 1) >> 16,
            (found - 1) & 0xFFFF);
  return found == 0;
}

} // namespace

int main() {
  if (device_count() == 0) {
    printf("skipped: no GPU here\n");
    return 77;
  }
  buffers device;
  OK(cudaMalloc(&device.x, (size_t)PACKETS * VALUES * sizeof(uint16_t)));
  OK(cudaMalloc(&device.coded, (size_t)PACKETS * CODED_ROOM));
  struct {
    const char *name;
    bool ok;
  } tests[] = {{"packets of logfmt10 come back within its bounds", encodes_packets_of_any_length(device)},
               {"packets of the host's logfmt10 are decoded alike", decodes_what_the_host_encodes(device)},
               {"ue8m0 scales are those of the host's kernels", scales_as_the_host()},
               {"scales and their inverses are those of a division", quotients_as_the_host()},
               {"two answers have the same sum as in f32, all values with all", pairs_as_in_f32()}};
  bool ok = true;
  for (const auto &test : tests) {
    printf("%-6s %s\n", test.ok ? "ok" : "FAILED", test.name);
    ok = ok && test.ok;
  }
  OK(cudaFree(device.x));
  OK(cudaFree(device.coded));
  return ok ? 0 : 1;
}
