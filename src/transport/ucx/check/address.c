// The form of a UCX worker address: a head, then devices, each with transports.
//
//   head     format 1: version (0) and flags, 4 bits each; format 2: version (1) and release, 4 bits each, then a byte
//            of flags. Then 8 bytes of identity, 8 of the client, if flagged, and a name with its length, if flagged.
//   device   index of the memory domain (top bit: no transports); length of its part, with three flags: last device,
//            a byte with the number of paths follows, a byte with the system device follows; its part
//   transport  2 bytes of its name, 16 (format 2: 8) of its speed and abilities, length of its part, with two flags:
//            last of the device, parts of endpoints follow (never in a worker's address); its part
//
// In format 2 a length or index that fills its bits continues in the next byte. At the end of format 1 newer releases
// put a device without transports, whose index has the number of their release.
#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "base/wire/wire.h"
#include "transport/ucx/check/check.h"

enum {
  FLAG_NAME = 1, // of the head
  FLAG_IDENTITY = 2,
  FLAG_CLIENT = 4,
  FLAG_LAST = 0x80, // of a device, and of a transport
  FLAG_PATHS = 0x40,
  FLAG_SYSTEM = 0x20,
  FLAG_ENDPOINTS = 0x40, // of a transport
  FLAG_EMPTY = 0x80,     // of a memory domain
  DEVICE_BITS = 0x1f,
  INTERFACE_BITS = 0x3f,
  MOST_DEVICES = 64,
  MOST_DOMAINS = 64, // libucp's limit, as it keeps them in a word
  NO_SYSTEM_DEVICE = 0xff,
};

struct walk {
  struct wire_reader reader;
  bool second; // format 2
  uint32_t devices, entries;
  const struct ucx_sizes *own; // NULL: it is our own that is read
  struct ucx_sizes *learned;
};

static int broken(const char *what) {
  return fail(WEFT_ERR_PROTOCOL, "an address of UCX is broken: %s", what);
}

static int unknown(unsigned version, unsigned flags) {
  return fail(
      WEFT_ERR_VERSION,
      "an address of UCX has format %u with flags 0x%x, and Weft knows formats 1 and 2 as UCX 1.13 to 1.22 write "
      "them: run a UCX of these there, or UCX_ADDRESS_VERSION=v1 and UCX_UNIFIED_MODE=n",
      version + 1, flags);
}

static int read_head(struct walk *walk) {
  unsigned first = (unsigned)wire_take_number(&walk->reader, 1), version = first & 15;
  walk->second = version == 1;
  unsigned flags = walk->second ? (unsigned)wire_take_number(&walk->reader, 1) : first >> 4;
  if (version > 1 || flags & ~(unsigned)(FLAG_NAME | FLAG_IDENTITY | FLAG_CLIENT) || !(flags & FLAG_IDENTITY))
    return unknown(version, flags);
  wire_take(&walk->reader, flags & FLAG_CLIENT ? 16 : 8);
  if (flags & FLAG_NAME)
    wire_take(&walk->reader, wire_take_number(&walk->reader, 1));
  return walk->reader.failed ? broken("it ends in its head") : 0;
}

// A number in the low bits of a byte, which the next one continues where it fills them.
static uint8_t take_extended(struct walk *walk, uint8_t byte, uint8_t bits) {
  bool more = walk->second && (byte & bits) == bits;
  return more ? (uint8_t)wire_take_number(&walk->reader, 1) : byte & bits;
}

