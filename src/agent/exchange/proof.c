// Proofs that the party of a connection has the private key of the metadata that it shows.
#include "agent/exchange/proof.h"

#include <string.h>

#include "base/fail.h"

int proof_make(const struct proof_parties *parties, bool of_caller, uint8_t proof[HMAC_SIZE]) {
  const char *role = of_caller ? "weft meet proof caller" : "weft meet proof listener";
  const uint8_t *own = parties->own->public_key, *other = parties->other;
  uint8_t key[SECRET_KEY_SIZE], binding[TLS_BINDING_SIZE];
  const struct hmac_part parts[] = {
      {role, strlen(role)},
      {parties->own_calls ? own : other, EXCHANGE_SIZE}, // the caller's
      {parties->own_calls ? other : own, EXCHANGE_SIZE},
      {binding, sizeof binding},
  };
  int rc = tls_binding(parties->tls, binding);
  if (rc == 0)
    rc = exchange_agree(parties->own, other, "weft meet proof 1", key);
  if (rc == 0)
    rc = hmac_sha256(key, sizeof key, parts, sizeof parts / sizeof *parts, proof);
  explicit_bzero(key, sizeof key);
  return rc;
}

int proof_check(const struct proof_parties *parties, const uint8_t proof[HMAC_SIZE]) {
  uint8_t right[HMAC_SIZE];
  int rc = proof_make(parties, !parties->own_calls, right);
  if (rc == 0 && !hmac_equal(proof, right))
    rc = fail(WEFT_ERR_AUTH, "it has not proved that it is the agent whose metadata it sends");
  explicit_bzero(right, sizeof right);
  return rc;
}
