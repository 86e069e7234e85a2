// For other transports of this host that have a worker of shm inside (cuda): its seals, gates and descriptors.
#ifndef TRANSPORT_SHM_EMBED_H
#define TRANSPORT_SHM_EMBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/shm/identity/seal.h"
#include "transport/transport.h"

extern const struct transport transport_shm;

// Seals `size` bytes of a kind ("key of cuda"), which tells them from what else is sealed. NOMEM, SYSTEM.
int shm_seal_make(const struct transport_worker *shm, const char *kind, const void *bytes, size_t size,
                  struct shm_seal *seal);
// Whether that peer's worker has sealed them. AUTH, SYSTEM.
int shm_seal_check(const struct transport_peer *shm, const char *kind, const void *bytes, size_t size,
                   const struct shm_seal *seal);

// --- what is lent without a region of shm: it gets a gate alone ---

struct shm_grant {
  uint64_t id;
  uint32_t gate;
};
// LIMIT.
int shm_grant_open(struct transport_worker *shm, struct shm_grant *grant);
void shm_grant_close(struct transport_worker *shm, const struct shm_grant *grant);
// Whether that peer's worker has it open still.
bool shm_grant_holds(const struct transport_peer *shm, const struct shm_grant *grant);

// Whether that peer's worker is in this process.
bool shm_peer_is_own(const struct transport_peer *shm);

// A duplicate of descriptor `fd` of that peer's process, which has sealed the number. UNREACHABLE, SYSTEM.
int shm_peer_descriptor(const struct transport_peer *shm, int fd, int *out);

#endif