static float take_float(struct wire_reader *reader) {
  uint32_t bits = (uint32_t)wire_take_number(reader, 4);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Format 2: overhead, rate and latency as floats of a byte, priority, the largest message in units of 64 bytes,
// abilities. UCX ends the process if its keys do not fit into a message.
static bool second_speed_is_good(struct walk *walk) {
  enum { MESSAGES = 2, LEAST_UNITS = 14 };
  const uint8_t *numbers = wire_take(&walk->reader, 8);
  if (!numbers || numbers[1] == 0)
    return false;
  return !(numbers[6] & MESSAGES) || (numbers[4] | numbers[5] << 8) >= LEAST_UNITS;
}

// Overhead and latency in seconds, bytes per second: UCX reckons with them.
static bool speed_is_good(struct walk *walk) {
  if (walk->second)
    return second_speed_is_good(walk);
  float overhead = take_float(&walk->reader), rate = take_float(&walk->reader), latency = take_float(&walk->reader);
  wire_take(&walk->reader, 4);
  return isfinite(overhead) && isfinite(rate) && isfinite(latency) && overhead >= 0 && overhead < 1000 && rate >= 1 &&
         rate < 1e18F && latency >= 0 && latency < 1000;
}

static int take_entry(struct walk *walk, const struct ucx_entry *device, bool *last) {
  struct ucx_entry entry = *device;
  entry.transport = (uint16_t)wire_take_number(&walk->reader, 2);
  if (!speed_is_good(walk))
    return broken(walk->reader.failed ? "it ends in a transport" : "a transport has no speed that can be");
  uint8_t flags = (uint8_t)wire_take_number(&walk->reader, 1);
  entry.interface_size = take_extended(walk, flags, INTERFACE_BITS);
  entry.interface = wire_take(&walk->reader, entry.interface_size);
  if (walk->reader.failed)
    return broken("it ends in a transport");
  if (flags & FLAG_ENDPOINTS)
    return broken("it has endpoints, as no worker's has");
  if (++walk->entries > UCX_MOST_ENTRIES)
    return broken("it has more transports than UCX takes");
  *last = flags & FLAG_LAST;
  if (walk->learned)
    walk->learned->of[walk->learned->count++] =
        (typeof(walk->learned->of[0])){entry.transport, entry.device_size, entry.interface_size};
  return walk->own ? ucx_entry_check(&entry, walk->own) : 0;
}

static int take_device(struct walk *walk, bool *last) {
  struct ucx_entry entry = {.transport = 0};
  uint8_t domain = (uint8_t)wire_take_number(&walk->reader, 1);
  entry.md = take_extended(walk, domain, walk->second ? 0x7f : 0x1f);
  uint8_t flags = (uint8_t)wire_take_number(&walk->reader, 1);
  entry.device_size = take_extended(walk, flags, DEVICE_BITS);
  uint64_t paths = flags & FLAG_PATHS ? wire_take_number(&walk->reader, 1) : 1;
  uint64_t system = flags & FLAG_SYSTEM ? wire_take_number(&walk->reader, 1) : 0;
  entry.device = wire_take(&walk->reader, entry.device_size);
  if (walk->reader.failed)
    return broken("it ends in a device");
  *last = flags & FLAG_LAST;
  if (domain & FLAG_EMPTY)
    return flags == FLAG_LAST && walk->devices > 0 ? 0 : broken("a device has no transports");
  if (++walk->devices > MOST_DEVICES || entry.md >= MOST_DOMAINS || paths == 0 || system == NO_SYSTEM_DEVICE)
    return broken("it has more devices, domains or paths than UCX makes");
  int rc = 0;
  for (bool end = false; rc == 0 && !end;)
    rc = take_entry(walk, &entry, &end);
  return rc;
}

static int read_all(struct walk *walk) {
  int rc = read_head(walk);
  for (bool last = false; rc == 0 && !last;)
    rc = take_device(walk, &last);
  if (rc == 0 && wire_left(&walk->reader) > 0)
    rc = broken("bytes stand behind its end");
  return rc;
}

int ucx_address_check(const void *bytes, size_t size, const struct ucx_sizes *own) {
  struct walk walk = {.reader = {.bytes = bytes, .size = size}, .own = own};
  return read_all(&walk);
}

int ucx_address_learn(const void *bytes, size_t size, struct ucx_sizes *sizes) {
  struct walk walk = {.reader = {.bytes = bytes, .size = size}, .learned = sizes};
  sizes->count = 0;
  int rc = read_all(&walk);
  if (rc == 0) // as others will
    rc = ucx_address_check(bytes, size, sizes);
  return rc;
}
