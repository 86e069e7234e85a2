// The contents of a pattern: each byte is a function of the seed, the round, the pattern, the pair and the place, so
// that a byte of another place, pair or round is recognised as wrong.
#ifndef BENCH_TRAFFIC_CONTENTS_H
#define BENCH_TRAFFIC_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

#include "bench/traffic/pattern.h"
#include "device/device.h"

// The stream of one pair in one round.
uint64_t traffic_stream(uint64_t seed, uint64_t round, uint32_t pattern, const struct traffic_pair *pair);

// Bytes `at` to `at + size` of a stream.
void traffic_stream_bytes(uint64_t stream, uint64_t at, void *out, size_t size);

// The offsets of piece `index` from the pair's first byte at the sender and at the receiver, and its length.
struct traffic_place {
  uint64_t sender, receiver, bytes;
};
struct traffic_place traffic_place(const struct traffic_pair *pair, uint32_t index);

// A pair's bytes in memory of the host, or of a device (then `api` is its table).
struct traffic_area {
  char *address;
  const struct device_api *api; // NULL: host memory
  struct device *device;
};

// Writes a sender's bytes. CUDA errors; NOMEM; CANCELED: a signal has come.
int traffic_area_fill(const struct traffic_area *area, const struct traffic_pair *pair, uint64_t stream);
// Checks a receiver's bytes. DATA says where the first wrong byte is, in which piece, and how many bytes are wrong.
int traffic_area_check(const struct traffic_area *area, const struct traffic_pair *pair, uint64_t stream);

#endif
