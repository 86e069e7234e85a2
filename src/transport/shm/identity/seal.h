// Seals: signatures that keep others from making or changing the addresses and keys of a worker of shm.
//
// A seal is two codes (HMAC-SHA256) over the bytes: one with the secret in the worker's proof page, which processes
// that may examine the worker's process can read, and one with a secret that never leaves that process. A process also
// checks the second code of an address or a key that is said to be its own. So even another process of the same user,
// which may examine it, cannot make it accept one that it has not made.
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

// How the seals of a peer are checked.
struct shm_trust {
  uint8_t secret[SHM_SECRET], own_secret[SHM_SECRET];
  bool own; // the peer's worker is in this process; else own_secret is not known
};

// Seals `size` bytes for an owner ("": nobody). `kind` ("key of cuda") is sealed too, so that no other sealed bytes can
// stand for these. NOMEM, SYSTEM.
int shm_sign(const struct shm_home *home, const char *kind, const void *bytes, size_t size, const char *owner,
             struct shm_seal *seal);
int shm_sign_check(const struct shm_trust *trust, const char *kind, const void *bytes, size_t size, const char *owner,
                   const struct shm_seal *seal);

#endif
