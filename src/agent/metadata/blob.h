// The format of metadata, for encode.c and decode.c. docs/design/agent.md explains it.
#ifndef AGENT_METADATA_BLOB_H
#define AGENT_METADATA_BLOB_H

#include "agent/metadata/description.h"
#include "secure/hmac.h"

#define BLOB_MAGIC "WEFTMETA" // 8 bytes, no NUL

enum {
  BLOB_VERSION = 2,        // the version that is written
  BLOB_MINIMUM_READER = 2, // the oldest version whose readers understand it
  BLOB_OLDEST = 2,         // the oldest version that is read
  BLOB_AT_CHECKSUM = 12,   // u32, computed with zeros in its place
  BLOB_AT_SIZE = 16,       // u64
  BLOB_SECTION_HEAD = 8,   // u16 section, u16 zero, u32 bytes that follow
  BLOB_SEAL_WHOLE = BLOB_SECTION_HEAD + HMAC_SIZE,
};

// Sections stand in this order, each at most once. A reader skips sections that it does not know. Nothing follows the
// seal.
enum blob_section { BLOB_IDENTITY = 1, BLOB_TRANSPORTS = 2, BLOB_REGIONS = 3, BLOB_SEAL = 0xFFFF };

enum blob_flag { BLOB_COMPLETE = 1 << 0, BLOB_ALL_REGIONS = 1 << 1 };
enum blob_region_flag { BLOB_READ_ONLY = 1 << 0 };

uint32_t blob_checksum(const void *blob, size_t size);

// Computes the content of the seal: HMAC-SHA256 over the `size` bytes before it, with zeros in the checksum's place.
int blob_seal(const void *blob, size_t size, const uint8_t key[SECRET_KEY_SIZE], uint8_t seal[HMAC_SIZE]);

#endif
