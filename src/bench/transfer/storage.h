// Files and objects as the other side of transfers: the places of blocks in them, and their contents.
#ifndef BENCH_TRANSFER_STORAGE_H
#define BENCH_TRANSFER_STORAGE_H

#include "bench/transfer/lane.h"

enum { TRANSFER_VARIANTS = 64 }; // places that a slot uses in rotation if they are random

struct transfer_storage_place {
  weft_region_t region;
  char *path; // of a file, or BUCKET/KEY
  int fd;     // of a file, for its contents; -1
  bool made;  // this run made it and removes it
};

struct transfer_stored {
  const struct transfer_plan *plan;
  weft_agent_t *agent;
  struct transfer_storage_place *places;
  uint32_t count;
  bool direct; // files: bypass the page cache if whole pages are moved
};

// Files: those of --filenames, or files made in --filepath, which are removed in the end. Objects: as many as are in
// flight at the same time; they stay. SYSTEM, LIMIT: a file cannot be made.
int transfer_stored_open(struct transfer_stored *stored, const struct transfer_plan *plan, weft_agent_t *agent);
void transfer_stored_close(struct transfer_stored *stored);

// The place in the storage of block `number` of a slot's batch.
void transfer_stored_place(const struct transfer_stored *stored, const struct transfer_load *load, uint32_t thread,
                           uint32_t slot, uint32_t variant, uint64_t number, struct transfer_block *block);

// Files: writes the contents of a block into the file, or checks them there. DATA.
int transfer_stored_write(struct transfer_stored *stored, const struct transfer_contents *contents,
                          const struct transfer_block *block, uint64_t size);
int transfer_stored_check(struct transfer_stored *stored, const struct transfer_contents *contents,
                          const struct transfer_block *block, uint64_t size);

// Passes the options to the object transport, as the environment variables of S3 clients. [before the agent opens]
int transfer_stored_set_client(const struct transfer_config *config);

#endif
