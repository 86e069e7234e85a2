// The side that shows an agent's metadata on a connection proves that it is that agent: it has the private key that
// goes with the public one in there. A seal does not show that, since all who have the token can show what one of them
// has sealed.
#ifndef AGENT_EXCHANGE_PROOF_H
#define AGENT_EXCHANGE_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "secure/exchange.h"
#include "secure/hmac.h"
#include "secure/tls.h"

// The two of a connection, as the one that has `own` sees them.
struct proof_parties {
  const struct exchange *own;
  const uint8_t *other; // its public key, of EXCHANGE_SIZE bytes
  bool own_calls;       // the one that has `own` connected
  const struct tls *tls;
};

// The proof of the caller, or of the listener; each of the two can compute both, others neither. It holds for
// this role, these two and this connection. PROTOCOL: no key can be agreed on with the other's; NOMEM. [owner of tls]
int proof_make(const struct proof_parties *parties, bool of_caller, uint8_t proof[HMAC_SIZE]);

// AUTH: `proof` is not the one of the other party. [owner of tls]
int proof_check(const struct proof_parties *parties, const uint8_t proof[HMAC_SIZE]);

#endif
