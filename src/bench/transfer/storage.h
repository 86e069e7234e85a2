// Files and objects as the other side of transfers: where each block lies in them, and what is in them.
#ifndef BENCH_TRANSFER_STORAGE_H
#define BENCH_TRANSFER_STORAGE_H

#include "bench/transfer/lane.h"

enum { TRANSFER_VARIANTS = 64 }; // places that a slot goes through where they are random

struct transfer_storage_place {
  weft_region_t region;
  char *path; // of a file, or BUCKET/KEY
  int fd;     // of a file, for its contents; -1
  bool made;  // by this run, which removes it
};

struct transfer_stored {
  const struct transfer_plan *plan;
  weft_agent_t *agent;
  struct transfer_storage_place *places;
  uint32_t count;
  bool direct; // files: past the page cache where whole pages are moved
};

// Files: of --filenames, or made in --filepath, where nothing of them stays. Objects: as many as are under way at once,
// which stay. SYSTEM, LIMIT: a file cannot be made.
int transfer_stored_open(struct transfer_stored *stored, const struct transfer_plan *plan, weft_agent_t *agent);
void transfer_stored_close(struct transfer_stored *stored);

// Block `number` of the batch of a slot: where it lies in the storage.
void transfer_stored_place(const struct transfer_stored *stored, const struct transfer_load *load, uint32_t thread,
                           uint32_t slot, uint32_t variant, uint64_t number, struct transfer_block *block);

// Files: writes the contents of a block into the file, or compares what is there. DATA.
int transfer_stored_write(struct transfer_stored *stored, const struct transfer_contents *contents,
                          const struct transfer_block *block, uint64_t size);
int transfer_stored_check(struct transfer_stored *stored, const struct transfer_contents *contents,
                          const struct transfer_block *block, uint64_t size);

// Gives the object transport what the options say, as the variables of S3 clients. [before the agent opens]
int transfer_stored_set_client(const struct transfer_config *config);

#endif
