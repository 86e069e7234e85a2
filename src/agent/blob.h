// The format of metadata: what blob_write.c and blob_read.c share. docs/design.md explains it.
#ifndef AGENT_BLOB_H
#define AGENT_BLOB_H

#include "agent/description.h"

#define BLOB_MAGIC "WEFTMETA" // 8 bytes, no NUL

enum {
  BLOB_VERSION = 1,        // what is written
  BLOB_MINIMUM_READER = 1, // the oldest version that can read it
  BLOB_AT_CHECKSUM = 12,   // u32, reckoned with zeros in its place
  BLOB_AT_SIZE = 16,       // u64
  BLOB_SECTION_HEAD = 8,   // u16 section, u16 zero, u32 bytes that follow
};

// In this order, each at most once. What a reader does not know it passes over.
enum blob_section { BLOB_IDENTITY = 1, BLOB_TRANSPORTS = 2, BLOB_REGIONS = 3 };

enum blob_flag { BLOB_COMPLETE = 1 << 0, BLOB_ALL_REGIONS = 1 << 1 };
enum blob_region_flag { BLOB_READ_ONLY = 1 << 0 };

uint32_t blob_checksum(const void *blob, size_t size);

#endif
