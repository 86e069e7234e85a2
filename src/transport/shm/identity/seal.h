// Seals: signatures that prevent others from making or changing the addresses and keys of a worker of shm.
//
// A seal is two codes (HMAC-SHA256) over the bytes: one with the secret in the worker's proof page, which processes
// that may examine the worker's process can read, and one with a secret that never leaves that process. If an address
// or a key names a process itself as its maker, that process also checks the second code. So even another process of
// the same user, which may examine this one, cannot make it accept an address or a key that it has not made.
#ifndef TRANSPORT_SHM_IDENTITY_SEAL_H
#define TRANSPORT_SHM_IDENTITY_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secure/hmac.h"

struct shm_home;

enum { SHM_SECRET = 32 };

struct shm_seal {
  uint8_t own[HMAC_SIZE];    // for the process that made it
  uint8_t others[HMAC_SIZE]; // for other processes; over `own` too
};

// The secrets for checking the seals of a peer.
struct shm_trust {
  uint8_t secret[SHM_SECRET], own_secret[SHM_SECRET];
  bool own; // the peer's worker is in this process; otherwise own_secret is not known
};

// Seals `size` bytes for an owner ("": nobody). `kind` ("key of cuda") is sealed, too, so that other sealed bytes
// cannot replace these. NOMEM, SYSTEM.
int shm_sign(const struct shm_home *home, const char *kind, const void *bytes, size_t size, const char *owner,
             struct shm_seal *seal);
int shm_sign_check(const struct shm_trust *trust, const char *kind, const void *bytes, size_t size, const char *owner,
                   const struct shm_seal *seal);

#endif
