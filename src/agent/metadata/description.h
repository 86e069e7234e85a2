// The metadata that an agent publishes, decoded. encode.c writes it, decode.c reads it.
//
// A description is complete (with the transports' addresses: enough for a new peer), or an update for a known peer. It
// has all regions, which then replace the known ones, or only some, which are added. `change` counts the changes of the
// agent's regions: a description that is older than the known state changes nothing.
//
// The agent's name and public key determine the incarnation. So no agent can have another agent's incarnation with a
// name or a key of its own, and only two agents know the secret that they derive from their keys.
#ifndef AGENT_METADATA_DESCRIPTION_H
#define AGENT_METADATA_DESCRIPTION_H

#include "secure/exchange.h"
#include "transport/transport.h"

enum {
  AGENT_MAX_TRANSPORTS = 16,     // transports of an agent
  AGENT_MAX_TRANSPORT_NAME = 64, // bytes with the NUL; also enough for a transport with faults on purpose
  AGENT_MAX_HOST = 64,           // bytes with the NUL
  AGENT_MAX_REGIONS = 1 << 17,   // published regions of an agent: some 100 MB at each of its peers
  AGENT_MAX_BLOB = 64 << 20,     // bytes: enough for AGENT_MAX_REGIONS with four keys of 100 bytes each
  AGENT_BLOB_HEAD = 24,          // bytes at the beginning that are the same in all versions
};

// A transport of the agent. Keys refer to it by its index.
struct agent_transport {
  char name[AGENT_MAX_TRANSPORT_NAME];
  const void *address; // NULL, 0: in an update that brings no addresses
  uint32_t address_size;
};

// The key that a peer needs to import the region through that transport.
struct agent_key {
  uint32_t transport; // index in agent_description.transports
  uint32_t size;
  const void *bytes;
};

struct agent_region_description {
  weft_region_t id;
  enum weft_memory_kind kind;
  bool read_only;
  uint64_t address, length; // FILE, OBJECT: length 0: no limit
  int32_t device;
  uint32_t num_keys;            // at most one for each transport
  const struct agent_key *keys; // in the order of the transports
};

struct agent_description {
  char name[WEFT_AGENT_MAX_NAME];
  uint64_t incarnation;      // neither 0 nor WEFT_PEER_SELF; derived from name and key by agent_incarnation()
  uint64_t change;           // see above
  bool complete;             // it has the transports' addresses
  bool all_regions;          // regions that are not in `regions` are gone
  char host[AGENT_MAX_HOST]; // the same for all agents on one running kernel; "": not known
  uint64_t pid_namespace;    // inode; 0: not known
  uint64_t start_ticks;  // start time of the process, from /proc/PID/stat: distinguishes it from a later process with
                         // the same pid
  int32_t pid;           // in its own namespace
  uint32_t heartbeat_ms; // interval at which it sends a sign of life; 0: none
  uint8_t key[EXCHANGE_SIZE]; // public
  uint32_t num_transports;
  uint32_t num_regions;
  struct agent_transport transports[AGENT_MAX_TRANSPORTS];
  const struct agent_region_description *regions; // by id, ascending
};

// The incarnation of an agent with that name and public key: the first 8 bytes, little-endian, of the SHA-256 of "weft
// incarnation 1", the name and the key, the texts with their NULs.
int agent_incarnation(const char *name, const uint8_t key[EXCHANGE_SIZE], uint64_t *incarnation);

// Writes the description, sealed with `seal` unless that is NULL. `*size` is the space on entry and the size needed on
// return, also after ROOM. `blob` may be NULL to ask for the size.
int agent_blob_write(const struct agent_description *description, const uint8_t *seal, void *blob, size_t *size);

// Reads a whole description or nothing. free() frees the result, which does not refer to `blob`. AUTH: the metadata is
// not sealed with `seal`; with NULL this is not checked. PROTOCOL: damaged, or no metadata; the text says where.
// VERSION: it has another version.
int agent_blob_read(const void *blob, size_t size, const uint8_t *seal, struct agent_description **description);

#endif
