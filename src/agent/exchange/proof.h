// A side that sends an agent's metadata on a connection proves that it is this agent: it has the private key of the
// public key in the metadata. A seal does not prove that, since everybody who has the token can send metadata that
// another agent has sealed.
#ifndef AGENT_EXCHANGE_PROOF_H
#define AGENT_EXCHANGE_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "secure/exchange.h"
#include "secure/hmac.h"
#include "secure/tls.h"

// The two sides of a connection, as seen by the side that has the key `own`.
struct proof_parties {
  const struct exchange *own;
  const uint8_t *other; // public key of the other side, of EXCHANGE_SIZE bytes
  bool own_calls;       // the side that has `own` connected
  const struct tls *tls;
};

// The proof of the caller, or of the listener. Each of the two sides can compute both proofs; nobody else can. A proof
// is valid for this role, these two sides and this connection only. PROTOCOL: no shared key can be derived with the
// other side's key; NOMEM. [owner of tls]
int proof_make(const struct proof_parties *parties, bool of_caller, uint8_t proof[HMAC_SIZE]);

// AUTH: `proof` is not the proof of the other side. [owner of tls]
int proof_check(const struct proof_parties *parties, const uint8_t proof[HMAC_SIZE]);

#endif
