// Regions, and their registrations with workers.
#ifndef AGENT_MEMORY_REGION_H
#define AGENT_MEMORY_REGION_H

#include <weft/agent.h>

#include "agent/limits.h"
#include "agent/metadata/description.h"
#include "device/device.h"
#include "transport/transport.h"

struct agent_peer;
struct agent_worker;

// A region of this agent or of a peer.
struct agent_region {
  weft_region_t id;
  enum weft_memory_kind kind;
  uint64_t address, length; // FILE, OBJECT: address 0; length UINT64_MAX: no limit
  int32_t device;
  bool read_only, no_metadata;
  uint32_t only;             // own: bits of the workers that may have it; 0: all workers may
  bool described;            // own: it is in metadata that was made
  bool gone;                 // of a peer: it was deregistered, or the peer has ended
  uint32_t lists;            // number of lists that use it
  struct agent_peer *of;     // its owner: a peer, or &agent->self
  struct agent_region *next; // among a peer's orphans
  // By worker. This agent's regions have `local`. `remote` is made when a transfer first needs it, also for this
  // agent's own regions, by loopback.
  struct transport_region *local[AGENT_MAX_WORKERS];
  struct transport_remote *remote[AGENT_MAX_WORKERS];
  char *why[AGENT_MAX_WORKERS]; // why this worker does not have it; NULL: the worker was not tried
  // Memory that this agent owns.
  void *mapping;               // of weft_agent_allocate(); HOST
  struct device_window window; // the same; CUDA
  struct device *gpu;
  int fd;
  bool owns_fd;
  char *path;
  // Of a peer: one allocation for each worker that has a key; NULL: none.
  struct agent_key keys[AGENT_MAX_WORKERS];
};

// Makes the workers release their parts of a region, and frees it. [lock, all worker locks; not in `ranges` any more]
void agent_region_free(weft_agent_t *agent, struct agent_region *region);

// --- allocate.c: memory that the agent allocates, and peers can map ---

// Allocates HOST or CUDA memory of region->length bytes: fills in the address, the descriptor and the device. After a
// failure agent_region_free() frees the part that was made.
int agent_memory_make(struct agent_region *region);
void agent_memory_free(struct agent_region *region);

// --- enroll.c ---

// Registers the region with all workers that know its kind of memory and that may have it. At least one has to accept
// it. After a failure, the registrations that were made stay until agent_region_free(). [lock; takes worker locks]
int agent_region_enroll(weft_agent_t *agent, struct agent_region *region);
// Registers all regions of the agent with a worker that was added later. Regions that it refuses are logged. [lock]
void agent_regions_enroll(weft_agent_t *agent, struct agent_worker *worker);
// Fails with UNSUPPORTED: no worker handles this kind.
int agent_kind_unsupported(const weft_agent_t *agent, enum weft_memory_kind kind);

// --- region.c ---

// INVALID: no memory, file or object can have these properties.
int agent_memory_check(const struct weft_agent_memory *memory);

// Keeps the calling thread's last error as the reason why the worker does not have the region.
void agent_region_keep_why(struct agent_region *region, uint32_t worker);

// Writes a name for error texts, such as "region 5 (4096 bytes of host memory at 0x7f..)"; returns `text`.
const char *agent_region_name(const struct agent_region *region, char *text, size_t size);
const char *agent_kind_name(enum weft_memory_kind kind);

// For a test: sets the next id, so that ids run out.
void agent_set_next_region(weft_agent_t *agent, weft_region_t next);

#endif
