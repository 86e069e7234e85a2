// Regions as their workers have them.
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
  uint32_t only;             // own: bits of the workers that may have it; 0: all
  bool described;            // own: metadata was made that has it
  bool gone;                 // of a peer: it was deregistered, or the peer is
  uint32_t lists;            // that use it
  struct agent_peer *of;     // whose it is: a peer's, or &agent->self
  struct agent_region *next; // among a peer's orphans
  // By worker. Of this agent: `local`. `remote` comes when a transfer first needs it, for this agent by loopback.
  struct transport_region *local[AGENT_MAX_WORKERS];
  struct transport_remote *remote[AGENT_MAX_WORKERS];
  char *why[AGENT_MAX_WORKERS]; // why this worker does not have it; NULL: it was not asked
  // Of this agent: what it owns.
  void *mapping;               // of weft_agent_allocate(); HOST
  struct device_window window; // likewise; CUDA
  struct device *gpu;
  int fd;
  bool owns_fd;
  char *path;
  // Of a peer: one block for each worker that has a key; NULL: none.
  struct agent_key keys[AGENT_MAX_WORKERS];
};

// Lets the workers release what they have of a region, and frees it. [lock, all worker locks; not in `ranges` any more]
void agent_region_free(weft_agent_t *agent, struct agent_region *region);

// --- allocate.c: memory that the agent allocates, and peers can map ---

// HOST or CUDA, of region->length bytes: fills in the address, the descriptor and the device. What was made before a
// failure is agent_region_free()'s to give back.
int agent_memory_make(struct agent_region *region);
void agent_memory_free(struct agent_region *region);

// --- enroll.c ---

// Registers it with all workers that know its kind and that it may go to. At least one has to take it; on a failure
// the others keep what they have until agent_region_free(). [lock; takes worker locks]
int agent_region_enroll(weft_agent_t *agent, struct agent_region *region);
// Registers all regions of the agent with a worker that came later; what it refuses is logged. [lock]
void agent_regions_enroll(weft_agent_t *agent, struct agent_worker *worker);
// Fails with UNSUPPORTED: no worker handles this kind.
int agent_kind_unsupported(const weft_agent_t *agent, enum weft_memory_kind kind);

// --- region.c ---

// INVALID: no memory, file or object can be what this says.
int agent_memory_check(const struct weft_agent_memory *memory);

// Keeps the calling thread's last error as the reason why the worker does not have it.
void agent_region_keep_why(struct agent_region *region, uint32_t worker);

// "region 5 (4096 bytes of host memory at 0x7f..)": for sentences; returns `text`.
const char *agent_region_name(const struct agent_region *region, char *text, size_t size);
const char *agent_kind_name(enum weft_memory_kind kind);

// For the test of what happens when ids run out.
void agent_set_next_region(weft_agent_t *agent, weft_region_t next);

#endif
