// For transports of this host that embed a worker of shm (cuda): its seals, gates and descriptors.
#ifndef TRANSPORT_SHM_EMBED_H
#define TRANSPORT_SHM_EMBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/shm/identity/seal.h"
#include "transport/transport.h"

extern const struct transport transport_shm;

// Seals `size` bytes. `kind` ("key of cuda") is sealed, too, so that other sealed bytes cannot replace these. NOMEM,
// SYSTEM.
int shm_seal_make(const struct transport_worker *shm, const char *kind, const void *bytes, size_t size,
                  struct shm_seal *seal);
// Checks that the peer's worker has sealed the bytes. AUTH, SYSTEM.
int shm_seal_check(const struct transport_peer *shm, const char *kind, const void *bytes, size_t size,
                   const struct shm_seal *seal);

// --- grants: gates for memory that is not registered with shm ---

struct shm_grant {
  uint64_t id;
  uint32_t gate;
};
// LIMIT.
int shm_grant_open(struct transport_worker *shm, struct shm_grant *grant);
void shm_grant_close(struct transport_worker *shm, const struct shm_grant *grant);
// Whether the grant of that peer's worker is still open.
bool shm_grant_holds(const struct transport_peer *shm, const struct shm_grant *grant);

// Whether that peer's worker is in this process.
bool shm_peer_is_own(const struct transport_peer *shm);

// Duplicates descriptor `fd` of that peer's process, which has sealed the number. UNREACHABLE, SYSTEM.
int shm_peer_descriptor(const struct transport_peer *shm, int fd, int *out);

#endif
