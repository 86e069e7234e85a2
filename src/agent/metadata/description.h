// The metadata that an agent publishes, decoded. encode.c writes it, decode.c reads it.
//
// A description is complete (with the transports' addresses: enough for a new peer) or an update of one that is known.
// It names all regions, which then replaces what was known, or some, which are added. `change` counts the changes of
// the agent's regions: what is older than what is known changes nothing.
//
// The incarnation is decided by the agent's name and public key. So no agent can take another's incarnation under a
// name or a key of its own, and what two agents agree on by their keys is known to these two.
#ifndef AGENT_METADATA_DESCRIPTION_H
#define AGENT_METADATA_DESCRIPTION_H

#include "secure/exchange.h"
#include "transport/transport.h"

enum {
  AGENT_MAX_TRANSPORTS = 16,     // of an agent
  AGENT_MAX_TRANSPORT_NAME = 64, // bytes, the end included: of one with faults on purpose, too
  AGENT_MAX_HOST = 64,           // likewise
  AGENT_MAX_REGIONS = 1 << 17,   // of an agent that are published: some 100 MB at each of its peers
  AGENT_MAX_BLOB = 64 << 20,     // bytes: enough for these with four keys of 100 bytes each
  AGENT_BLOB_HEAD = 24,          // bytes before what differs between versions
};

// A transport of the agent; keys name it by its place.
struct agent_transport {
  char name[AGENT_MAX_TRANSPORT_NAME];
  const void *address; // NULL, 0: in an update that brings no addresses
  uint32_t address_size;
};

// What a peer needs to import the region by that transport.
struct agent_key {
  uint32_t transport; // place in agent_description.transports
  uint32_t size;
  const void *bytes;
};

struct agent_region_description {
  weft_region_t id;
  enum weft_memory_kind kind;
  bool read_only;
  uint64_t address, length; // FILE, OBJECT: length 0: no limit
  int32_t device;
  uint32_t num_keys;            // at most one for each transport,
  const struct agent_key *keys; // in their order
};

struct agent_description {
  char name[WEFT_AGENT_MAX_NAME];
  uint64_t incarnation;      // not 0, not WEFT_PEER_SELF; of its name and key: agent_incarnation()
  uint64_t change;           // see above
  bool complete;             // addresses are there
  bool all_regions;          // what is not among `regions` is gone
  char host[AGENT_MAX_HOST]; // the same for agents of one running kernel; "": not known
  uint64_t pid_namespace;    // inode; 0: not known
  uint64_t
      start_ticks; // when the process started, as /proc/PID/stat has it: distinguishes it from a later one of its pid
  int32_t pid;     // in its own namespace
  uint32_t heartbeat_ms;      // how often it shows that it lives; 0: not
  uint8_t key[EXCHANGE_SIZE]; // public
  uint32_t num_transports;
  uint32_t num_regions;
  struct agent_transport transports[AGENT_MAX_TRANSPORTS];
  const struct agent_region_description *regions; // by id, ascending
};

// The incarnation of an agent of that name and public key: the first 8 bytes, little-endian, of the SHA-256 of
// "weft incarnation 1", the name and the key, the texts with their NULs.
int agent_incarnation(const char *name, const uint8_t key[EXCHANGE_SIZE], uint64_t *incarnation);

// Writes it, sealed with `seal` if that is not NULL. `*size` is the space on entry and the need on return, set with
// ROOM too; `blob` may be NULL to ask.
int agent_blob_write(const struct agent_description *description, const uint8_t *seal, void *blob, size_t *size);

// Reads all of it or nothing; free() frees it, and it needs `blob` no more. AUTH: it is not sealed with `seal`, which
// is not asked for when that is NULL. PROTOCOL: damaged, or no metadata, the text says where. VERSION: of another
// version.
int agent_blob_read(const void *blob, size_t size, const uint8_t *seal, struct agent_description **description);

#endif
