// The form of a packed UCX key of memory: 8 bytes, a bit for each memory domain; 1 byte, the kind of memory; for each
// domain the length of its part, and the part. Newer releases add a byte with the system device, and three for each
// device that is near.
#include "base/fail.h"
#include "base/wire/wire.h"
#include "transport/ucx/check/check.h"

enum { KIND_HOST = 0, KIND_CUDA = 1, KIND_CUDA_MANAGED = 2, NO_SYSTEM_DEVICE = 0xff, NEAR_DEVICE = 3 };

static bool kind_is(uint64_t kind, bool gpu) {
  return gpu ? kind == KIND_CUDA || kind == KIND_CUDA_MANAGED : kind == KIND_HOST;
}

static bool rest_is_good(struct wire_reader *reader) {
  if (wire_left(reader) > 0)
    wire_take(reader, 1);
  if (wire_left(reader) % NEAR_DEVICE != 0)
    return false;
  while (wire_left(reader) > 0) {
    const uint8_t *device = wire_take(reader, NEAR_DEVICE);
    if (device[0] == NO_SYSTEM_DEVICE)
      return false;
  }
  return true;
}

int ucx_rkey_check(const void *bytes, size_t size, bool gpu) {
  struct wire_reader reader = {.bytes = bytes, .size = size};
  uint64_t domains = wire_take_number(&reader, 8), kind = wire_take_number(&reader, 1);
  for (; domains != 0; domains &= domains - 1)
    wire_take(&reader, wire_take_number(&reader, 1));
  if (reader.failed)
    return fail(WEFT_ERR_PROTOCOL, "a key of UCX is cut short");
  if (!kind_is(kind, gpu))
    return fail(WEFT_ERR_PROTOCOL, "a key of UCX is for another kind of memory than its description says");
  if (!rest_is_good(&reader))
    return fail(WEFT_ERR_PROTOCOL, "a key of UCX is longer than UCX 1.13 to 1.22 write it: run one of these there");
  return 0;
}
