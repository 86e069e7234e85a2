// Seals: signatures with which nobody makes or changes what a worker of shm says in its place.
//
// A seal is two codes (HMAC-SHA256) over the bytes: one with the secret that the worker's proof page shows to those who
// may look into its process, and one with a secret that never leaves that process. A process asks for the second too
// where something is said to be its own: so not even another process of the same user, which may look into it, can have
// it take an address or a key of its own that it has not made.
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

// Seals `size` bytes of a kind ("key of cuda"), which tells them from what else is sealed, for an owner ("": nobody).
// NOMEM, SYSTEM.
int shm_sign(const struct shm_home *home, const char *kind, const void *bytes, size_t size, const char *owner,
             struct shm_seal *seal);
int shm_sign_check(const struct shm_trust *trust, const char *kind, const void *bytes, size_t size, const char *owner,
                   const struct shm_seal *seal);

#endif
