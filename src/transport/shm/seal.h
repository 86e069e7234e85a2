// What a worker of shm says, signed, so that nobody makes or changes it in its place; also for the transports of this
// host that have a worker of shm inside (cuda).
//
// A seal is two codes (HMAC-SHA256) over the bytes: one with the secret that the worker's proof page shows to those who
// may look into its process, and one with a secret that never leaves that process. A process asks for the second too
// where something is said to be its own: so not even another process of the same user, which may look into it, can have
// it take an address or a key of its own that it has not made.
#ifndef TRANSPORT_SHM_SEAL_H
#define TRANSPORT_SHM_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secure/hmac.h"
#include "transport/transport.h"

extern const struct transport transport_shm;

enum { SHM_SECRET = 32 };

struct shm_seal {
  uint8_t own[HMAC_SIZE];    // for the process that made it
  uint8_t others[HMAC_SIZE]; // for other processes; over `own` too
};

// Seals `size` bytes of a kind ("key of cuda"), which tells them from what else is sealed. NOMEM, SYSTEM.
int shm_seal_make(const struct transport_worker *shm, const char *kind, const void *bytes, size_t size,
                  struct shm_seal *seal);
// Whether that peer's worker has sealed them. AUTH, SYSTEM.
int shm_seal_check(const struct transport_peer *shm, const char *kind, const void *bytes, size_t size,
                   const struct shm_seal *seal);

// --- what is lent without a region of shm: it gets a gate alone ---

struct shm_loan {
  uint64_t id;
  uint32_t gate;
};
// LIMIT.
int shm_loan_open(struct transport_worker *shm, struct shm_loan *loan);
void shm_loan_close(struct transport_worker *shm, const struct shm_loan *loan);
// Whether that peer's worker has it open still.
bool shm_loan_holds(const struct transport_peer *shm, const struct shm_loan *loan);

// Whether that peer's worker is in this process.
bool shm_peer_is_own(const struct transport_peer *shm);

// A duplicate of descriptor `fd` of that peer's process, which has sealed the number. UNREACHABLE, SYSTEM.
int shm_peer_descriptor(const struct transport_peer *shm, int fd, int *out);

#endif
